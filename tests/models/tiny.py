"""Tiny tokenizers and models of known kinds, made on the spot: no network, no download."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CORPUS = [
    "The keeper of the lighthouse read the sea as others read a book, and the sea read him back.",
    "def keep(sinks, window):\n    return sinks + window - 1  # never more\n\n\n\nprint(keep(4, 4096))",
    "naïve café, Größe, 東京, привет, 👩‍🚀 and 🏳️‍🌈 in 1999",
]

CHATML = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a tiny model.<|im_end|>\n' }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

LLAMA_3 = (
    "{% for message in messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' "
    "+ message['content'] | trim + '<|eot_id|>' %}"
    "{% if loop.first %}{% set content = bos_token + content %}{% endif %}"
    "{{ content }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)

INST = (
    "{% if messages[0]['role'] == 'system' %}{% set system = messages[0]['content'] %}{% set rest = messages[1:] %}"
    "{% else %}{% set system = none %}{% set rest = messages %}{% endif %}"
    "{% for message in rest %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}"
    "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' }}"
    "{% if loop.first and system is not none %}{{ '<<SYS>>\n' + system + '\n<</SYS>>\n\n' }}{% endif %}"
    "{{ message['content'] + ' [/INST]' }}"
    "{% else %}{{ ' ' + message['content'] + ' ' + eos_token }}{% endif %}{% endfor %}"
)

GEMMA = (
    "{{ bos_token }}"
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for message in messages %}{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}"
    "{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)


def byte_level(
    *special: str, template: str | dict[str, str] | None = None, **options: Any
) -> PreTrainedTokenizerFast:
    """Byte-level BPE, as GPT-2 and Llama 3 have it. The first of `special` is its BOS, the second its EOS."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return _wrapped(tokenizer, special, template, **options)


def sentence_piece(
    *special: str, template: str | dict[str, str] | None = None, legacy: bool = False, **options: Any
) -> PreTrainedTokenizerFast:
    """BPE over characters with `▁` for the space and bytes for the unknown, as Llama 2 has it.

    `legacy`: a space is put before every stretch between control tokens, and not only before the whole text.
    """
    letters = sorted({character for text in CORPUS[:2] for character in text.replace(" ", "▁") if character != "\n"})
    words = ["he", "the", "▁the", "re", "ad", "read", "▁read", "se", "sea", "▁sea", "▁▁"]
    pieces = ["<unk>", *special, *(f"<0x{byte:02X}>" for byte in range(256)), *letters, *words, "▁se", "▁re"]
    vocabulary = {piece: index for index, piece in enumerate(dict.fromkeys(pieces))}
    merges = [("h", "e"), ("t", "he"), ("▁", "the"), ("r", "e"), ("a", "d"), ("re", "ad"), ("▁", "read")]
    merges += [("s", "e"), ("se", "a"), ("▁", "sea"), ("▁", "▁")]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    if legacy:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens([AddedToken(name, normalized=False, special=True) for name in ("<unk>", *special)])
    return _wrapped(tokenizer, special, template, **options)


def _wrapped(
    tokenizer: Tokenizer, special: tuple[str, ...], template: str | dict[str, str] | None, **options: Any
) -> PreTrainedTokenizerFast:
    named = dict(zip(("bos_token", "eos_token"), special, strict=False))
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, clean_up_tokenization_spaces=False, **named, **options)
    fast.chat_template = template
    return fast


def chatml_tokenizer() -> PreTrainedTokenizerFast:
    return byte_level("<|im_start|>", "<|im_end|>", "<|endoftext|>", template=CHATML)


def llama(vocabulary: int, **changes: Any) -> LlamaForCausalLM:
    """A random llama of two layers."""
    settings: dict[str, Any] = {
        "vocab_size": vocabulary,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "dtype": "bfloat16",
    }
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**(settings | changes))).to(torch.bfloat16)


def save_llama(folder: Path, **changes: Any) -> Path:
    """A whole model folder: config, tokenizer with a chat template, safetensors."""
    tokenizer = chatml_tokenizer()
    llama(len(tokenizer), **changes).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
