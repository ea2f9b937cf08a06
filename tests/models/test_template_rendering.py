"""A template is rendered as transformers would, in a process that has nothing and can be ended."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sinkchat.errors import ModelError
from sinkchat.models import rendering
from sinkchat.models.rendering import Conversation, Limits, Rendered, render
from tests.models.tiny import byte_level

HELLO = Conversation((("user", "Hello <é>"),), ask=True)


def shown(source: str) -> Rendered:
    return render(source, {"bos_token": "<s>"}, [HELLO])[0]


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages | tojson }} {{ messages | tojson(indent=2) }}",
        "{{ strftime_now('%Y-%m') }}",
        "{% for n in range(9) %}{% if n == 2 %}{% continue %}{% endif %}"
        "{% if n == 5 %}{% break %}{% endif %}{{ n }}{% endfor %}",
        "{% generation %}{{ messages[0].content }}{% endgeneration %}",
        "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}",
        "{{ bos_token }}{{ eos_token }}{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}",
        "{% if tools %}no{% endif %}\n    {% if messages %}\nyes\n    {% endif %}\n",
        "{{ messages[0]['content'].split(' ')[0] | upper }}",
    ],
)
def test_a_template_reads_as_transformers_renders_it(source: str) -> None:
    tokenizer = byte_level("<s>", template=source)
    turns = [{"role": "user", "content": "Hello <é>"}]
    expected = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    assert shown(source) == Rendered(expected)


def test_one_conversation_that_fails_leaves_the_others() -> None:
    refuses = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}fine"
    system = Conversation((("system", "Be brief."),), ask=True)
    assert render(refuses, {}, [HELLO, system, HELLO]) == (
        Rendered("fine"),
        Rendered(error="no system"),
        Rendered("fine"),
    )


def test_the_process_gets_no_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = tmp_path / "told.py"
    told.write_text("import json, os\nprint(json.dumps([{'text': ' '.join(sorted(os.environ))}]))\n")
    monkeypatch.setattr(rendering, "_CHILD", told)
    monkeypatch.setenv("HF_TOKEN", "secret")
    assert "HF_TOKEN" not in shown("").text


def test_a_process_that_cannot_be_started_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(ModelError, match=r"process of its own, and that failed \(No such file or directory\); let"):
        shown("Hello")


def test_a_process_that_breaks_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit(3)\n")
    monkeypatch.setattr(rendering, "_CHILD", broken)
    with pytest.raises(ModelError, match="ended with status 3 and no answer"):
        shown("Hello")


def test_a_process_that_uses_no_time_and_does_not_end_is_stopped_by_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asleep = tmp_path / "asleep.py"
    asleep.write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setattr(rendering, "_CHILD", asleep)
    monkeypatch.setattr(Limits, "wall", 0.5)
    with pytest.raises(ModelError, match="came to no end"):
        shown("Hello")
