"""Two more witnesses, in which the model's OWN eager attention does the work.

`visibility` plays the bookkeeping through with plain sets, apart from paper.py: which tokens does each query see?

`run_masked` runs the whole sequence at once through the model, under an explicit 4D mask made of that. It is what
positions="absolute" means. (The model's own angles are float32: keep its positions small, a few thousand at most.)

`run_placed` runs the model one token at a time. Before each, a fresh cache is filled with the visible tokens' keys,
rotated by the model's own rotary to their index among the visible, and the token is given its own index as position.
It is what positions="cache" means.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from transformers import DynamicCache
from transformers.models.llama.modeling_llama import rotate_half

Schedule = Mapping[int, Sequence[tuple[str, object]]]


@dataclass(frozen=True)
class Visibility:
    """Token numbers count from 0; no start position is in them."""

    seen: list[set[int]]  # for each token, the tokens that it sees, itself included
    sinks: list[set[int]]  # for each token, those of them that are sinks
    evicted_total: list[int]  # after each token
    readmitted_total: list[int]
    positions: list[str]  # "cache" or "absolute", for each token
    windows: list[int | None]  # for each token, the window in force; None: the full cache

    def matrix(self) -> torch.Tensor:
        """[T, T] of bool: row sees column."""
        count = len(self.seen)
        return torch.tensor([[column in seen for column in range(count)] for seen in self.seen], dtype=torch.bool)


def visibility(
    count: int,
    sinks: int,
    window: int,
    policy: str = "sinks",
    schedule: Schedule | None = None,
    positions: str = "cache",
) -> Visibility:
    """Play `count` tokens through. The schedule is written as in paper.py."""
    assert 0 <= sinks < window
    result = Visibility([], [], [], [], [], [])
    here: set[int] = set()
    pinned: set[int] = set()
    evicted = readmitted = 0

    for now in range(count):
        for what, value in (schedule or {}).get(now, ()):
            before = set(here)
            if what == "positions":
                positions = str(value)
            elif what == "window":
                window = int(value)  # type: ignore[call-overload]
                assert window > sinks
            elif what == "policy" and value != policy:
                policy = str(value)
                if policy == "full":
                    assert here == set(range(now)), "a full cache cannot come back"
                    pinned = set()
                elif policy == "window":
                    unbroken = here == set(range(len(here)))
                    if not unbroken:
                        here -= pinned
                    pinned = set()
                elif policy == "sinks":
                    pinned = {token for token in range(sinks) if token < now}
                    here |= pinned
            while policy != "full" and len(here) > window:
                here.remove(min(here - pinned))
            evicted += len(before - here)
            readmitted += len(here - before)

        here.add(now)
        if policy == "sinks" and now < sinks:
            pinned.add(now)
        while policy != "full" and len(here) > window:
            here.remove(min(here - pinned))
            evicted += 1

        result.seen.append(set(here))
        result.sinks.append(set(pinned))
        result.evicted_total.append(evicted)
        result.readmitted_total.append(readmitted)
        result.positions.append(positions)
        result.windows.append(None if policy == "full" else window)
    return result


@dataclass(frozen=True)
class Masked:
    logits: torch.Tensor  # [T, V]
    attentions: torch.Tensor  # [layers, heads, T, T]; exactly 0 where the row does not see the column


def check_eager(model: torch.nn.Module) -> None:
    if model.config._attn_implementation != "eager":
        raise ValueError('load the model with attn_implementation="eager"')


@torch.no_grad()
def run_masked(
    model: torch.nn.Module, tokens: Iterable[int], seen: torch.Tensor | Visibility, start_position: int = 0
) -> Masked:
    """The model's own forward over the whole sequence; `seen` is a Visibility or a [T, T] matrix of bool."""
    check_eager(model)
    matrix = seen.matrix() if isinstance(seen, Visibility) else seen
    ids = torch.tensor([list(tokens)], device=model.device)
    count = ids.shape[1]
    assert matrix.shape == (count, count)
    assert matrix.diagonal().all(), "every query sees itself"
    assert not matrix.triu(1).any(), "no query sees what comes after it"
    mask = torch.zeros(count, count, dtype=model.dtype).masked_fill(~matrix, float("-inf"))
    output = model(
        input_ids=ids,
        attention_mask=mask[None, None].to(model.device),
        position_ids=torch.arange(start_position, start_position + count, device=model.device)[None],
        use_cache=False,
        output_attentions=True,
    )
    return Masked(output.logits[0], torch.cat(output.attentions))


def causal(count: int) -> torch.Tensor:
    """[T, T]: the full cache."""
    return torch.ones(count, count, dtype=torch.bool).tril()


@dataclass(frozen=True)
class Placed:
    logits: torch.Tensor  # [T, V]
    attentions: list[torch.Tensor]  # for each token [layers, heads, entries], in cache order, its own last


@torch.no_grad()
def run_placed(model: torch.nn.Module, tokens: Iterable[int], seen: Visibility) -> Placed:
    """Llama family only. Tokens for which the positions are "absolute" are placed by their token number."""
    check_eager(model)
    ids = list(tokens)
    layers = model.model.layers
    head_dim = layers[0].self_attn.head_dim
    keys: list[dict[int, torch.Tensor]] = [{} for _ in layers]  # keys[layer][token], unrotated [kv heads, D]
    values: list[dict[int, torch.Tensor]] = [{} for _ in layers]
    now = 0

    def remember(store: dict[int, torch.Tensor]):  # type: ignore[no-untyped-def]
        def hook(module: torch.nn.Module, args: object, output: torch.Tensor) -> None:
            store[now] = output.reshape(-1, head_dim)

        return hook

    hooks = []
    for number, layer in enumerate(layers):
        hooks.append(layer.self_attn.k_proj.register_forward_hook(remember(keys[number])))
        hooks.append(layer.self_attn.v_proj.register_forward_hook(remember(values[number])))
    logits, attentions = [], []
    try:
        for now, token in enumerate(ids):
            others = sorted(seen.seen[now] - {now})
            places = list(range(len(others) + 1)) if seen.positions[now] == "cache" else [*others, now]
            cache = DynamicCache()
            if others:
                like = keys[0][others[0]]
                cos, sin = model.model.rotary_emb(like, torch.tensor([places[:-1]], device=model.device))
                for number in range(len(layers)):
                    key = torch.stack([keys[number][other] for other in others], dim=1)[None]  # [1, kv, entries, D]
                    value = torch.stack([values[number][other] for other in others], dim=1)[None]
                    cache.update(key * cos[:, None] + rotate_half(key) * sin[:, None], value, number)
            output = model(
                input_ids=torch.tensor([[token]], device=model.device),
                position_ids=torch.tensor([places[-1:]], device=model.device),
                cache=cache,
                use_cache=True,
                output_attentions=True,
            )
            logits.append(output.logits[0, -1])
            attentions.append(torch.cat([weights[:, :, -1] for weights in output.attentions]))
    finally:
        for hook in hooks:
            hook.remove()
    return Placed(torch.stack(logits), attentions)
