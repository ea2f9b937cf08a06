"""The procedure of Xiao et al. 2023 ("Efficient Streaming Language Models with Attention Sinks"), slowly.

This is what the product is judged against, so it shares nothing with it: one token at a time, keys and values in
plain Python lists, keys kept UNROTATED, and at every step every key is rotated again. The transformer layers are run
by hand from the model's own modules (embedding, norms, projections, MLP, output head).

Words
    W               entries that a query may see, the sinks and its own entry included
    S               the first S tokens of the sequence, kept for good under the policy "sinks"
    recents         all other entries; W - S of them at most under "sinks", W under "window"
    index           an entry's place in the cache, counted from 0: sinks first, then the recents, oldest first.
                    The query is the newest recent, so its index is the number of entries that it sees, minus one.
    true position   `start_position` + the number of tokens fed before. `start_position` is added to EVERY position:
                    the first token, which is the first sink, stands at `start_position` too. `distance` is added to
                    that of the tokens after the first S alone.

A query uses the policy, window and positions in force at the step that feeds it.

    positions="cache"       every key is rotated by its index, the query by its own index
    positions="absolute"    every key is rotated by its true position, the query by its own true position

Live changes
    sinks -> window     a gap between the sinks and the recents: all S sinks leave at once, and the entries refill to
                        W by new tokens. No gap (nothing between them was evicted): they become the oldest recents.
    window -> sinks     those of the first S tokens that are still here become sinks. The others are computed again,
                        by the first S tokens alone; the oldest recents leave, as many as needed to make room.
    window N            smaller: the oldest recents leave at once; larger: the cache grows by new tokens alone.
    recompute           keeps the first S tokens as "sinks" does. With W entries held, when a token is to be fed, the
                        older half of the recents leaves (of an odd number the larger half), and what is left is run
                        again from nothing, as a text of its own.
    -> full             only while nothing is missing; after that it would be a replay, which is another procedure.

`evicted_total` counts each entry that left, once per stay; `readmitted_total` each sink that was computed again. So
always: entries + evicted_total - readmitted_total = tokens fed.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

POLICIES = ("sinks", "window", "full", "recompute")
KEEPING = ("sinks", "recompute")
POSITIONS = ("cache", "absolute")

# What happens before the token of that number (0 is the first) is fed:
# {40: [("policy", "window")], 70: [("policy", "sinks"), ("window", 24)], 90: [("positions", "absolute")]}
Schedule = Mapping[int, Sequence[tuple[str, object]]]


@dataclass(frozen=True)
class Step:
    """What the model did with one token."""

    token: int
    position: int  # its true position
    logits: torch.Tensor  # [V]
    attention: torch.Tensor | None  # [layers, heads, entries]; the query's own entry is the last
    visible: tuple[int, ...]  # true positions of the entries it saw, in cache order, its own last
    sinks: int  # how many of them, at the front, are sinks
    index: int  # the query's own index in the cache
    evicted_total: int
    readmitted_total: int

    @property
    def entries(self) -> int:
        return len(self.visible)

    @property
    def sink_share(self) -> torch.Tensor:
        """[layers, heads]: the part of the attention that lands on the sinks."""
        return self.share(self.sinks)

    def share(self, oldest: int) -> torch.Tensor:
        """[layers, heads]: the part of the attention that lands on the `oldest` first entries."""
        assert self.attention is not None, "run with keep_attention=True"
        return self.attention[:, :, :oldest].sum(dim=-1)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """So many small operations are slow, and very slow on busy cores, when each is split over threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class Paper:
    """A llama-like model, run by hand. Another family overrides the methods under "the model's own modules"."""

    families: tuple[str, ...] = ("llama",)

    def __init__(
        self,
        model: torch.nn.Module,
        sinks: int = 4,
        window: int = 32,
        policy: str = "sinks",
        positions: str = "cache",
        start_position: int = 0,
        keep_attention: bool = True,
        distance: int = 0,
    ) -> None:
        self.model = model
        self.check_model()
        self.S = sinks
        self.W = window
        self.positions = positions
        self.policy = policy
        self.start_position = start_position
        self.distance = distance
        self.near = sinks if policy in KEEPING else 0  # how many tokens `distance` leaves where they are
        self.keep_attention = keep_attention
        self.check_settings()

        self.tokens: list[int] = []  # everything fed so far
        self.sink_count = 0  # how many entries at the front of the cache are sinks now
        self.evicted_total = 0
        self.readmitted_total = 0
        # cache[layer] = [(true position, unrotated key [kv heads, D], value [kv heads, D]), ...] in cache order
        self.cache: list[list[tuple[int, torch.Tensor, torch.Tensor]]] = [[] for _ in self.layers()]

    # ---- the model's own modules ----------------------------------------------------------------------------------

    def check_model(self) -> None:
        """Refuse what this class would get wrong without a word."""
        config = self.model.config
        if config.model_type not in self.families:
            raise ValueError(f"{type(self).__name__} knows {self.families}, not {config.model_type!r}")
        if config.rope_parameters["rope_type"] in ("dynamic", "longrope"):
            raise ValueError("this rotary table changes with the length of the sequence")
        if self.model.dtype not in (torch.float32, torch.float64):
            raise ValueError(f"a reference is run in float32 or float64, not {self.model.dtype}")
        for layer in self.layers():
            names = {name for name, _ in layer.self_attn.named_children()}
            if names != {"q_proj", "k_proj", "v_proj", "o_proj"}:
                raise ValueError(f"unknown parts in the attention: {sorted(names)}")

    def layers(self) -> Sequence[torch.nn.Module]:
        return self.model.model.layers

    def embed(self, token: int) -> torch.Tensor:
        """[1, hidden]"""
        return self.model.model.embed_tokens(torch.tensor([token], device=self.model.device))

    def before_attention(self, layer: torch.nn.Module, hidden: torch.Tensor) -> torch.Tensor:
        return layer.input_layernorm(hidden)

    def project(self, layer: torch.nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The unrotated query [heads, D], and key and value [kv heads, D], of one token."""
        attention = layer.self_attn
        head_dim = attention.head_dim
        query = attention.q_proj(x).reshape(-1, head_dim)
        key = attention.k_proj(x).reshape(-1, head_dim)
        value = attention.v_proj(x).reshape(-1, head_dim)
        return query, key, value

    def inv_freq(self, layer_number: int) -> tuple[torch.Tensor, float]:
        """The layer's rotary table, and the factor of cos and sin that comes with some types (1 for most)."""
        rotary = self.model.model.rotary_emb
        return rotary.inv_freq, float(rotary.attention_scaling)

    def scaling(self, layer: torch.nn.Module) -> float:
        return layer.self_attn.scaling

    def probabilities(self, layer: torch.nn.Module, scores: torch.Tensor) -> torch.Tensor:
        """[heads, entries] -> [heads, entries]"""
        return torch.softmax(scores, dim=-1)

    def after_attention(self, layer: torch.nn.Module, hidden: torch.Tensor, mixed: torch.Tensor) -> torch.Tensor:
        """`mixed` [heads, D] is what the heads read from the values."""
        hidden = hidden + layer.self_attn.o_proj(mixed.reshape(1, -1))
        return hidden + layer.mlp(layer.post_attention_layernorm(hidden))

    def head(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.model.lm_head(self.model.model.norm(hidden))[0]

    # ---- rotary ---------------------------------------------------------------------------------------------------

    def cos_sin(self, layer_number: int, places: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """[len(places), 1, pairs] each; the angles are float64, whatever the model is."""
        inv_freq, factor = self.inv_freq(layer_number)
        angles = torch.tensor(places, dtype=torch.float64)[:, None] * inv_freq.to("cpu", torch.float64)[None, :]
        cos = (angles.cos() * factor).to(self.model.device, self.model.dtype)
        sin = (angles.sin() * factor).to(self.model.device, self.model.dtype)
        return cos[:, None, :], sin[:, None, :]

    @staticmethod
    def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """Half-split: dimension i is paired with i + pairs. Dimensions behind the pairs are not rotated."""
        pairs = cos.shape[-1]
        first, second, rest = x[..., :pairs], x[..., pairs : 2 * pairs], x[..., 2 * pairs :]
        return torch.cat([first * cos - second * sin, second * cos + first * sin, rest], dim=-1)

    # ---- which entries there are ----------------------------------------------------------------------------------

    def held(self) -> list[int]:
        """The true positions in the cache, in cache order."""
        return [position for position, _, _ in self.cache[0]]

    def evict(self, place: int, count: int) -> None:
        """`count` entries from the cache index `place` on leave, in every layer."""
        for entries in self.cache:
            assert place + count <= len(entries)
            del entries[place : place + count]
        self.evicted_total += count

    def evict_down_to(self, most: int) -> None:
        """The oldest recents leave until no more than `most` entries are left."""
        excess = len(self.cache[0]) - most
        if self.policy != "full" and excess > 0:
            self.evict(self.sink_count, excess)

    # ---- live changes ---------------------------------------------------------------------------------------------

    def check_settings(self) -> None:
        if self.policy not in POLICIES or self.positions not in POSITIONS:
            raise ValueError(f"no such policy or positions: {self.policy!r}, {self.positions!r}")
        if self.S < 0 or self.W <= self.S:
            raise ValueError(f"a window of {self.W} leaves no room beside {self.S} sinks")

    def set_positions(self, positions: str) -> None:
        self.positions = positions
        self.check_settings()

    def set_window(self, window: int) -> None:
        self.W = window
        self.check_settings()
        self.evict_down_to(self.W)

    def set_policy(self, policy: str) -> None:
        if policy == self.policy:
            return
        if policy == "full":
            if len(self.cache[0]) != len(self.tokens):
                raise ValueError("after evictions, the full cache would have to be built again")
            self.sink_count = 0
        elif policy == "window":
            self.let_sinks_go()
        elif policy in KEEPING:
            self.bring_sinks_back()
        self.policy = policy
        self.check_settings()
        self.evict_down_to(self.W)

    def let_sinks_go(self) -> None:
        held = self.held()
        count = self.sink_count
        gap = 0 < count < len(held) and held[count] != held[count - 1] + 1
        if gap:
            self.evict(0, count)
        self.sink_count = 0  # without a gap they are the oldest recents from now on

    @torch.no_grad()
    def bring_sinks_back(self) -> None:
        held = self.held()
        wanted = range(self.start_position, self.start_position + min(self.S, len(self.tokens)))
        missing = [position for position in wanted if position not in held]
        still_here = len(wanted) - len(missing)  # at the front, being the oldest
        assert held[:still_here] == list(wanted[len(missing) :])

        room = len(held) + len(missing) - self.W
        if missing and room > 0:
            self.evict(still_here, room)

        if missing:  # run the first S tokens alone; they never saw anything but each other
            alone = type(self)(
                self.model, policy="full", positions=self.positions, start_position=self.start_position
            )
            alone.feed(self.tokens[: len(wanted)])
            for entries, fresh in zip(self.cache, alone.cache, strict=True):
                entries[:still_here] = fresh
            self.readmitted_total += len(missing)
        self.sink_count = len(wanted)

    def change(self, what: str, value: object) -> None:
        """("policy", "window"), ("window", 24) or ("positions", "absolute")."""
        {"policy": self.set_policy, "window": self.set_window, "positions": self.set_positions}[what](value)

    @torch.no_grad()
    def recompute(self) -> None:
        recents = len(self.cache[0]) - self.sink_count
        self.evict(self.sink_count, math.ceil(recents / 2))
        held = self.held()
        alone = type(self)(self.model, policy="full", positions=self.positions)
        alone.true_position = held.__getitem__
        alone.feed([self.tokens[position - self.start_position] for position in held])
        self.cache = alone.cache

    # ---- one token ------------------------------------------------------------------------------------------------

    def true_position(self, number: int) -> int:
        return self.start_position + number + (self.distance if number >= self.near else 0)

    @torch.no_grad()
    def step(self, token: int) -> Step:
        number = len(self.tokens)
        true_position = self.true_position(number)
        if self.policy == "recompute" and len(self.cache[0]) >= self.W:
            self.recompute()
        self.tokens.append(int(token))

        # Make room for the entry of this token. It is a sink itself if it is one of the first S.
        self.evict_down_to(self.W - 1)
        if self.policy in KEEPING and number < self.S:
            self.sink_count = number + 1

        # Places of all entries, the query's own (the last) included.
        visible = [*self.held(), true_position]
        places = list(range(len(visible))) if self.positions == "cache" else visible

        attention = []
        hidden = self.embed(token)
        for layer_number, layer in enumerate(self.layers()):
            query, key, value = self.project(layer, self.before_attention(layer, hidden))
            entries = self.cache[layer_number]
            entries.append((true_position, key, value))
            assert [position for position, _, _ in entries] == visible

            keys = torch.stack([key for _, key, _ in entries])  # [entries, kv heads, D], unrotated
            values = torch.stack([value for _, _, value in entries])
            cos, sin = self.cos_sin(layer_number, places)
            keys = self.rotate(keys, cos, sin)
            query = self.rotate(query[None], cos[-1:], sin[-1:])[0]

            group = query.shape[0] // keys.shape[1]  # query heads that share one key head
            keys = keys.repeat_interleave(group, dim=1)  # [entries, heads, D]
            values = values.repeat_interleave(group, dim=1)
            scores = torch.einsum("hd,ehd->he", query, keys) * self.scaling(layer)
            weights = self.probabilities(layer, scores)
            mixed = torch.einsum("he,ehd->hd", weights, values)

            attention.append(weights)
            hidden = self.after_attention(layer, hidden, mixed)

        return Step(
            token=int(token),
            position=true_position,
            logits=self.head(hidden),
            attention=torch.stack(attention) if self.keep_attention else None,
            visible=tuple(visible),
            sinks=self.sink_count,
            index=len(visible) - 1,
            evicted_total=self.evicted_total,
            readmitted_total=self.readmitted_total,
        )

    def feed(self, tokens: Iterable[int], schedule: Schedule | None = None) -> list[Step]:
        """Feed the tokens one by one. Numbers in the schedule count from the first token ever fed."""
        steps = []
        with one_thread():
            for token in tokens:
                for what, value in (schedule or {}).get(len(self.tokens), ()):
                    self.change(what, value)
                steps.append(self.step(token))
        return steps


def run(
    model: torch.nn.Module,
    tokens: Iterable[int],
    sinks: int = 4,
    window: int = 32,
    policy: str = "sinks",
    positions: str = "cache",
    start_position: int = 0,
    schedule: Schedule | None = None,
    keep_attention: bool = True,
    distance: int = 0,
) -> list[Step]:
    """All tokens from an empty cache; one Step for each."""
    paper = Paper(model, sinks, window, policy, positions, start_position, keep_attention, distance)
    return paper.feed(tokens, schedule)


def logits_of(steps: Sequence[Step]) -> torch.Tensor:
    """[T, V]"""
    return torch.stack([step.logits for step in steps])


def losses_of(steps: Sequence[Step]) -> list[float | None]:
    """Nats of each token, from the logits before it; None for the first."""
    losses: list[float | None] = [None]
    for before, step in itertools.pairwise(steps):
        losses.append(-torch.log_softmax(before.logits.double(), dim=-1)[step.token].item())
    return losses


def perplexity(steps: Sequence[Step], first: int = 1) -> float:
    """Of the tokens from number `first` on."""
    losses = [loss for loss in losses_of(steps)[first:] if loss is not None]
    return math.exp(sum(losses) / len(losses))
