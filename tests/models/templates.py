"""Chat templates of the styles in use, each as short as its style allows, and tokenizers that have their tokens."""

from __future__ import annotations

from dataclasses import dataclass, field

from tokenizers import AddedToken
from transformers import PreTrainedTokenizerFast

from tests.models.tiny import CHATML, GEMMA, INST, byte_level, sentence_piece

DATED = """{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- set system = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system = 'You are a tiny model.' %}
{%- endif %}
{{- '<|start_header_id|>system<|end_header_id|>\\n\\nToday is ' + strftime_now('%d %b %Y') + '.\\n\\n' }}
{{- system + '<|eot_id|>' }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
    {{- message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}"""
"""Headers; a date, and a default system prompt."""

SYSTEM_WITH_LATEST = """{%- if messages[0].role == 'system' %}
    {%- set system = messages[0].content %}{% set messages = messages[1:] %}
{%- endif %}
{{- bos_token }}
{%- for message in messages %}
    {%- if message.role == 'user' %}
        {{- '[INST] ' + (system + '\\n\\n' if system and loop.last else '') + message.content + '[/INST]' }}
    {%- else %}
        {{- ' ' + message.content + eos_token }}
    {%- endif %}
{%- endfor %}"""
"""`[INST]` that puts the system prompt into the latest of the person's turns, wherever that is."""

PHI = """{% for message in messages %}{{ '<|' + message['role'] + '|>\\n' + message['content'] + '<|end|>\\n' }}
{%- endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}"""
"""A conversation that is over ends with a token more."""

HARMONY = """{{- '<|start|>system<|message|>Knowledge cutoff: 2024-06\\nCurrent date: ' + strftime_now('%Y-%m-%d') }}
{{- '\\n# Valid channels: analysis, commentary, final.<|end|>' }}
{%- if messages[0].role == 'system' %}
    {{- '<|start|>developer<|message|># Instructions\\n\\n' + messages[0].content + '\\n\\n<|end|>' }}
    {%- set messages = messages[1:] %}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'user' %}
        {{- '<|start|>user<|message|>' + message.content + '<|end|>' }}
    {%- elif '<|channel|>' in message.content %}
        {{- raise_exception('a channel in a message') }}
    {%- else %}
        {{- '<|start|>assistant<|channel|>final<|message|>' + message.content }}
        {{- '<|return|>' if loop.last and not add_generation_prompt else '<|end|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start|>assistant' }}{% endif %}"""
"""Channels: of earlier replies only the final one is shown."""

DROPS_THINKING = """{%- for message in messages %}
    {%- set content = message.content %}
    {%- if message.role == 'assistant' and '</think>' in content %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.role == 'assistant' and loop.last %}{{- '<think>\\n\\n</think>\\n\\n' }}{% endif %}
    {{- content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}"""
"""ChatML of a model that thinks when it likes; thinking is shown of the last reply alone."""

OPENS_THINKING = """{{- bos_token }}
{%- for message in messages %}
    {%- if message.role == 'system' %}{{- message.content }}{% endif %}
    {%- if message.role == 'user' %}{{- '<|User|>' + message.content }}{% endif %}
    {%- if message.role == 'assistant' %}
        {{- '<|Assistant|>' + message.content.split('</think>')[-1] + eos_token }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|Assistant|><think>\\n' }}{% endif %}"""
"""A model that always thinks: the thinking is opened for it, and dropped afterwards."""

NO_PROMPT = """{% for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{% endfor %}"""
"""A template that never learned of a generation prompt."""

PARTS = """{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' }}
{%- for part in message.content %}{% if part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}
{{- '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
"""A model that sees pictures: every message is a list of parts."""

SPOKEN = """{{ messages[0].content + ' ' if messages[0].role == 'system' }}
{%- for message in messages if message.role != 'system' %}
    {{- 'USER: ' + message.content + ' ' if message.role == 'user' else 'ASSISTANT: ' + message.content + eos_token }}
{%- endfor %}"""
"""Names in plain text, no control token but the last, and no generation prompt."""

_CHATML_TOKENS = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
_HEADERS = ("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
_HARMONY = ("<|startoftext|>", "<|return|>", "<|start|>", "<|end|>", "<|channel|>", "<|message|>", "<|call|>")


def with_think(tokenizer: PreTrainedTokenizerFast) -> PreTrainedTokenizerFast:
    """With `<think>` and `</think>` as tokens that are not special, as most have them."""
    tokenizer.add_tokens([AddedToken(name, special=False, normalized=False) for name in ("<think>", "</think>")])
    return tokenizer


@dataclass(frozen=True)
class Style:
    tokenizer: PreTrainedTokenizerFast
    stops: tuple[str, ...]
    """Tokens that end a reply."""
    opened: str = ""
    """What the model itself writes before the text of a reply, so that it reads as the template shows one."""
    system: bool = True
    """Whether a system prompt is a turn of its own, or opens the person's first text."""
    system_stays: bool = True
    """Whether the template leaves it where it was when the conversation grows."""
    thinking: str = field(default="", kw_only=True)
    """What the model writes before an answer and the template drops later."""
    dropped: str = field(default="", kw_only=True)
    """What of a reply's opening is dropped with it."""


STYLES = {
    "chatml": Style(byte_level(*_CHATML_TOKENS, template=CHATML), ("<|im_end|>",)),
    "headers with a date": Style(byte_level(*_HEADERS, template=DATED), ("<|eot_id|>",)),
    "[INST]": Style(byte_level("<s>", "</s>", template=INST), ("</s>",), " "),
    "[INST], system with the latest": Style(
        sentence_piece("<s>", "</s>", template=SYSTEM_WITH_LATEST), ("</s>",), " ", system_stays=False
    ),
    "gemma": Style(
        byte_level("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>", template=GEMMA),
        ("<end_of_turn>",),
        system=False,
    ),
    "phi": Style(
        byte_level("<s>", "<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>", template=PHI),
        ("<|end|>",),
    ),
    "harmony": Style(
        byte_level(*_HARMONY, template=HARMONY),
        ("<|return|>", "<|call|>"),
        "<|channel|>final<|message|>",
        thinking="<|channel|>analysis<|message|>Let me see.<|end|><|start|>assistant",
    ),
    "drops thinking": Style(
        with_think(byte_level(*_CHATML_TOKENS, template=DROPS_THINKING)),
        ("<|im_end|>",),
        thinking="<think>\nLet me see.\n</think>\n\n",
    ),
    "opens thinking": Style(
        with_think(byte_level("<s>", "</s>", "<|User|>", "<|Assistant|>", template=OPENS_THINKING)),
        ("</s>",),
        thinking="Let me see.\n</think>",
        dropped="<think>\n",
    ),
    "no generation prompt": Style(byte_level(*_CHATML_TOKENS, template=NO_PROMPT), ("<|im_end|>",)),
    "parts": Style(byte_level(*_CHATML_TOKENS, template=PARTS), ("<|im_end|>",)),
    "spoken": Style(byte_level("<s>", "</s>", template=SPOKEN), ("</s>",), " "),
    "named": Style(
        byte_level(*_CHATML_TOKENS, template={"tool_use": "{{ raise_exception('tools only') }}", "default": CHATML}),
        ("<|im_end|>",),
    ),
}
