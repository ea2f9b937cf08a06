"""Chat templates are programs of strangers: they are rendered in a process that can be ended.

One process renders everything that is asked of one template, at load, and is gone. It gets no environment, no open
file and nothing of this program; what it may use is limited (`Limits`).
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sinkchat.errors import ModelError

_CHILD = Path(__file__).with_name("rendering_child.py")

_KEPT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "TZ")
"""What an interpreter may need to start at all, and the time zone of dates."""


_ENDED = {getattr(signal, name) for name in ("SIGXCPU", "SIGKILL") if hasattr(signal, name)}
"""How a process ends that has used up its CPU time."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a template may use for all its renderings together."""

    seconds: int = 3
    """Of CPU. Compiling a long template and rendering it ten times takes a tenth of one."""
    memory: int = 512 * 2**20
    """Bytes of address space, the interpreter's own included; where the system limits it."""
    characters: int = 200_000
    """Of one rendering, of a conversation of a few words."""

    @property
    def wall(self) -> float:
        """Seconds by the clock: for a busy machine, and for systems that do not count a process's CPU."""
        return 10.0 + 3.0 * self.seconds


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a template is given to show."""

    turns: tuple[tuple[str, str], ...]
    """Pairs of role and text."""
    ask: bool
    """Whether the reply is to be opened (`add_generation_prompt`)."""
    parts: bool = False
    """Texts as lists of parts, as templates of models that also see pictures want them."""

    def variables(self) -> dict[str, Any]:
        def content(text: str) -> object:
            return [{"type": "text", "text": text}] if self.parts else text

        messages = [{"role": role, "content": content(text)} for role, text in self.turns]
        return {"messages": messages, "add_generation_prompt": self.ask}


@dataclass(frozen=True, slots=True)
class Rendered:
    """What a template made of a conversation."""

    text: str = ""
    error: str | None = None
    """Why it could not: what the template itself raises, or what is wrong with it."""


def render(
    source: str, names: Mapping[str, str], conversations: Sequence[Conversation], limits: Limits | None = None
) -> tuple[Rendered, ...]:
    """Render each conversation by the template `source`, in one process.

    names: the tokenizer's special tokens by their role, such as `bos_token`.
    Raises `ModelError` when the template passes its limits, or no process can be started for it.
    """
    limits = limits or Limits()
    order = {
        "source": source,
        "names": dict(names),
        "conversations": [conversation.variables() for conversation in conversations],
        "paths": _paths(),
        "seconds": limits.seconds,
        "memory": limits.memory,
        "characters": limits.characters,
    }
    return tuple(Rendered(**answer) for answer in _answers(json.dumps(order).encode(), limits))


def _answers(order: bytes, limits: Limits) -> list[dict[str, str]]:
    # -I, -S, -B: no variables, no user's folders, no startup files, nothing written.
    command = [sys.executable, "-I", "-S", "-B", str(_CHILD)]
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    try:
        done = subprocess.run(
            command,
            input=order,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=limits.wall,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _endless(limits) from error
    except OSError as error:
        raise _not_started(error.strerror or str(error)) from error
    if -done.returncode in _ENDED:
        raise _endless(limits)
    try:
        answers: list[dict[str, str]] = json.loads(done.stdout)
    except ValueError as error:
        raise _not_started(f"it ended with status {done.returncode} and no answer") from error
    return answers


def _endless(limits: Limits) -> ModelError:
    return ModelError(
        f"The model's chat template was stopped after {limits.seconds} seconds, since it came to no end; "
        "choose another model, or mend its chat template."
    )


def _not_started(reason: str) -> ModelError:
    return ModelError(
        f"The model's chat template is rendered in a process of its own, and that failed ({reason}); let sinkchat "
        "start processes, or take the chat template out of the model's folder to go on without turns."
    )


def _paths() -> list[str]:
    """The folders that jinja2 and what it imports lie in."""
    specs = [importlib.util.find_spec(name) for name in ("jinja2", "markupsafe")]
    if any(spec is None for spec in specs):
        raise ModelError("A chat template needs jinja2, which is not installed; run `pip install jinja2`.")
    return sorted({str(Path(spec.origin).parent.parent) for spec in specs if spec and spec.origin})
