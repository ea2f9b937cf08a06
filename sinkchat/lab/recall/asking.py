"""Does a rule remember? Facts are asked for at exact distances, and the answers are counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from sinkchat.engine.engine import SinkEngine
from sinkchat.engine.events import CacheState, ChunkRead, Finished
from sinkchat.errors import SinkchatError
from sinkchat.lab.reading import Watching, engine_for, with_sinks
from sinkchat.lab.recall.stream import Probe, Stream
from sinkchat.lab.results import Recall, Rule
from sinkchat.models.load import LoadedModel


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one question."""

    probe: Probe
    visible: bool
    right: bool
    loss: float
    """Of the right answer, nats."""


def recall(loaded: LoadedModel, rule: Rule, stream: Stream, watching: Watching) -> list[Recall]:
    """Ask for the stream's facts under the rule: one record for each distance, and for what was visible there.

    `watching` is told the tokens read, of `tokens_to_read`; once it has enough, the answers so far are summed up.
    Raises CacheError when the rule makes no cache, SinkchatError when the device fails.
    """
    return summed_up(rule, ask(loaded, rule, stream, watching), stream)


def tokens_to_read(loaded: LoadedModel, rule: Rule, stream: Stream) -> int:
    return max((probe.query + 1 for probe in _asked(loaded, rule, stream)), default=0)


def ask(loaded: LoadedModel, rule: Rule, stream: Stream, watching: Watching) -> list[Answer]:
    """The answers one by one, in the stream's order. As `recall`."""
    engine = engine_for(loaded, rule)
    ids = with_sinks(loaded, stream.ids, rule.sinks, rule.sink_tokens)
    answers: list[Answer] = []
    read = 0
    for probe in _asked(loaded, rule, stream):
        if not _read(engine, ids[read : probe.query + 1], watching):
            break
        read = probe.query + 1
        answers.append(_answer(engine, probe))
    return answers


def summed_up(rule: Rule, answers: Sequence[Answer], stream: Stream) -> list[Recall]:
    """By distance, those that were visible first."""
    groups: dict[tuple[int, bool], list[Answer]] = {}
    for answer in answers:
        groups.setdefault((answer.probe.distance, answer.visible), []).append(answer)
    return [
        Recall(
            rule=rule,
            distance=distance,
            visible=visible,
            asked=len(group),
            right=sum(answer.right for answer in group),
            chance=fmean(1 / len(answer.probe.candidates) for answer in group),
            loss=fmean(answer.loss for answer in group),
            stream_window=stream.window,
            stream_seed=stream.seed,
        )
        for (distance, visible), group in sorted(groups.items(), key=lambda item: (item[0][0], not item[0][1]))
    ]


def visible(state: CacheState, probe: Probe) -> bool:
    """Whether all tokens of the fact are in the cache, as sinks or as recents."""
    return all(p < state.sink_entries or p >= state.horizon for p in range(probe.first, probe.answer + 1))


def _asked(loaded: LoadedModel, rule: Rule, stream: Stream) -> tuple[Probe, ...]:
    # past the trained length the full cache is no control
    probes = stream.asked_within(loaded.facts.trained_length if rule.policy == "full" else None)
    # where the first tokens are replaced, there is no fact among them
    return tuple(probe for probe in probes if rule.sink_tokens == "text" or probe.first >= rule.sinks)


def _read(engine: SinkEngine, ids: Sequence[int], watching: Watching) -> bool:
    """Whether all were read."""
    enough = False
    for event in engine.prefill(ids):
        match event:
            case ChunkRead():
                if not enough and not watching(event.cache.position):
                    enough = True
                    engine.cancel()
            case Finished(error=str(error)):
                raise SinkchatError(error)
    return not enough


def _answer(engine: SinkEngine, probe: Probe) -> Answer:
    losses = dict(zip(probe.candidates, engine.next_losses(probe.candidates), strict=True))
    own = losses[probe.right]
    return Answer(
        probe=probe,
        visible=visible(engine.state(), probe),
        right=all(own < loss for candidate, loss in losses.items() if candidate != probe.right),
        loss=own,
    )
