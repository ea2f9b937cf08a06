"""Witnesses for any rotary decoder: the model's own eager attention modules, told what to see and where.

Nothing here knows how a family rotates, normalises or groups its heads, or which of its layers have rotary positions.
All of that is the model's own code. Only the arguments of its attention modules are changed, by hooks on them.

    `run_masked`    positions="absolute". One forward over the whole sequence. Each layer's mask is replaced by an
                    explicit one.

    `run_placed`    positions="cache". One forward per token, of that token alone. An attention module is given, in
                    place of its one input, the inputs that the visible tokens once gave to it, in cache order, and
                    the angles of their places. So it makes their keys and values anew, each rotated at its place;
                    the last row of what it returns is the token's. An entry's key and value depend on nothing but
                    that input, which stays what it was when the token was fed: this is the paper's procedure of
                    unrotated keys that are rotated anew at every step, at the cost of a projection per entry.

A layer that was trained with a window of its own, w <= W, sees of the held entries those less than w away, and places
them at their true positions. It has no sinks of its own: a sink counts only while it is that near. Where w > W the
cache is the narrower of the two, and the layer is like any other. Which layers have such a window is read off the
masks that the model makes for itself, not off its config.

A rotary table that depends on the length of the sequence ("dynamic", "longrope") is chosen once, by `fix_tables`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from tests.reference.eager import Placed, Visibility, check_eager

OwnWindows = Sequence["int | None"]
Arguments = dict[str, Any]
Change = Callable[[int, Arguments], Arguments]
Seen = Callable[[int, Any], Any]


def attention_modules(model: nn.Module) -> list[nn.Module]:
    """The modules that make keys and attend, by layer."""
    found = {
        module.layer_idx: module
        for module in model.modules()
        if type(module).__name__.endswith("Attention") and isinstance(getattr(module, "layer_idx", None), int)
    }
    assert sorted(found) == list(range(model.config.get_text_config().num_hidden_layers)), sorted(found)
    return [found[layer] for layer in sorted(found)]


@contextlib.contextmanager
def hooked(model: nn.Module, change: Change, seen: Seen | None = None) -> Iterator[None]:
    """`change(layer, arguments)` gives the arguments for each attention module; `seen(layer, output)` its output."""

    def before(layer: int) -> Any:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: Arguments) -> tuple[tuple[()], Arguments]:
            assert len(args) <= 1, "only the input is ever passed by its place"
            return (), change(layer, kwargs | ({"hidden_states": args[0]} if args else {}))

        return hook

    def after(layer: int) -> Any:
        return lambda module, args, kwargs, output: seen(layer, output) if seen else None

    handles = []
    for layer, module in enumerate(attention_modules(model)):
        handles.append(module.register_forward_pre_hook(before(layer), with_kwargs=True))
        handles.append(module.register_forward_hook(after(layer), with_kwargs=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def own_windows(model: nn.Module, longest: int = 48) -> list[int | None]:
    """For each layer, how many of `longest` entries its last query sees (None: all), by the model's own masks."""
    check_eager(model)
    masks: dict[int, Tensor] = {}

    def keep(layer: int, arguments: Arguments) -> Arguments:
        masks[layer] = arguments["attention_mask"]
        return arguments

    with hooked(model, keep):
        model(input_ids=torch.zeros(1, longest, dtype=torch.long), use_cache=False)
    windows = []
    for layer in sorted(masks):
        row = masks[layer][0, 0, -1] > torch.finfo(masks[layer].dtype).min / 2
        count = int(row.sum())
        assert bool(row[-count:].all()), "a window is the newest entries without a gap"
        windows.append(None if count == longest else count)
    return windows


def fix_tables(model: nn.Module, length: int) -> None:
    """Choose every rotary table once, as the family's rope type has it for a sequence of `length` tokens."""
    config = model.config.get_text_config()
    for module in model.modules():
        kinds = getattr(module, "rope_type", None)
        if kinds is None:
            continue
        each = kinds.items() if isinstance(kinds, dict) else [(None, kinds)]
        for layer_type, kind in list(each):
            if kind not in ("dynamic", "longrope"):
                continue
            table, factor = ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=length, layer_type=layer_type)
            prefix = "" if layer_type is None else f"{layer_type}_"
            setattr(module, f"{prefix}inv_freq", nn.Buffer(table.float(), persistent=False))
            setattr(module, f"{prefix}attention_scaling", factor)
            if isinstance(kinds, dict):
                kinds[layer_type] = "fixed"
            else:
                module.rope_type = "fixed"


def binds(own: int | None, window: int | None) -> bool:
    """Whether a layer's own window is in force beside that of the cache (None: the full cache)."""
    return own is not None and (window is None or own <= window)


