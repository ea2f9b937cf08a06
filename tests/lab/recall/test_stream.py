"""The stream that facts are planted in: what is claimed of it is counted here by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice
from random import Random
from statistics import fmean

import pytest

from sinkchat.errors import UsageError
from sinkchat.lab.recall.facts import CANDIDATES, NAMES, WORDS, FactMaker
from sinkchat.lab.recall.stream import Stream, make_stream
from tests.lab import tiny

TOKENIZERS = {"byte level": tiny.byte_level, "sentence piece, with a first token": tiny.sentence_piece}


@pytest.fixture(params=TOKENIZERS)
def planted(request: pytest.FixtureRequest) -> tuple[object, Stream]:
    tokenizer = TOKENIZERS[request.param]()
    return tokenizer, make_stream(tiny.loaded(tokenizer), tiny.TEXT, 64, seed=3, probes=24)


def lines(tokenizer, stream: Stream) -> list[tuple[int, int, str]]:
    """Every planted line, found by its text alone: (position of its line's start, of its answer, text)."""
    found = []
    pieces = [tokenizer.decode([token], clean_up_tokenization_spaces=False) for token in stream.ids]
    for answer, piece in enumerate(pieces):
        if pieces[answer - 1].endswith(":") and piece.strip() in WORDS:
            start = max(at for at in range(answer) if pieces[at] == "\n")
            text = tokenizer.decode(stream.ids[start + 1 : answer + 1], clean_up_tokenization_spaces=False)
            found.append((start, answer, text.strip()))
    return found


def test_every_distance_is_exactly_what_is_claimed(planted) -> None:
    tokenizer, stream = planted
    by_text: dict[str, list[tuple[int, int]]] = {}
    for start, answer, text in lines(tokenizer, stream):
        by_text.setdefault(text, []).append((start, answer))
    # a fact and its question, which the stream itself answers in the fact's own words
    assert len(by_text) == len(stream.probes) == 24
    claimed = {(probe.first, probe.answer, probe.query, probe.distance) for probe in stream.probes}
    counted = set()
    for (start, answer), (_, again) in by_text.values():
        counted.add((start, answer, again - 1, again - 1 - answer))
    assert claimed == counted


def test_all_distances_are_asked_for_equally_often(planted) -> None:
    _, stream = planted
    assert Counter(probe.distance for probe in stream.probes) == dict.fromkeys((16, 32, 48, 72, 128, 256), 4)


def test_each_fact_is_asked_for_once_and_its_name_is_told_apart(planted) -> None:
    tokenizer, stream = planted
    names = Counter(text.split(":")[0] for _, _, text in lines(tokenizer, stream))
    assert set(names.values()) == {2}
    assert set(names) <= set(NAMES)


def test_a_facts_tokens_are_the_same_where_it_is_asked_for(planted) -> None:
    _, stream = planted
    for probe in stream.probes:
        length = probe.answer - probe.first
        assert stream.ids[probe.first : probe.answer] == stream.ids[probe.query + 1 - length : probe.query + 1]
        assert stream.ids[probe.answer] == stream.ids[probe.query + 1] == probe.right


def test_many_facts_are_in_flight_at_once() -> None:
    stream = make_stream(tiny.loaded(), tiny.TEXT, 512, seed=0, probes=60)
    between = [
        sum(probe.answer < other.answer < probe.query for other in stream.probes)
        for probe in stream.probes
        if probe.distance == 384
    ]
    assert fmean(between) > 3, "others were told in between"


def test_what_is_not_planted_is_the_text_as_it_goes_on(planted) -> None:
    tokenizer, stream = planted
    filler = tokenizer(tiny.TEXT, add_special_tokens=False).input_ids
    planted_at: set[int] = set()
    for probe in stream.probes:
        line = probe.answer - probe.first + 2  # with its end
        planted_at |= {*range(probe.first, probe.first + line), *range(probe.query + 3 - line, probe.query + 3)}
    rest = [token for at, token in enumerate(stream.ids) if at not in planted_at]
    begins = 1 if tokenizer.bos_token_id is not None else 0
    assert rest[begins:] == [filler[n % len(filler)] for n in range(len(rest) - begins)]


def test_the_stream_begins_with_the_tokenizers_own_first_token() -> None:
    stream = make_stream(tiny.loaded(tiny.sentence_piece()), tiny.TEXT, 64, seed=0, probes=6)
    assert stream.ids[0] == tiny.sentence_piece().bos_token_id
    assert stream.ids.count(stream.ids[0]) == 1


def test_the_stream_is_a_function_of_text_window_and_seed() -> None:
    def made(text: str = tiny.TEXT, window: int = 64, seed: int = 1) -> Stream:
        return make_stream(tiny.loaded(), text, window, seed, probes=12)

    assert made() == made()
    assert len({made().ids, made(seed=2).ids, made(window=128).ids, made(text=tiny.TEXT[4:]).ids}) == 4


def test_sinks_hold_no_fact(planted) -> None:
    _, stream = planted
    assert min(probe.first for probe in stream.probes) >= 32


def test_just_outside_neither_the_question_nor_what_follows_sees_any_of_the_fact() -> None:
    for window in (64, 100, 512):
        stream = make_stream(tiny.loaded(), tiny.TEXT, window, seed=0, probes=18)
        (outside,) = {probe.distance for probe in stream.probes if window < probe.distance < 2 * window}
        for probe in stream.probes:
            question = probe.query + 1 - (probe.answer - probe.first)
            if probe.distance == outside:
                assert question - (window - 1) > probe.answer
            elif probe.distance < window:
                assert probe.query - (window - 1) <= probe.first


def test_whoever_does_not_see_the_fact_is_right_by_chance_whatever_it_likes() -> None:
    maker = FactMaker(tiny.loaded(), "")
    chance = Random(5)
    facts = [maker.make("Alice", chance) for _ in range(4000)]
    assert all(len(set(fact.candidates)) == CANDIDATES and fact.answer in fact.candidates for fact in facts)
    liked = Random(6).sample(range(len(tiny.byte_level())), len(tiny.byte_level()))
    guesses = {
        "the most liked": [max(fact.candidates, key=liked.__getitem__) for fact in facts],
        "the first": [fact.candidates[0] for fact in facts],
        "the last": [fact.candidates[-1] for fact in facts],
        "what was right before": [
            before.answer if before.answer in fact.candidates else fact.candidates[3]
            for before, fact in zip(facts, islice(facts, 1, None), strict=False)
        ],
    }
    for name, guessed in guesses.items():
        asked = facts[len(facts) - len(guessed) :]
        right = sum(fact.answer == guess for fact, guess in zip(asked, guessed, strict=True))
        assert right / len(guessed) == pytest.approx(1 / CANDIDATES, abs=0.02), name  # four standard errors


def test_names_that_the_text_has_are_left_out() -> None:
    text = tiny.TEXT + " ".join(NAMES[:-10]).upper()
    assert FactMaker(tiny.loaded(), text).names == list(NAMES[-10:])
    with pytest.raises(UsageError, match="11 facts cannot be planted: there are 10 names"):
        make_stream(tiny.loaded(), text, 64, 0, probes=11)


def test_chosen_distances() -> None:
    stream = make_stream(tiny.loaded(), tiny.TEXT, 64, 0, probes=9, distances=(20, 300))
    assert Counter(probe.distance for probe in stream.probes) == {20: 5, 300: 4}
    with pytest.raises(UsageError, match=r"do not fit into 3 tokens; give distances of \d+ or more"):
        make_stream(tiny.loaded(), tiny.TEXT, 64, 0, distances=(300, 3))


def test_too_small_a_window_is_told_with_one_that_does() -> None:
    with pytest.raises(UsageError, match="A window of 12 entries is too small for the recall probe") as told:
        make_stream(tiny.loaded(), tiny.TEXT, 12, 0, probes=12)
    enough = int(str(told.value).split("a window of ")[1].split()[0])
    stream = make_stream(tiny.loaded(), tiny.TEXT, enough, 0, probes=12)
    assert len({probe.distance for probe in stream.probes}) == 6
    with pytest.raises(UsageError):
        make_stream(tiny.loaded(), tiny.TEXT, enough - 1, 0, probes=12)


@pytest.mark.parametrize("probes", [0, -1, 1000])
def test_a_number_of_facts_that_cannot_be(probes) -> None:
    with pytest.raises(UsageError, match=f"ask for 1 to {len(NAMES)}"):
        make_stream(tiny.loaded(), tiny.TEXT, 64, 0, probes=probes)


def test_a_tokenizer_that_cuts_the_words_up_is_told() -> None:
    from tests.engine.listening import tokenizer

    loaded = replace(tiny.loaded(), tokenizer=tokenizer())
    with pytest.raises(
        UsageError, match=r"The tokenizer of tiny has \d of the recall probe's words as one token each"
    ):
        make_stream(loaded, tiny.TEXT, 64, 0)


def test_an_empty_text_is_told() -> None:
    with pytest.raises(UsageError, match="The text is empty"):
        make_stream(tiny.loaded(), "", 64, 0)


def test_names_and_words_are_all_different() -> None:
    assert len(set(map(str.casefold, NAMES))) == len(NAMES) >= 120
    assert len(set(WORDS)) == len(WORDS)
    assert not set(map(str.casefold, NAMES)) & set(WORDS)
