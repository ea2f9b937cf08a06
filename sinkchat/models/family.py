"""Which models cannot run, told from their `config.json` alone, before any weight is read. Free of torch.

Facts of the config decide where there are any, and names only where a family's config does not show what it is.
Whatever is not refused here is loaded, and proves its attention then, layer by layer.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from sinkchat.errors import ModelError, ModelRefused
from sinkchat.models.allowed import NOTHING, Allowed

_INSTEAD = "choose a model with rotary attention in every layer, such as a Llama, Qwen3, Gemma or Mistral"

_LEARNED = (
    "gpt2", "gpt-sw3", "gpt_bigcode", "gpt_neo", "openai-gpt", "opt", "xglm", "biogpt", "ctrl", "xlm", "bert",
    "bert-generation", "roberta", "xlm-roberta", "camembert", "electra", "ernie", "rembert", "big_bird",
)  # fmt: skip
"""Positions are added to the embeddings, and nothing in the config says so."""
_BIASED = ("bloom", "mpt")
_RECURRENT = (
    "mamba", "mamba2", "falcon_mamba", "rwkv", "xlstm", "jamba", "bamba", "zamba", "zamba2", "recurrent_gemma",
)  # fmt: skip
_LATENT = ("deepseek_v2", "deepseek_v3", "deepseek_v32", "minicpm3")

_LAYER_LISTS = ("layer_types", "layers_block_type", "block_types", "attn_type_list")
_RECURRENT_LAYER = re.compile(r"linear|mamba|conv|recurrent|ssm|rwkv|delta|hybrid", re.IGNORECASE)
_RECURRENT_FIELD = re.compile(
    r"mamba_|ssm_|lru_|linear_(num|key|value|conv|attn)|conv_l_cache|state_size$|full_attn_idxs|hybrid_override",
    re.IGNORECASE,
)
_PARTS = ("text_config", "llm_config", "language_config", "thinker_config")
_NO_TEXT = re.compile(
    r"For(MaskedLM|SequenceClassification|TokenClassification|QuestionAnswering|MultipleChoice)|Reward(Model)?$"
)


def read_config(folder: Path, name: str) -> dict[str, Any]:
    """The model's `config.json`. `name` is what the person called the model, for the errors."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{name} holds no model: there is no config.json in {folder}.") from None
    except (OSError, ValueError) as error:
        raise ModelError(f"The config.json of {name} cannot be read ({error}); fetch the model again.") from error
    if not isinstance(config, dict):
        raise ModelError(f"The config.json of {name} is not a JSON object; fetch the model again.")
    return config


def check_family(config: Mapping[str, Any], name: str, allowed: Allowed = NOTHING) -> None:
    """Raise `ModelRefused`, with the reason and a way out, where the config tells that the model cannot run."""
    family = config.get("model_type")
    if not isinstance(family, str) or not family:
        raise ModelRefused(f"{name} is refused: its config.json names no model_type; {_INSTEAD}.")
    for reason in _reasons(config, family):
        raise ModelRefused(f"{name} is refused: its model_type is {family} and {reason}; {_INSTEAD}.")
    _check_known(config, family, name, allowed)


def _reasons(config: Mapping[str, Any], family: str) -> Iterator[str]:
    if config.get("is_encoder_decoder"):
        yield "it is an encoder-decoder, and the cache of its encoder cannot be bounded"
    for part in (config, *(config[key] for key in _PARTS if isinstance(config.get(key), Mapping))):
        kind = str(part.get("model_type", family))
        if _is_recurrent(part, kind):
            yield "it has a recurrent state in some or all of its layers, which is no KV cache that can be bounded"
        if part.get("kv_lora_rank") or kind in _LATENT:
            yield "it keeps a compressed latent in place of keys, and no key that could be turned"
        if _is_biased(part, kind):
            yield "it adds biases by distance (ALiBi) to its attention instead of rotary positions"
        if _is_learned(part, kind):
            yield "it has learned positions, over which no window can slide"
        if _scales_queries(part):
            yield "its queries are scaled by their position, which a bounded cache cannot take back"
    for architecture in config.get("architectures") or ():
        if _NO_TEXT.search(str(architecture)):
            yield f"its head is that of {architecture}, which writes no text"


def _is_recurrent(part: Mapping[str, Any], kind: str) -> bool:
    if kind in _RECURRENT:
        return True
    layers = [layer for key in _LAYER_LISTS for layer in (part.get(key) or ())]
    if layers:  # the list is the truth: a family that can mix may be all attention in one of its sizes
        return any(isinstance(layer, str) and _RECURRENT_LAYER.search(layer) for layer in layers)
    return any(value and _RECURRENT_FIELD.match(key) for key, value in part.items())


def _is_biased(part: Mapping[str, Any], kind: str) -> bool:
    attention = part.get("attn_config")
    nested = isinstance(attention, Mapping) and attention.get("alibi")
    return bool(part.get("alibi") or nested or part.get("position_embedding_type") == "alibi" or kind in _BIASED)


def _is_learned(part: Mapping[str, Any], kind: str) -> bool:
    by_type = str(part.get("position_embedding_type")) in ("absolute", "relative_key", "relative_key_query")
    counted = "n_positions" in part and not part.get("rotary_dim")
    return by_type or counted or kind in _LEARNED


def _scales_queries(part: Mapping[str, Any]) -> bool:
    ropes = [part.get(key) for key in ("rope_parameters", "rope_scaling")]
    scaled = any(isinstance(rope, Mapping) and rope.get("llama_4_scaling_beta") for rope in ropes)
    return bool(scaled or part.get("attn_temperature_tuning"))


def _check_known(config: Mapping[str, Any], family: str, name: str, allowed: Allowed) -> None:
    """Refuse what transformers has no causal language model for, unless the model brings code that may run."""
    known = causal_families()
    if not known or family in known:
        return
    brings = config.get("auto_map")
    if isinstance(brings, Mapping) and "AutoModelForCausalLM" in brings:
        if allowed.remote_code:
            return
        raise ModelRefused(
            f"{name} is refused: its model_type {family} is no part of transformers and it comes with Python code of "
            "its own; read that code and say --trust-remote-code if you trust it, or choose another model."
        )
    if any(key in config for key in (*_PARTS, "vision_config", "audio_config")):
        raise ModelRefused(
            f"{name} is refused: its model_type is {family}, it takes more than text, and transformers has no class "
            "for its text part alone; choose the model of the same family that takes text only."
        )
    raise ModelRefused(
        f"{name} is refused: its model_type is {family}, and this transformers has no causal language model of that "
        "name; choose another model, or a newer sinkchat if the model is new."
    )


@lru_cache(maxsize=1)
def causal_families() -> frozenset[str]:
    """Every `model_type` that transformers has a causal language model for; empty where its table is not found.

    Read from the source of its own table: importing it takes seconds, and torch.
    """
    found = importlib.util.find_spec("transformers")
    if found is None or found.origin is None:
        return frozenset()
    source = Path(found.origin).parent / "models" / "auto" / "modeling_auto.py"
    try:
        text = source.read_text(encoding="utf-8")
    except OSError:
        return frozenset()
    table = re.search(r"^MODEL_FOR_CAUSAL_LM_MAPPING_NAMES = (.*?)^\)", text, re.MULTILINE | re.DOTALL)
    return frozenset(re.findall(r'\(\s*"([\w.-]+)",', table[1])) if table else frozenset()
