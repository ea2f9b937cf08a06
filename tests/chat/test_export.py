"""An export is whole or not there, complete, and over no other file unasked."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from sinkchat.chat.conversation import Conversation
from sinkchat.chat.export import (
    ExportExists,
    ExportFailed,
    default_name,
    export,
    render,
    saved_conversation,
)
from sinkchat.chat.session import ChatSession
from sinkchat.engine.events import Token
from sinkchat.errors import SinkchatError, UsageError
from sinkchat.models.sampling import Sampling
from tests.chat.conftest import OpenChat, drain
from tests.fakes import FakeEngine


@pytest.fixture
def chat(open_chat: OpenChat) -> ChatSession:
    engine = FakeEngine(window=32, reply="The first line.\n\n# A heading\n\n```\nan open fence <b>")
    chat = open_chat(engine, system="be brief", max_reply_tokens=6)
    drain(chat.say("hello\x1b[31m *you*"))
    drain(chat.change(policy="window"))
    drain(chat.go_on())
    drain(chat.read("some ``` text\n# with a heading\n", "notes`.txt"))
    chat.resample(Sampling(temperature=0.25, seed=5))
    drain(chat.say("what?"))
    return chat


@pytest.fixture
def document(chat: ChatSession) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(render(chat.conversation, "json"))
    return loaded


# -- json


def test_json_says_what_ran_and_how(document: dict[str, Any], chat: ChatSession) -> None:
    assert (document["format"], document["version"]) == ("sinkchat-conversation", 1)
    assert document["session"] == chat.id
    model = document["model"]
    assert (model["name"], model["revision"], model["quantization"]) == ("fake-model", "0123abcd", "none")
    assert (model["dtype"], model["device"], model["layers"], model["heads"]) == ("float32", "cpu", 2, 3)
    assert document["sampling"]["seed"] == 7
    assert document["settings"] == {
        "policy": "sinks",
        "positions": "cache",
        "sinks": 4,
        "window": 32,
        "max_reply_tokens": 6,
        "pin_system": False,
        "chat_template": True,
    }


def test_json_has_every_token_with_its_figures(document: dict[str, Any], chat: ChatSession) -> None:
    messages = document["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "file", "user", "assistant"]
    for message, own in zip(messages, chat.conversation.messages, strict=True):
        assert [token["id"] for token in message["tokens"]] == [token.id for token in own.tokens]
        assert [token["loss"] for token in message["tokens"]] == [token.loss for token in own.tokens]
        assert [token["sink_share"] for token in message["tokens"]] == [token.sink_share for token in own.tokens]
        assert message["text"] == own.text
    reply = messages[2]
    assert "".join(token["text"] for token in reply["tokens"]) == reply["text"]
    assert [len(reply["sink_share_heads"]), *map(len, reply["sink_share_heads"])] == [2, 3, 3]
    assert reply["finished"] == "stop"
    assert reply["loss"] == pytest.approx(sum(t["loss"] for t in reply["tokens"]) / len(reply["tokens"]))
    assert messages[1]["text"] == "hello\x1b[31m *you*"


def test_json_accounts_for_every_token_that_was_fed(document: dict[str, Any], chat: ChatSession) -> None:
    ids = {}
    for message in document["messages"]:
        ids |= {token["position"]: token["id"] for token in message["tokens"]}
    for frame in document["sequences"][0]["frames"]:
        ids |= {frame["position"] + index: token for index, token in enumerate(frame["ids"])}
    assert [ids[position] for position in range(len(ids))] == [t.id for t in chat.conversation.sequence.tokens]
    assert len(ids) == document["sequences"][0]["tokens"]


def test_json_places_changes_and_evictions(document: dict[str, Any], chat: ChatSession) -> None:
    (change,) = document["policy_changes"]
    tokens = document["messages"][2]["tokens"]
    assert change["position"] == tokens[6]["position"]
    assert (change["before"]["policy"], change["after"]["policy"], change["cause"]) == ("sinks", "window", "policy")
    assert change["after_message"] == 2
    assert sum(gone["count"] for gone in document["evictions"]) == chat.state().evicted_total
    assert {gone["cause"] for gone in document["evictions"]} == {"policy", "token"}
    (drawn,) = document["sampling_changes"]
    assert (drawn["sampling"]["temperature"], drawn["sampling"]["seed"]) == (0.25, 5)


def test_json_is_ascii_and_strict(chat: ChatSession) -> None:
    text = render(chat.conversation, "json")
    assert text.isascii()
    assert "\x1b" not in text
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_json_keeps_to_its_documented_fields(document: dict[str, Any]) -> None:
    described = (Path(__file__).parents[2] / "docs" / "export.md").read_text("utf-8")
    named = set(re.findall(r"`([a-z_]+)`", described))

    def names(value: object) -> set[str]:
        if isinstance(value, dict):
            return set(value) | set().union(*map(names, value.values()))
        return set().union(*map(names, value)) if isinstance(value, list) else set()

    assert names(document) <= named


# -- to read


def test_markdown_holds_each_message_under_its_own_heading(chat: ChatSession) -> None:
    text = render(chat.conversation, "md")
    tokens = MarkdownIt("commonmark").parse(text)
    outer = [(t.type, t.tag) for t in tokens if t.level == 0 and t.nesting >= 0]
    headings = [tag for kind, tag in outer if kind == "heading_open"]
    assert headings == ["h1"] + ["h2"] * 6
    assert [kind for kind, _ in outer if kind == "fence"] == ["fence"]  # what the file says
    assert not [t for parent in tokens for t in (parent, *(parent.children or ())) if t.type.startswith("html")]
    assert "\x1b" not in text
    assert "hello␛[31m *you*" in text


def test_what_happened_is_noted_where_it_happened(chat: ChatSession) -> None:
    for format, start in (("md", "*"), ("txt", "[")):
        lines = render(chat.conversation, format).splitlines()  # type: ignore[arg-type]
        note = next(index for index, line in enumerate(lines) if "policy sinks → window" in line)
        change = chat.conversation.policy_changes[0]
        assert lines[note].startswith(
            f"{start}At position {change.position}: policy sinks → window, the sinks are gone"
        )
        # Six words of the reply stand before it, the rest behind it.
        said = [index for index, line in enumerate(lines) if "The first line." in line]
        rest = next(index for index, line in enumerate(lines) if "an open fence" in line)
        assert said[0] < note < rest
        assert any("Sampling from here on: temperature 0.25" in line and "seed 5" in line for line in lines)
        assert any(
            re.search(r"Evicted between positions \d+ and \d+: \d+ entries, positions", line) for line in lines
        )
        assert any("positions" in line and "loss" in line and "sink share" in line for line in lines)


def test_in_plain_text_nothing_said_can_pass_for_the_documents_own(chat: ChatSession) -> None:
    lines = render(chat.conversation, "txt").splitlines()
    assert "  # with a heading" in lines
    own = [line for line in lines if line and not line.startswith("  ")]
    assert all(
        re.match(r"sinkchat session|[a-z ]+: |\[.*\]$|(System prompt|Person|File .*|Model), [\d:]+:$", x) for x in own
    )


def test_a_text_that_was_cut_short_says_how_far_it_was_read(open_chat: OpenChat) -> None:
    chat = open_chat(FakeEngine(chunk=4))
    events = chat.read("one two three four five six seven eight", "a.txt")
    next(events)
    chat.cancel()
    drain(events)
    for format in ("md", "txt"):
        text = render(chat.conversation, format)  # type: ignore[arg-type]
        assert "2 of 8 tokens read" in text
        assert re.search(r"one two\s.*The model did not read on from here\..* three four", text, re.DOTALL)


def test_a_taken_back_reply_is_kept_and_named(open_chat: OpenChat) -> None:
    chat = open_chat(FakeEngine(window=64, reply="good day"))
    drain(chat.say("hello"))
    drain(chat.retry())
    assert "taken back" in render(chat.conversation, "md")
    assert [m["taken_back"] for m in json.loads(render(chat.conversation, "json"))["messages"]] == [
        False,
        True,
        False,
    ]


def test_what_is_left_of_a_damaged_journal_is_exported(chat: ChatSession, folder: Path, tmp_path: Path) -> None:
    chat.close()
    path = folder / f"{chat.id}.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"text":" first"', b'"text":" worst"', 1))
    conversation = saved_conversation(path)
    text = export(conversation, tmp_path / "left.md").read_text("utf-8")
    assert re.search(r"damaged: the journal's line \d+ is damaged", text)
    assert "an open fence" in text
    assert json.loads(render(conversation, "json"))["damage"] == [str(d) for d in conversation.damage] != []


def test_a_saved_session_is_exported_as_the_live_one(chat: ChatSession, folder: Path) -> None:
    saved = saved_conversation(folder / f"{chat.id}.jsonl")
    for format in ("md", "json", "txt"):
        assert render(saved, format) == render(chat.conversation, format)  # type: ignore[arg-type]


# -- the file


def test_the_name_says_the_format_and_there_is_a_default(
    chat: ChatSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "made"
    made.mkdir()
    monkeypatch.chdir(made)
    monkeypatch.setenv("HOME", str(made))
    assert export(chat.conversation) == Path(f"sinkchat-{chat.id}.md")
    assert export(chat.conversation, made, "json").name == default_name(chat.conversation, "json")
    assert export(chat.conversation, "~/home.txt") == made / "home.txt"
    assert (made / "home.txt").read_text("utf-8") == render(chat.conversation, "txt")
    assert export(chat.conversation, "UP.MD").read_text("utf-8").startswith("# ")
    assert export(chat.conversation, "bare").read_text("utf-8").startswith("# ")
    assert export(chat.conversation, "odd.md", "json").read_text("utf-8").startswith("{")
    assert not [path for path in made.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("taken", ["file", "link", "dangling"])
def test_a_file_that_is_there_is_left_as_it_is(chat: ChatSession, tmp_path: Path, taken: str) -> None:
    target, other = tmp_path / "chat.md", tmp_path / "other"
    if taken != "dangling":
        other.write_text("precious")
    if taken == "file":
        target.write_text("precious")
    else:
        target.symlink_to(other)
    with pytest.raises(ExportExists, match=r"chat\.md is there already.*overwrite"):
        export(chat.conversation, target)
    if taken != "dangling":
        assert target.read_text() == other.read_text() == "precious"
    else:
        assert not other.exists()


def test_a_file_that_comes_meanwhile_is_left_as_it_is(
    chat: ChatSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "chat.md"
    link = os.link

    def late(source: Path, name: Path) -> None:
        target.write_text("precious")
        link(source, name)

    monkeypatch.setattr(os, "link", late)
    with pytest.raises(ExportExists):
        export(chat.conversation, target)
    assert target.read_text() == "precious"
    assert list(tmp_path.glob(".*")) == []


def test_without_hard_links_a_new_name_is_still_claimed_first(
    chat: ChatSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "not here")

    monkeypatch.setattr(os, "link", refuse)
    target = export(chat.conversation, tmp_path / "chat.md")
    assert target.read_text("utf-8") == render(chat.conversation, "md")
    with pytest.raises(ExportExists):
        export(chat.conversation, target)


def test_overwriting_is_asked_for_and_keeps_mode_and_link(chat: ChatSession, tmp_path: Path) -> None:
    real, link = tmp_path / "real.md", tmp_path / "link.md"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    export(chat.conversation, link, overwrite=True)
    assert link.is_symlink()
    assert real.read_text("utf-8").startswith("# ")
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_an_export_that_fails_leaves_the_old_file_and_no_litter(
    chat: ChatSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "chat.md"
    target.write_text("old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ExportFailed, match="No space left"):
        export(chat.conversation, target, overwrite=True)
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["chat.md"]


@pytest.mark.parametrize(
    ("path", "format", "said"),
    [
        ("nowhere/chat.md", None, "no folder .*nowhere"),
        ("chat.pdf", None, r"end it in \.md, \.json, \.txt"),
        ("chat.md", "pdf", "no format 'pdf'; take one of md, json, txt"),
        ("~nobody-of-that-name/x.md", None, "home folder"),
        ("file/chat.md", None, "no folder"),
    ],
)
def test_a_place_that_cannot_be_is_named(
    chat: ChatSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, format: Any, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=said):
        export(chat.conversation, path, format)


def test_a_name_that_the_disk_refuses_is_told(chat: ChatSession, tmp_path: Path) -> None:
    with pytest.raises(SinkchatError, match="cannot be written"):
        export(chat.conversation, tmp_path / ("x" * 300 + ".md"))


def test_an_ongoing_reply_can_be_exported(open_chat: OpenChat, tmp_path: Path) -> None:
    chat = open_chat()
    for number, event in enumerate(chat.say("hello")):
        if isinstance(event, Token):
            text = export(chat.conversation, tmp_path / f"{number}.md").read_text("utf-8")
            assert event.text.strip() in text


def test_an_empty_conversation_is_a_document_too() -> None:
    for format in ("md", "json", "txt"):
        assert render(Conversation(), format)  # type: ignore[arg-type]
