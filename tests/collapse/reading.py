"""Reading one text under several policies, and the loss of its tokens.

    python -m tests.collapse.reading                          W 256 and 512, 6,144 tokens: minutes
    python -m tests.collapse.reading --tokens 14000 --window 512     past the trained length

The text is English that every Python carries. Losses are teacher-forced, in nats, as `/read` shows them; perplexity
is `exp` of their mean over the tokens after the first eviction, the same tokens for every policy of a window.
"""

from __future__ import annotations

import argparse
import math
import pydoc_data.topics
from dataclasses import dataclass
from statistics import fmean

from sinkchat.engine.engine import SinkEngine
from sinkchat.engine.events import CacheState, ChunkRead
from sinkchat.models.find import find
from sinkchat.models.load import LoadedModel, load


@dataclass(frozen=True)
class Reading:
    losses: list[float]
    """Of each token but the first."""
    shares: list[float | None]
    after: CacheState

    def perplexity(self, first: int, last: int | None = None) -> float:
        """Over the tokens at positions `first`..`last`."""
        return math.exp(fmean(self.losses[first - 1 : last]))


def text() -> str:
    topics = pydoc_data.topics.topics
    return "".join(topics[name] for name in sorted(topics))


def tokens_of(loaded: LoadedModel, count: int) -> list[int]:
    ids = loaded.tokenizer(text(), add_special_tokens=False).input_ids
    if len(ids) < count:
        raise SystemExit(f"The text has {len(ids):,} tokens; give --tokens {len(ids)} or less.")
    return ids[:count]


def read(loaded: LoadedModel, ids: list[int], **cache: object) -> Reading:
    engine = SinkEngine(loaded, **cache)  # type: ignore[arg-type]
    losses: list[float] = []
    shares: list[float | None] = []
    for event in engine.prefill(ids):
        if isinstance(event, ChunkRead):
            losses.extend(loss for loss in event.losses if loss is not None)
            shares.extend(event.shares)
    return Reading(losses, shares, engine.state())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=6144)
    parser.add_argument("--window", type=int, nargs="+", default=[256, 512])
    parser.add_argument("--dtype", default="float32")
    arguments = parser.parse_args()
    loaded = load(find(None), quant="none", device="cpu", dtype=arguments.dtype)
    ids = tokens_of(loaded, arguments.tokens)
    trained = loaded.facts.trained_length
    print(f"{loaded.facts.name}, {loaded.facts.dtype}, {len(ids):,} tokens; perplexity after the first eviction")
    full = read(loaded, ids, policy="full", window=max(arguments.window))
    for window in arguments.window:
        runs = {"full": full}
        runs |= {f"{s} sinks": read(loaded, ids, sinks=s, window=window) for s in (1, 4, 8)}
        runs["window"] = read(loaded, ids, policy="window", sinks=4, window=window)
        for name, run in runs.items():
            known = [share for share in run.shares[window:] if share is not None]
            line = f"W {window:5}  {name:8} {run.perplexity(window):10.1f}"
            if len(ids) > trained:
                line += f"   past position {trained:,}: {run.perplexity(trained):10.1f}"
            print(
                f"{line}   share of the first or oldest {fmean(known):6.1%}   entries {run.after.kv_entries:,}",
                flush=True,
            )


if __name__ == "__main__":
    main()
