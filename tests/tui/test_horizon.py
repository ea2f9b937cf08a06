"""The horizon falls at the very token, and says how many are gone."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sinkchat.tui.text.horizon import find_horizon
from sinkchat.tui.text.passage import Passage, Sight
from tests.tui.conftest import Chat, Play

WORDS = ["one", " two", " three", " four", " five"]


def _passage(first: int, sequence: int = 0) -> Passage:
    passage = Passage("person", "".join(WORDS), sequence=sequence)
    passage.mark(first, [len(word) for word in WORDS])
    return passage


def test_a_message_is_cut_at_its_token() -> None:
    passage = _passage(10)
    assert passage.text[passage.cut(Sight(0, 4, 12)) :] == " three four five"
    assert passage.cut(Sight(0, 4, 10)) == 0
    assert passage.cut(Sight(0, 4, 99)) == len(passage.text)


def test_sinks_are_kept_whatever_the_horizon() -> None:
    passage = _passage(0)
    sight = Sight(0, 2, 4)
    assert passage.text[: passage.kept(sight)] == "one two"
    assert passage.text[passage.cut(sight) :] == " five"
    assert passage.unseen_tokens(sight) == 2


def test_the_words_count_the_tokens_that_are_out_of_sight() -> None:
    horizon = find_horizon([_passage(4), _passage(20)], Sight(0, 4, 22))
    assert horizon is not None
    assert horizon.offset == len("one two")
    assert horizon.words == "horizon · 2 of 5 tokens of this message are out of sight"


def test_a_message_in_two_parts_is_counted_as_one() -> None:
    first = _passage(4)
    second = first.continued()
    second.add(" six seven")
    second.mark(9, [4, 6])
    horizon = find_horizon([first, second], Sight(0, 4, 10))
    assert horizon is not None
    assert horizon.passage is second
    assert horizon.words == "horizon · 6 of 7 tokens of this message are out of sight"


def test_between_messages_nothing_is_cut() -> None:
    horizon = find_horizon([_passage(4), _passage(20)], Sight(0, 4, 15))
    assert horizon is not None
    assert horizon.offset == 0
    assert horizon.words == "horizon · nothing above is in sight, 4 sinks aside"


def test_there_is_no_horizon_before_the_first_eviction() -> None:
    passages = [_passage(2), _passage(20)]
    assert find_horizon(passages, Sight(0, 0, 0)) is None
    assert find_horizon(passages, Sight(0, 4, 4)) is None
    assert find_horizon([], Sight(0, 4, 9)) is None


def test_an_earlier_sequence_is_out_of_sight_as_a_whole() -> None:
    horizon = find_horizon([_passage(0), _passage(0, sequence=1)], Sight(1, 0, 0))
    assert horizon is not None
    assert horizon.passage.sequence == 1
    assert horizon.offset == 0


@settings(deadline=None)
@given(st.integers(0, 40), st.integers(0, 8), st.integers(0, 60))
def test_a_token_is_dimmed_exactly_when_the_model_does_not_see_it(first: int, kept: int, horizon: int) -> None:
    passage, sight = _passage(first), Sight(0, kept, horizon)
    start = 0
    for index, word in enumerate(WORDS):
        position, end = first + index, start + len(word)
        seen = position < kept or position >= horizon
        assert seen == (start >= passage.cut(sight) or end <= passage.kept(sight))
        start = end


def test_on_the_screen_the_dimmed_text_is_what_the_engine_evicted(play: Play) -> None:
    """The rule, the colours and the engine's own positions say the same, after evictions and switches."""

    async def scenario(chat: Chat) -> None:
        await chat.say("Tell me of the sea and of the lamp that is lit.")
        for order in ("", "/policy window", "", "/policy sinks", "/window 20", ""):
            await chat.say(order or "And then what came?")
            state = chat.session.state()
            kept = set(chat.engine._kept)
            for message in chat.session.conversation.messages:
                passage = chat.screen.scribe._written[message.number].passage
                if passage.parts != [passage]:
                    continue
                start = 0
                for token in message.tokens:
                    end = start + len(token.text)
                    seen = start >= passage.cut(chat.transcript.sight) or end <= passage.kept(chat.transcript.sight)
                    assert seen == (token.position in kept) or start == end, (token, state)
                    start = end
            assert sum("horizon" in line for line in chat.lines()) == 1

    from tests.fakes import FakeEngine

    play(scenario, FakeEngine(window=24), size=(120, 80))
