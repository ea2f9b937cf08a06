"""Everything that only a GPU can show, in one run of a few minutes.

    python -m tests.bench.gpu [--device cuda] [--quick]

1. Families at real head sizes: the cache on the GPU against the same cache on the CPU, which the test suite holds to
   independent references. Float32 to rounding, bfloat16 to its own.
   The rules that an evaluation compares, recomputation and distant sinks, in the same way.
2. The small model: its loss on a text in float32, bfloat16, int8 and NF4, on the GPU.
3. Memory: what was asked for before loading against what the device measured after, and what 4 windows more add.
4. Speed beside transformers, at the sizes of 1B and 8B models: see `tests.bench.side_by_side`.

Prints a line a check, and exits with 1 if any that has a right answer was wrong. `--device cpu` runs 1 and 2 too, to
try the script itself.
"""

from __future__ import annotations

import argparse
import copy
import subprocess
import sys

import torch
from torch import nn

from sinkchat.cache.attention import NAME
from sinkchat.engine.engine import SinkEngine
from sinkchat.models.find import find
from sinkchat.models.load import load
from tests.collapse.reading import read, tokens_of
from tests.families.families import BY_NAME
from tests.families.models import random_model, random_tokens, tiny_config
from tests.families.product import proved, run

WINDOW = 64
TOKENS = 200
HEAD_SIZES = (64, 128, 256)


def real_heads(family: str, head_size: int) -> nn.Module:
    """The family's tiny model with heads of a real size."""
    config = tiny_config(BY_NAME[family])
    config.head_dim = head_size
    config.hidden_size = head_size * config.num_attention_heads
    model: nn.Module = random_model(config, attn_implementation=NAME)
    return model


def compare_families(device: str, quick: bool) -> bool:
    right = True
    families = ("llama", "gemma2") if quick else ("llama", "qwen3", "gemma2", "gemma3_text", "gpt_oss", "cohere2")
    for family in families:
        for head_size in HEAD_SIZES[1:2] if quick else HEAD_SIZES:
            there = real_heads(family, head_size)
            here = copy.deepcopy(there)
            tokens = random_tokens(TOKENS)
            expected = run(here, proved(here, WINDOW), tokens, 4, WINDOW, chunk=TOKENS).logits
            scale = float(expected.abs().max())
            for dtype, limit in ((torch.float32, 1e-3), (torch.bfloat16, 1e-1)):
                model = copy.deepcopy(there).to(device, dtype)
                turns = proved(model, WINDOW)
                for chunk in (1, 7, TOKENS):
                    got = run(model, turns, tokens, 4, WINDOW, chunk=chunk).logits.float().cpu()
                    apart = float((got - expected).abs().max()) / scale
                    right &= said(f"{family}, heads of {head_size}, {dtype}, chunk {chunk}", apart, limit)
    return right


def compare_rules(device: str) -> bool:
    right = True
    there = real_heads("llama", 64)
    here = copy.deepcopy(there)
    tokens = random_tokens(TOKENS)
    for name, rule in (
        ("recompute", {"policy": "recompute"}),
        ("absolute, 200,000 further on", {"positions": "absolute", "distance": 200_000}),
    ):
        expected = run(here, proved(here, WINDOW), tokens, 4, WINDOW, chunk=TOKENS, **rule).logits
        scale = float(expected.abs().max())
        model = copy.deepcopy(there).to(device)
        turns = proved(model, WINDOW)
        for chunk in (1, TOKENS):
            got = run(model, turns, tokens, 4, WINDOW, chunk=chunk, **rule).logits.float().cpu()
            right &= said(f"{name}, chunk {chunk}", float((got - expected).abs().max()) / scale, 1e-3)
    return right


def said(what: str, apart: float, limit: float) -> bool:
    print(f"{'ok   ' if apart <= limit else 'WRONG'} {what}: {apart:.1e} of the largest logit apart", flush=True)
    return apart <= limit


def compare_quantizations(device: str, quick: bool) -> None:
    base = None
    for quant, dtype in (("none", "float32"), ("none", "bfloat16"), ("int8", "bfloat16"), ("nf4", "bfloat16")):
        loaded = load(find(None), quant=quant, device=device, dtype=dtype)
        count = 512 if quick else 2048
        perplexity = read(loaded, tokens_of(loaded, count), sinks=4, window=256).perplexity(256)
        base = base or perplexity
        size = loaded.facts.weight_bytes / 2**20
        words = f"{size:.0f} MiB, perplexity {perplexity:.2f}, {perplexity / base:.2f} times that of float32"
        print(f"small model, {quant} {dtype}: {words}", flush=True)
        del loaded


def measure_memory(device: str) -> bool:
    """On the GPU only: weights and buffers as they are counted against what the allocator says."""
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    loaded = load(find(None), quant="nf4", device=device, dtype="bfloat16", window=4096)
    engine = SinkEngine(loaded, window=4096)
    counted = loaded.facts.weight_bytes + engine.state().kv_bytes
    measured = torch.cuda.memory_allocated() - before
    ids = [7 + i % 1000 for i in range(4096)]
    list(engine.prefill(ids))
    settled = torch.cuda.memory_allocated()
    for _ in range(4):
        list(engine.prefill(ids))
    grown = torch.cuda.memory_allocated() - settled
    print(f"memory: counted {counted:,} bytes, measured {measured:,}; four windows more add {grown:,}", flush=True)
    return abs(measured - counted) < 0.1 * counted and grown < 2**20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true", help="fewer families and tokens")
    arguments = parser.parse_args()
    cuda = arguments.device.startswith("cuda")
    if cuda and not torch.cuda.is_available():
        print("There is no CUDA device here; --device cpu tries the script itself.", file=sys.stderr)
        return 2
    right = compare_families(arguments.device, arguments.quick)
    right &= compare_rules(arguments.device)
    compare_quantizations(arguments.device, arguments.quick)
    if cuda:
        right &= measure_memory(arguments.device)
        for shape in ("1b", "8b"):
            for quant in ("none", "nf4"):
                command = [sys.executable, "-m", "tests.bench.side_by_side", "--device", arguments.device]
                subprocess.run([*command, "--shape", shape, "--quant", quant, "--window", "4096"], check=False)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
