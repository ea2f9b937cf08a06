"""What the words of a report mean, exactly and shortly; docs/evaluation.md has the rest."""

from __future__ import annotations

from collections.abc import Sequence

from sinkchat.lab.figures import COLLAPSE_NATS, COLLAPSE_TOKENS
from sinkchat.lab.telling.finding import FLAT_NATS

DEFINITIONS: Sequence[tuple[str, str]] = (
    (
        "Loss",
        "nats per token, −ln of the probability the model gave to the token that really comes next, from the raw "
        "logits. The text is given, so an error does not feed on itself.",
    ),
    ("Perplexity", "exp of the mean loss: among how many equally likely tokens the model is as unsure."),
    (
        "Before, after",
        "up to the token for which the first entry left the cache, and past it. Where nothing was evicted, before is "
        "the whole text.",
    ),
    (
        "× full",
        "perplexity after the first eviction, divided by the full cache's over exactly the same tokens. Only where "
        "the full cache is a control: up to the length the model was trained for.",
    ),
    (
        "Slope",
        "of a straight line through the losses past the first eviction, nats per 1,000 tokens, with its standard "
        "error; against full, of the difference to the full cache's loss, so that what the text does is out of it.",
    ),
    (
        "Collapse",
        "where the losses part from the full cache's and stay apart: the first position past the first eviction from "
        f"which they lie more than {COLLAPSE_NATS:g} nats above them, in the mean over the next {COLLAPSE_TOKENS} "
        "tokens and over all from there on, a quarter of those compared or more.",
    ),
    ("Window", "the most KV entries a layer may hold, sinks included."),
    (
        "Sink share",
        "the part of a head's attention, 0 to 100 %, that the sinks take; for rules without sinks, the oldest "
        "entries that are still kept. Mean over the heads of the layers that have sinks.",
    ),
    (
        "Absolute",
        "a query is placed by its place in the whole sequence, not by its index in the cache; N further on, as if N "
        "more tokens had been read between the sinks and the rest.",
    ),
    (
        "Recompute",
        "when the window is full the older half is dropped, the first tokens with it, and the rest is run again.",
    ),
    (
        "Flat",
        f"in the first sentence of this page: the straight line's change from the first eviction to the end is under "
        f"{FLAT_NATS:g} nats, and twice its standard error under {4 * FLAT_NATS:g}.",
    ),
)
