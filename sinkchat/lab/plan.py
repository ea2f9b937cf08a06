"""What is to be run: the sensible product of what was asked for. Free of torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args

from sinkchat.cache.policy import POLICIES, POSITIONS, Policy, Positions, check
from sinkchat.errors import UsageError
from sinkchat.lab.results import Rule, SinkTokens

DEFAULT_TOKENS, DEFAULT_WINDOWS = 6144, 8
"""A run reads so many tokens, or so many times the largest window if that is more: over the first few windows past an
eviction the full cache still gains on every bounded one, and nobody could tell whether that ends."""

SINK_TOKENS: tuple[SinkTokens, ...] = get_args(SinkTokens)

FARTHEST = 10**9
"""Start position. Angles are products in float64: up to here the losses are those at 0 to 5e-6 nats, at 10**12 to
2e-4."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Lists of what to vary; each combination that means something of its own is a run."""

    policies: tuple[Policy, ...] = ("full", "window", "sinks")
    windows: tuple[int, ...] = (512,)
    sinks: tuple[int, ...] = (4,)
    positions: tuple[Positions, ...] | None = None
    """None: `cache`, and nobody asked for it."""
    start_positions: tuple[int, ...] = (0,)
    sink_tokens: tuple[SinkTokens, ...] = ("text",)
    tokens: int | None = None
    """To be read by each run; None: DEFAULT_TOKENS, or DEFAULT_WINDOWS times the largest window if that is more, or
    all of a shorter text."""
    per_token: bool = False
    generate: int = 0
    """Tokens to generate for each rule and seed."""
    seeds: tuple[int, ...] = (1, 2, 3)
    prompt: str | None = None
    recall: bool = False

    def rules(self) -> tuple[Rule, ...]:
        """In the order in which they are run: the full cache first, which the others are compared with.

        Raises UsageError where the lists make no sense, in one sentence.
        """
        for name, values, known in (
            ("policies", self.policies, POLICIES),
            ("positions", self._placed, POSITIONS),
            ("sink tokens", self.sink_tokens, SINK_TOKENS),
        ):
            for value in values:
                if value not in known:
                    raise UsageError(f"There is no {value!r} among {name}; choose from {', '.join(known)}.")
        for start in self.start_positions:
            if start < 0:
                raise UsageError(f"A start position of {start} lies before the text; give 0 or more.")
            if start > FARTHEST:
                raise UsageError(
                    f"A start position of {start:,} is farther than angles are exact; give {FARTHEST:,} or less."
                )
        self._check_used()
        rules = [Rule("full")] if "full" in self.policies else []
        for window in self.windows:
            for policy in self.policies:
                rules += self._bounded(policy, window)
        for rule in rules:
            if rule.window is not None:
                check(rule.policy, rule.sinks, rule.window)
        return tuple(dict.fromkeys(rules))

    @property
    def _placed(self) -> tuple[Positions, ...]:
        return self.positions or ("cache",)

    def _check_used(self) -> None:
        """Nothing that is asked for is left out without a word."""
        kept = "sinks" in self.policies and any(self.sinks)
        far = any(self.start_positions)
        asked = {
            "--positions absolute": "absolute" in self._placed,
            "--start-position": far,
            "--sink-tokens": any(tokens != "text" for tokens in self.sink_tokens),
        }
        idle = [flag for flag, given in asked.items() if given and not kept]
        if idle:
            way = "give --sinks 1 or more" if "sinks" in self.policies else "add sinks to --policies"
            raise UsageError(f"{idle[0]} changes only runs that keep sinks, and there would be none; {way}.")
        if far and self.positions is None:
            raise UsageError(
                "--start-position changes nothing where positions count in the cache, as they do by default; add "
                "--positions absolute, or --positions cache to see that it does not."
            )

    def _bounded(self, policy: Policy, window: int) -> Iterator[Rule]:
        if policy in ("window", "recompute"):
            yield Rule(policy, window=window)
        elif policy == "sinks":
            for count in self.sinks:
                if count < 0:
                    raise UsageError(f"{count} sinks make no sense; give 0 or more.")
                if count:
                    yield from self._with_sinks(count, window)
                else:
                    yield Rule("window", window=window)  # the same under another name

    def _with_sinks(self, count: int, window: int) -> Iterator[Rule]:
        for positions in self._placed:
            # a query that stands at its index in the cache knows no distance: once is enough, unless nothing else
            # was asked for
            near = positions == "cache" and "absolute" in self._placed
            for start in (0,) if near else self.start_positions:
                yield Rule("sinks", positions, count, window, start)
        positions = "cache" if "cache" in self._placed else self._placed[0]
        for tokens in self.sink_tokens:
            if tokens != "text":
                yield Rule("sinks", positions, count, window, sink_tokens=tokens)
