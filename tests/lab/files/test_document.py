"""What an evaluation leaves on disk: all of it comes back, and what is no evaluation is told, never half believed."""

from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import json
import math
import os
import random
import re
import stat
import time
import types
import typing
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sinkchat.cache.policy import Policy
from sinkchat.errors import SinkchatError, UsageError
from sinkchat.lab.files import document
from sinkchat.lab.files.document import from_json, read, to_json, write
from sinkchat.lab.results import Evaluation, Recall, Rule, Run
from tests.lab.sample import everything

KEYS = {
    "top": {"schema", "model", "revision", "dtype", "quant", "device", "text", "runs", "generation", "recall"},
    "text": {"name", "sha256", "tokens"},
    "run": {
        *("policy", "positions", "sinks", "window", "tokens", "loss_mean", "loss_before", "loss_after", "ppl"),
        *("ppl_after", "ppl_full_same_positions", "first_eviction", "evictions", "kv_entries_max", "kv_bytes"),
        *("sink_share_mean", "sink_share_heads", "collapse_at", "tokens_per_second", "curve"),
    },
}
"""What scripts may rely on."""


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    policy: Policy = draw(values(Rule, "policy"))
    positions, tokens = draw(values(Rule, "positions")), draw(values(Rule, "sink_tokens"))
    start = draw(st.integers(0, 10**9))
    sinks = draw(st.integers(0, 64))
    window = None if policy == "full" else draw(st.integers(sinks + 1, 10**6))
    return Rule(policy, positions, sinks, window, start, tokens)


def values(record: type, name: str) -> st.SearchStrategy[Any]:
    return any_of(typing.get_type_hints(record)[name])


