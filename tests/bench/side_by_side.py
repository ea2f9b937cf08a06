"""Speed and memory beside transformers' own attention and cache, both measured in one run, alternating.

    python -m tests.bench.side_by_side                       the small model, on this machine
    python -m tests.bench.side_by_side --shape 8b --device cuda --quant nf4     random weights at real sizes
    python -m tests.bench.side_by_side --model ORG/NAME

Prints tokens a second of both, and their ratio; only the ratio carries over between machines. Then feeds several
windows more and prints what the memory did.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

from sinkchat.cache.attention import NAME
from sinkchat.cache.bounded import BoundedCache
from sinkchat.cache.proof import prove
from sinkchat.models.find import ModelSource, find
from sinkchat.models.load import load

SHAPES = {
    "1b": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32},
    "8b": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32},
}


def random_model(shape: str, folder: Path, device: str) -> ModelSource:
    """A llama of a real size with random weights, saved with the small model's tokenizer."""
    config = LlamaConfig(
        vocab_size=128_256, num_key_value_heads=8, max_position_embeddings=131_072, dtype="bfloat16", **SHAPES[shape]
    )
    with torch.device(device):
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.bfloat16)
        model = LlamaForCausalLM(config)
        torch.set_default_dtype(before)
    model.save_pretrained(folder)
    small = load(find(None), quant="none", device="cpu")
    small.tokenizer.save_pretrained(folder)
    return ModelSource("folder", str(folder), folder, None)


def synchronize(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def seconds(work: Callable[[], Any], device: str) -> float:
    synchronize(device)
    start = time.perf_counter()
    work()
    synchronize(device)
    return time.perf_counter() - start


class Ours:
    name = "sinkchat"

    def __init__(self, model: Any, turns: Any, window: int) -> None:
        self.cache = BoundedCache(model, turns, sinks=4, window=window)
        self.model = model

    def prefill(self, ids: list[int], chunk: int) -> None:
        while ids:
            count = self.cache.slots.limit(min(chunk, len(ids)))
            self.cache.feed(ids[:count], self.cache.slots.plan(count))
            ids = ids[count:]

    def decode(self, ids: list[int]) -> None:
        for token in ids:
            self.cache.feed([token], self.cache.slots.plan(1))


class Theirs:
    """The same weights with transformers' scaled_dot_product_attention and DynamicCache."""

    name = "transformers"

    def __init__(self, model: Any) -> None:
        self.model = model
        self.cache = DynamicCache(config=model.config)

    @torch.inference_mode()
    def prefill(self, ids: list[int], chunk: int) -> None:
        self.model.set_attn_implementation("sdpa")
        for start in range(0, len(ids), chunk):
            self._feed(ids[start : start + chunk])
        self.model.set_attn_implementation(NAME)

    @torch.inference_mode()
    def decode(self, ids: list[int]) -> None:
        self.model.set_attn_implementation("sdpa")
        for token in ids:
            self._feed([token])
        self.model.set_attn_implementation(NAME)

    def _feed(self, ids: list[int]) -> None:
        self.model(torch.tensor([ids], device=self.model.device), cache=self.cache, use_cache=True)


def pairs(rounds: int, ours: Callable[[], float], theirs: Callable[[], float]) -> Iterator[tuple[float, float]]:
    for _ in range(rounds):
        yield ours(), theirs()


def report(what: str, tokens: int, measured: list[tuple[float, float]]) -> None:
    ours = statistics.median(tokens / a for a, _ in measured)
    theirs = statistics.median(tokens / b for _, b in measured)
    ratio = statistics.median(b / a for a, b in measured)
    print(f"{what:<34} sinkchat {ours:9.1f} tokens/s   transformers {theirs:9.1f} tokens/s   ratio {ratio:5.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--shape", choices=sorted(SHAPES))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--quant", default="none")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--window", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--decode", type=int, default=32, help="tokens decoded per round")
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        source = find(arguments.model)
        if arguments.shape:
            source = random_model(arguments.shape, Path(folder), "cuda" if torch.cuda.is_available() else "cpu")
            gc.collect()
        loaded = load(source, quant=arguments.quant, device=arguments.device, dtype=arguments.dtype)
    facts, model, window = loaded.facts, loaded.model, arguments.window
    device = facts.device
    print(f"{facts.name}: {facts.quant}, {facts.dtype}, {device}, weights {facts.weight_bytes / 2**20:,.0f} MiB")
    turns = prove(model, window)
    ids = torch.randint(0, model.config.vocab_size, (window,), generator=torch.Generator().manual_seed(0)).tolist()
    chunk = 512 if device.startswith("cuda") else 256

    ours, theirs = Ours(model, turns, window), Theirs(model)
    ours.prefill(ids[:chunk], chunk)  # buffers, weights repacked, kernels chosen
    Theirs(model).prefill(ids[:chunk], chunk)

    def prefill(side: Any) -> float:
        return seconds(lambda: side.prefill(list(ids), chunk), device)

    measured = list(
        pairs(arguments.rounds, lambda: prefill(Ours(model, turns, window)), lambda: prefill(Theirs(model)))
    )
    report(f"prefill of {window:,} tokens", window, measured)

    ours, theirs = Ours(model, turns, window), Theirs(model)
    ours.prefill(list(ids), chunk)
    theirs.prefill(list(ids[: -arguments.decode * arguments.rounds]), chunk)
    new = ids[: arguments.decode]
    measured = list(
        pairs(
            arguments.rounds,
            lambda: seconds(lambda: ours.decode(new), device),
            lambda: seconds(lambda: theirs.decode(new), device),
        )
    )
    report(f"decode at {window:,} entries", len(new), measured)

    before = ours.cache.kv_bytes
    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats()
        allocated = torch.cuda.memory_allocated()
    for _ in range(4):
        ours.prefill(list(ids), chunk)
    ours.decode(new)
    held = f"{ours.cache.slots.entries:,} entries, keys and values {before:,} -> {ours.cache.kv_bytes:,} bytes"
    print(f"after {5 * window:,} tokens: {held}")
    if device.startswith("cuda"):
        print(
            f"allocated {allocated:,} -> {torch.cuda.memory_allocated():,} bytes, "
            f"peak during prefill {torch.cuda.max_memory_allocated() - allocated:,} above"
        )


if __name__ == "__main__":
    main()