def sees(seen: Visibility, own: int | None) -> list[set[int]]:
    """What each token sees in a layer with this window of its own."""
    return [
        {other for other in row if not binds(own, window) or now - other < own}
        for now, (row, window) in enumerate(zip(seen.seen, seen.windows, strict=True))
    ]


@dataclass(frozen=True)
class Masked:
    logits: Tensor  # [T, V]
    attentions: Tensor  # [layers, heads, T, T]; exactly 0 where the row does not see the column


@torch.no_grad()
def run_masked(model: nn.Module, tokens: Iterable[int], seen: Visibility, own: OwnWindows) -> Masked:
    """The model's own forward over the whole sequence, at true positions; `own` as `own_windows` gives it."""
    check_eager(model)
    ids = torch.tensor([list(tokens)])
    count = ids.shape[1]
    masks: dict[int | None, Tensor] = {}
    for window in set(own):
        rows = sees(seen, window)
        allowed = torch.tensor([[column in row for column in range(count)] for row in rows])
        assert allowed.diagonal().all(), "every query sees itself"
        assert not allowed.triu(1).any(), "no query sees what comes after it"
        masks[window] = torch.zeros(count, count).masked_fill(~allowed, float("-inf"))[None, None]
    weights: dict[int, Tensor] = {}

    def change(layer: int, arguments: Arguments) -> Arguments:
        return arguments | {"attention_mask": masks[own[layer]]}

    def keep(layer: int, output: Any) -> None:
        weights[layer] = output[1][0]

    with hooked(model, change, keep):
        logits = model(
            input_ids=ids,
            attention_mask=masks[own[0]],  # replaced in every layer; given so that the model makes none
            position_ids=torch.arange(count)[None],
            use_cache=False,
        ).logits[0]
    return Masked(logits, torch.stack([weights[layer] for layer in sorted(weights)]))


@torch.no_grad()
def run_placed(model: nn.Module, tokens: Iterable[int], seen: Visibility, own: OwnWindows) -> Placed:
    """The model's own forward, token by token, over entries at their places.

    Tokens for which the positions are "absolute" have all places at true positions. The weights of an entry that a
    layer's own window hides are 0.
    """
    check_eager(model)
    rows = [sees(seen, window) for window in own]
    inputs: dict[int, list[Tensor]] = {layer: [] for layer in range(len(own))}  # [layer][token]: [1, 1, hidden]
    weights: dict[int, Tensor] = {}
    logits, attentions = [], []
    visible: list[int] = []
    now = 0

    def change(layer: int, arguments: Arguments) -> Arguments:
        inputs[layer].append(arguments["hidden_states"])
        count = len(visible)
        cos, sin = arguments["position_embeddings"]  # of the places, then of the true positions
        part = slice(count, 2 * count) if binds(own[layer], seen.windows[now]) else slice(0, count)
        hidden = torch.tensor([other not in rows[layer][now] for other in visible])
        mask = torch.zeros(count, count).masked_fill(hidden & ~torch.eye(count, dtype=torch.bool), float("-inf"))
        return arguments | {
            "hidden_states": torch.cat([inputs[layer][other] for other in visible], dim=1),
            "position_embeddings": (cos[:, part], sin[:, part]),
            "attention_mask": mask[None, None],
        }

    def keep(layer: int, output: Any) -> Any:
        weights[layer] = output[1][0, :, -1]
        return (output[0][:, -1:], *output[1:])

    with hooked(model, change, keep):
        for now, token in enumerate(tokens):
            visible = sorted(seen.seen[now])
            places = list(range(len(visible))) if seen.positions[now] == "cache" else visible
            output = model(
                input_ids=torch.tensor([[token]]),
                attention_mask=torch.zeros(1, 1, 1, 1),  # replaced in every layer; given so that the model makes none
                position_ids=torch.tensor([places + visible]),  # goes to the rotary tables alone
                use_cache=False,
            )
            logits.append(output.logits[0, -1])
            attentions.append(torch.stack([weights[layer] for layer in sorted(weights)]))
    return Placed(torch.stack(logits), attentions)


def share(attentions: Sequence[Tensor], seen: Visibility, oldest: int) -> Tensor:
    """[T, layers, heads]: attention on the sinks, or where there are none on the `oldest` first of the entries held.

    `attentions` for each token [layers, heads, entries], in cache order, as `run_placed` gives them.
    """
    shares = []
    for weights, held, sinks in zip(attentions, seen.seen, seen.sinks, strict=True):
        watched = sorted(sinks) or sorted(held)[:oldest]
        columns = [sorted(held).index(token) for token in watched]
        shares.append(weights[:, :, columns].sum(-1))
    return torch.stack(shares)


def in_cache_order(masked: Masked, seen: Visibility) -> list[Tensor]:
    """The attentions of `run_masked` as `run_placed` gives them."""
    return [masked.attentions[:, :, now, sorted(held)] for now, held in enumerate(seen.seen)]