def any_of(type_: Any) -> st.SearchStrategy[Any]:
    """Whatever a field of the records may hold."""
    if type_ is Rule:
        return rules()
    if isinstance(type_, type) and dataclasses.is_dataclass(type_):
        hints = typing.get_type_hints(type_)
        fields = {field.name: any_of(hints[field.name]) for field in dataclasses.fields(type_)}
        return st.builds(type_, **fields).map(fitting)
    origin, arguments = typing.get_origin(type_), typing.get_args(type_)
    if origin in (typing.Union, types.UnionType):
        return st.one_of([st.none() if argument is type(None) else any_of(argument) for argument in arguments])
    if origin is collections.abc.Sequence:
        return st.lists(any_of(arguments[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*map(any_of, arguments))
    if origin is typing.Literal:
        return st.sampled_from(arguments)
    text = st.text(st.characters(codec="utf-8") | st.characters(max_codepoint=0xA0) | st.just("\udce9"), max_size=8)
    return {bool: st.booleans(), int: st.integers(0, 2**53), float: st.floats(), str: text}[type_]


def fitting(record: Any) -> Any:
    """The record with counts that can be of one evaluation."""
    if isinstance(record, Run):
        count = max(1, len(record.losses or ()))
        return replace(
            record,
            tokens=count,
            losses=None if not record.losses else record.losses,
            shares=None if record.shares is None else (0.5,) * count,
            curve=tuple(replace(point, position=at) for at, point in enumerate(record.curve[:count])),
            first_eviction=None if record.first_eviction is None else record.first_eviction % count,
        )
    if isinstance(record, Recall):
        return replace(record, right=min(record.right, record.asked), chance=record.right % 2 / 2)
    if isinstance(record, Evaluation):
        runs = {run.rule: run for run in record.runs}
        drawn = {(one.rule, one.seed): one for one in record.generation}
        asked = {(one.rule, one.stream_window, one.distance, one.visible): one for one in record.recall}
        lists = {"runs": tuple(runs.values()), "generation": tuple(drawn.values()), "recall": tuple(asked.values())}
        most = max((run.tokens for run in runs.values()), default=0)
        lists["runs"] = tuple(replace(run, complete=run.complete and run.tokens == most) for run in lists["runs"])
        return replace(record, bin=max(1, record.bin), tokens=most, **lists)
    return record


@settings(deadline=None, max_examples=60)
@given(any_of(Evaluation))
def test_whatever_was_measured_comes_back(evaluation: Evaluation) -> None:
    written = to_json(evaluation)
    # `repr` tells every bit of a number, and that two nan are one.
    assert repr(from_json(written)) == repr(evaluation)
    assert re.fullmatch(r"[\n -~]*", written)
    json.loads(written, parse_constant=pytest.fail)


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    made = everything()
    return replace(made, generation=tuple(made.generation), recall=tuple(made.recall))


@pytest.fixture
def plain(evaluation: Evaluation) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(to_json(evaluation))
    return found


def test_a_real_one_comes_back(evaluation: Evaluation, tmp_path: Path) -> None:
    write(evaluation, tmp_path / "out.json")
    assert read(tmp_path / "out.json") == evaluation


def test_the_names_that_scripts_rely_on_are_there(plain: dict[str, Any]) -> None:
    assert plain.keys() >= KEYS["top"]
    assert plain["schema"] == "sinkchat-evaluation/1"
    assert plain["text"].keys() == KEYS["text"]
    for run in plain["runs"]:
        assert run.keys() >= KEYS["run"]
        assert run["curve"][0].keys() >= {"position", "loss"}
    assert {"policy", "seed", "loop_rate"} <= plain["generation"][0].keys()
    assert {"policy", "distance", "right"} <= plain["recall"][0].keys()


def test_perplexities_are_exp_of_the_losses_beside_them(plain: dict[str, Any]) -> None:
    pairs = [
        *(("ppl", "loss_mean"), ("ppl_before", "loss_before"), ("ppl_after", "loss_after")),
        *(("ppl_same_positions", "loss_same_positions"), ("ppl_full_same_positions", "loss_full_same_positions")),
    ]
    for run in plain["runs"]:
        for ppl, loss in pairs:
            assert run[ppl] == (None if run[loss] is None else math.exp(run[loss]))


def test_a_perplexity_past_all_numbers_is_written(evaluation: Evaluation) -> None:
    runs = [replace(evaluation.runs[1], loss_mean=loss) for loss in (800.0, math.inf, math.nan)]
    written = json.loads(to_json(replace(evaluation, runs=tuple(runs))))
    assert [run["ppl"] for run in written["runs"]] == ["inf", "inf", "nan"]
    assert [run["loss_mean"] for run in written["runs"]] == [800.0, "inf", "nan"]


def test_every_name_is_documented(plain: dict[str, Any]) -> None:
    described = (Path(__file__).parents[3] / "docs" / "evaluation.md").read_text("utf-8")
    named = set(re.findall(r"`([a-z_0-9]+)`", described))

    def names(value: object) -> set[str]:
        if isinstance(value, dict):
            return set(value) | set().union(*map(names, value.values()))
        return set().union(*map(names, value)) if isinstance(value, list) else set()

    assert names(plain) <= named


def test_a_point_of_a_curve_is_one_line_and_so_are_many_numbers(evaluation: Evaluation) -> None:
    lines = to_json(evaluation).splitlines()
    points = sum(len(run.curve) for run in evaluation.runs)
    assert sum('"position"' in line for line in lines) == points
    assert not [line for line in lines if re.fullmatch(r"[\s\d.e-]+,?", line)]
    assert max(map(len, lines)) < 1_500


def test_what_is_not_known_yet_is_passed_over(evaluation: Evaluation, plain: dict[str, Any]) -> None:
    plain["weather"] = "fine"
    plain["runs"][0]["curve"][0]["surprise"] = {"nats": [1]}
    del plain["runs"][0]["losses"]
    assert from_json(json.dumps(plain)) == evaluation


def put(place: str, value: object) -> Callable[[dict[str, Any]], None]:
    def change(plain: dict[str, Any]) -> None:
        *path, last = [int(key) if key.isdigit() else key for key in place.split("/")]
        at: Any = plain
        for key in path:
            at = at[key]
        if value is Ellipsis:
            del at[last]
        else:
            at[last] = value

    return change


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        ("schema", "sinkchat-evaluation/0", "its schema is not sinkchat-evaluation/1"),
        ("schema", "sinkchat-evaluation/two", "its schema is not sinkchat-evaluation/1"),
        ("schema", 1, "its schema is not sinkchat-evaluation/1"),
        ("schema", ..., "its schema is not sinkchat-evaluation/1"),
        ("model", ..., "model is missing"),
        ("model", None, "model is not a text"),
        ("text", ..., "text is missing"),
        ("text", "words", "text is not an object"),
        ("text/sha256", ..., "text.sha256 is missing"),
        ("text/tokens", "many", "text.tokens is not a whole number"),
        ("tokens", 2.5, "tokens is not a whole number"),
        ("tokens", True, "tokens is not a whole number"),
        ("bin", 0, "bin is not 1 or more"),
        ("complete", 1, "complete is neither true nor false"),
        ("runs", {}, "runs is not a list"),
        ("runs/2", 7, "runs[2] is not an object"),
        ("runs/2/policy", "half", "runs[2].policy is not one of sinks, window, full, recompute"),
        ("runs/2/window", None, "runs[2].window is missing"),
        ("runs/2/sinks", 256, "runs[2] makes no cache: A window of 256 entries has no room"),
        ("runs/2/loss_after", "high", "runs[2].loss_after is not a number"),
        ("runs/2/loss_after", False, "runs[2].loss_after is not a number"),
        ("runs/2/loss_after", 10**400, "runs[2].loss_after is not a number"),
        ("runs/2/curve/5/loss", None, "runs[2].curve[5].loss is not a number"),
        ("runs/2/head_maps/1/shares/3/0", "x", "runs[2].head_maps[1].shares[3][0] is not a number"),
        ("runs/2/sink_share_heads/29", 0.5, "runs[2].sink_share_heads[29] is not a list"),
        ("recall/4/policy", "half", "recall[4].policy is not one of"),
        ("generation/0/curve/1", [1, 2], "generation[0].curve[1] is not a list of 3"),
        ("tokens", -1, "tokens is not between 0 and 2**53"),
        ("runs/2/curve/5/evicted", 10**400, "runs[2].curve[5].evicted is not between 0 and 2**53"),
        ("runs/2/curve/5/position", 0, "runs[2].curve[5].position is none of the tokens after the one before"),
        ("runs/2/curve/5/position", 10**9, "runs[2].curve[5].position is none of the tokens"),
        ("runs/2/first_eviction", 10**9, "runs[2].first_eviction is none of the tokens"),
        ("runs/2/tokens", 100, "runs[2].tokens is not the 6,144 that were to be read"),
        ("runs/2/tokens", 6145, "runs[2].tokens is not the 6,144 that were to be read"),
        ("runs/2/losses", [1.0, 2.0], "runs[2].losses is not of 6,144 tokens"),
        ("runs/2/shares", [], "runs[2].shares is not of 6,144 tokens"),
        ("recall/4/right", 10**6, "recall[4].right is more than was asked"),
        ("recall/4/chance", 2, "recall[4].chance is not between 0 and 1"),
    ],
)
def test_what_is_no_evaluation_is_told_with_what_is_wrong(
    plain: dict[str, Any], place: str, value: object, reason: str
) -> None:
    put(place, value)(plain)
    with pytest.raises(UsageError) as caught:
        from_json(json.dumps(plain), "old.json")
    sentence = str(caught.value)
    assert sentence.startswith(f"old.json is no evaluation: {reason}")
    assert sentence.endswith("; name a file that sinkchat eval --json wrote.")


