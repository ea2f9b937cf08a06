"""The panel's figures are the engine's, and what means nothing is a dash."""

from __future__ import annotations

from dataclasses import replace
from math import exp

import pytest

from sinkchat.engine.events import Evicted, Token
from sinkchat.tui import figures
from sinkchat.tui.readings import Readings
from sinkchat.tui.widgets.panel import learned, strongest
from tests.fakes import FakeEngine, words


def _fed(engine: FakeEngine, text: str, tokens: int) -> tuple[Readings, list[object]]:
    readings, events = Readings(), []
    readings.opened(engine.facts, engine.state())
    clock = 0.0
    for run in (engine.prefill(words(text)), engine.generate(tokens)):
        for event in run:
            clock += 0.1
            readings.take(event, clock)
            events.append(event)
    return readings, events


def test_at_rest_the_readings_are_the_engines_state() -> None:
    engine = FakeEngine(window=16)
    readings, events = _fed(engine, "one two three four five", 40)
    assert readings.cache == engine.state()
    tokens = [event for event in events if isinstance(event, Token)]
    assert readings.loss == tokens[-1].loss
    assert readings.share == tokens[-1].sink_share
    assert readings.reply_tokens == len(tokens)
    assert readings.tokens_per_second == 50.0


def test_the_evicted_text_is_that_of_the_latest_evictions_in_order() -> None:
    engine = FakeEngine(window=16)
    readings, events = _fed(engine, "one two three four five", 40)
    evicted = "".join(event.text for event in events if isinstance(event, Evicted))
    assert readings.evicted_text == evicted[-200:]
    readings.take(Evicted(0, 1, 2, "apart", "policy"), 9.0)
    readings.take(events[-1], 9.0)
    assert readings.evicted_text == "apart"


def test_the_mean_is_of_what_was_read_apart_from_what_was_written() -> None:
    engine = FakeEngine(window=64)
    readings, events = _fed(engine, "one two three four five", 8)
    written = [event.loss for event in events if isinstance(event, Token)]
    mean = readings.mean_loss("wrote")
    assert mean.tokens == len(written)
    assert mean.mean == pytest.approx(sum(written) / len(written))
    assert mean.perplexity == pytest.approx(exp(sum(written) / len(written)))
    assert readings.mean_loss("read").tokens == 4  # the first token of a sequence has no loss


def test_while_a_reply_is_written_its_rate_counts_the_tokens_after_the_first() -> None:
    engine = FakeEngine(window=64)
    readings = Readings()
    list(engine.prefill(words("go")))
    for number, event in enumerate(event for event in engine.generate(5) if isinstance(event, Token)):
        readings.take(event, 10.0 + 0.5 * number)
    assert readings.tokens_per_second == pytest.approx(2.0)


def test_the_first_token_is_counted_from_the_start_of_the_prompt_and_once_for_a_reply_in_parts() -> None:
    engine = FakeEngine(window=64)
    readings, _events = _fed(engine, "one two three four five", 4)
    assert readings.seconds_to_first_token == pytest.approx(0.005 + 0.02)
    readings.reply_begins(goes_on=True)
    for event in engine.generate(4):
        readings.take(event, 9.0)
    assert readings.seconds_to_first_token == pytest.approx(0.005 + 0.02)
    readings.reply_begins(goes_on=False)
    assert readings.seconds_to_first_token is None


def test_the_first_token_is_timed_while_the_reply_is_still_written() -> None:
    engine = FakeEngine(window=64)
    readings = Readings()
    readings.reply_begins(goes_on=False)
    for event in engine.prefill(words("one two three")):
        readings.take(event, 7.0)
    for number, event in enumerate(event for event in engine.generate(3) if isinstance(event, Token)):
        readings.take(event, 7.25 + number)
    assert readings.seconds_to_first_token == pytest.approx(0.003 + 0.25)


def test_a_change_of_the_cache_is_marked_in_every_line() -> None:
    engine = FakeEngine(window=16)
    readings, _events = _fed(engine, "one two three four five", 20)
    for event in engine.change(policy="window"):
        readings.take(event, 0.0)
    for series in (readings.losses, readings.shares, readings.head_shares):
        assert series.marks == [(len(series), "window")]


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (figures.percent(None), "–"),
        (figures.percent(0.3214), "32.1 %"),
        (figures.nats(None), "–"),
        (figures.perplexity(7.8345), "7.83"),
        (figures.perplexity(4210.4), "4,210"),
        (figures.perplexity(3.2e12), "3.2e+12"),
        (figures.size(5_898_240), "5.90 MB"),
        (figures.size(269_030_000), "269 MB"),
        (figures.size(999_600), "1,000 kB"),
        (figures.size(900), "900 B"),
        (figures.size_of(1.2e9, 25.3e9), "1.20 of 25.3 GB"),
        (figures.rate(None), "–"),
        (figures.seconds(0.412), "0.41 s"),
        (figures.plural(1, "token"), "1 token"),
        (figures.plural(2048, "entry", "entries"), "2,048 entries"),
    ],
)
def test_figures_are_written_exactly(shown: str, expected: str) -> None:
    assert shown == expected


def test_learned_sinks_are_told_apart_from_sink_tokens() -> None:
    engine = FakeEngine(window=16)
    readings, events = _fed(engine, "one two three", 4)
    token = [event for event in events if isinstance(event, Token)][-1]
    assert readings.learned_share is None
    readings.take(replace(token, learned_share=0.25), 9.0)
    assert readings.learned_share == 0.25
    assert readings.share == token.sink_share
    assert [row.value for row in learned(0.25)] == [figures.percent(0.25)]
    assert learned(None) == ()


def test_a_model_whose_layers_all_keep_a_window_of_their_own_is_told_so() -> None:
    """Then no head has sinks, and a dash alone would look like something that is still to come."""
    readings, events = _fed(FakeEngine(window=16), "one two three", 4)
    assert "changes nothing" not in " ".join(row.name for row in strongest(readings, 38))
    token = [event for event in events if isinstance(event, Token)][-1]
    readings.take(replace(token, sink_share=None, strong_head=None), 9.0)
    assert "the policy changes nothing" in " ".join(row.name for row in strongest(readings, 38))
    readings.take(replace(token, sink_share=None, cache=replace(token.cache, sinks=0)), 9.0)
    assert "changes nothing" not in " ".join(row.name for row in strongest(readings, 38)), "nothing is watched"
    assert "changes nothing" not in " ".join(row.name for row in strongest(Readings(), 38)), "nothing was said yet"


def test_what_left_last_and_how_many_left_are_of_one_moment() -> None:
    """An eviction is told before the state that counts it, and the screen may be drawn between the two."""
    engine = FakeEngine(window=16, sinks=0, policy="window")
    readings = Readings()
    readings.opened(engine.facts, engine.state())
    seen = 0
    for event in (*engine.prefill(words("one two three " * 8)), *engine.generate(40, ignore_stops=True)):
        readings.take(event, 0.0)
        if readings.cache and readings.evicted_last is not None:
            assert readings.evicted_last == readings.cache.evicted_total - 1
            seen += 1
    assert seen > 40