@pytest.mark.parametrize("part", ["runs", "generation", "recall"])
def test_what_is_there_twice_is_told(plain: dict[str, Any], part: str) -> None:
    plain[part].append(plain[part][1])
    with pytest.raises(UsageError, match=rf"{part}\[{len(plain[part]) - 1}\] is of the same as {part}\[1\]"):
        from_json(json.dumps(plain))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is not JSON (line 1, column 1)"),
        ('{\n "schema": ', "it is not JSON (line 2, column"),
        ("[" * 200_000, "its lists are too deep"),
        ('{"schema": NaN}', "there is a number in it that is none"),
        ("[1, 2]", "its schema is not"),
        ("7", "its schema is not"),
        ('{"format": "sinkchat-conversation", "version": 1}', "its schema is not"),
    ],
    ids=["empty", "torn", "deep", "constant", "list", "number", "conversation"],
)
def test_any_other_text_is_told(text: str, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        from_json(text)
    assert str(caught.value).startswith(f"The document is no evaluation: {reason}")


def test_a_number_past_all_numbers_is_none(plain: dict[str, Any]) -> None:
    text = json.dumps(plain).replace('"tokens_per_second": ', '"tokens_per_second": 1e999, "was": ', 1)
    with pytest.raises(UsageError, match=r"runs\[0\].tokens_per_second is not a number"):
        from_json(text)


def test_a_newer_document_is_told_as_such(plain: dict[str, Any]) -> None:
    plain["schema"] = "sinkchat-evaluation/2"
    with pytest.raises(UsageError, match=r"out\.json was written by a newer sinkchat.*update sinkchat"):
        from_json(json.dumps(plain), "out.json")


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_no_damage_is_anything_but_a_sentence(data: st.DataObject) -> None:
    written = to_json(SMALL)
    first = data.draw(st.integers(0, len(written)))
    damaged = written[:first] + data.draw(st.text(max_size=3)) + written[first + data.draw(st.integers(0, 40)) :]
    with contextlib.suppress(UsageError):
        from_json(damaged)


SMALL = replace(
    everything(),
    runs=tuple(
        replace(run, curve=run.curve[:2], head_maps=(), sink_share_heads=None) for run in everything().runs[:2]
    ),
    generation=(replace(everything().generation[0], text="x"),),
)


def test_what_cannot_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="There is no file"):
        read(tmp_path / "none.json")
    with pytest.raises(UsageError, match="cannot be read"):
        read(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="not a regular file"):
        read(tmp_path / "pipe")
    (tmp_path / "latin.json").write_bytes(b'{"model": "\xe9"}')
    with pytest.raises(UsageError, match="it is not UTF-8 text"):
        read(tmp_path / "latin.json")
    monkeypatch.setattr(document, "LARGEST", 4)
    with pytest.raises(UsageError, match="it has more than"):
        read(tmp_path / "latin.json")


def test_a_million_losses_are_written_and_read_in_seconds(tmp_path: Path, evaluation: Evaluation) -> None:
    drawn = random.Random(5)
    losses = (None, *(drawn.random() * 6 for _ in range(999_999)))
    run = replace(evaluation.runs[1], tokens=len(losses), losses=losses)
    long = replace(evaluation, tokens=len(losses), runs=(run,), generation=(), recall=())
    begun = time.process_time()
    write(long, tmp_path / "long.json")
    written = time.process_time()
    assert read(tmp_path / "long.json") == long
    assert written - begun < 8
    assert time.process_time() - written < 8
    assert (tmp_path / "long.json").stat().st_size < 25 * len(losses)


def test_writing_again_replaces_the_file_and_keeps_its_mode(tmp_path: Path, evaluation: Evaluation) -> None:
    path = tmp_path / "out.json"
    path.write_text("before")
    path.chmod(0o640)
    write(evaluation, path)
    assert read(path) == evaluation
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_link_stays_a_link(tmp_path: Path, evaluation: Evaluation) -> None:
    (tmp_path / "link.json").symlink_to("out.json")
    write(evaluation, tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert read(tmp_path / "out.json") == evaluation


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_disk_that_refuses_leaves_the_old_file_whole(
    tmp_path: Path, evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    (tmp_path / "out.json").write_text("before")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, failing, full)
        with pytest.raises(SinkchatError, match=r"out\.json cannot be written \(No space left on device\)") as caught:
            write(evaluation, tmp_path / "out.json")
    assert caught.value.exit_code == 1
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]
    assert (tmp_path / "out.json").read_text() == "before"


def test_an_interruption_leaves_the_old_file_whole(
    tmp_path: Path, evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out.json").write_text("before")

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(json, "dumps", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(evaluation, tmp_path / "out.json")
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]
    assert (tmp_path / "out.json").read_text() == "before"


def test_a_name_that_cannot_be_a_file_is_told(tmp_path: Path, evaluation: Evaluation) -> None:
    for name, reason in [
        (tmp_path, "is a folder"),
        (tmp_path / "no" / "out.json", "There is no folder"),
        (Path("/dev/null"), "is no ordinary file"),
        (tmp_path / "a\0b", "cannot be a file's name|There is no|cannot be written"),
    ]:
        with pytest.raises(UsageError, match=reason):
            write(evaluation, name)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
