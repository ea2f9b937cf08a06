"""What cannot run exactly is refused by its config alone, and everything else is let through to the proof at load."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest

from sinkchat.errors import ModelRefused, UsageError
from sinkchat.models import quantized
from sinkchat.models.allowed import Allowed
from sinkchat.models.family import causal_families, check_family
from sinkchat.models.quantized import chosen_quant, stored_quant


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"model_type": "gpt2"}, "gpt2 and it has learned positions"),
        ({"model_type": "roformer", "position_embedding_type": "absolute"}, "learned positions"),
        ({"model_type": "new", "n_positions": 1024}, "learned positions"),
        ({"model_type": "t5", "is_encoder_decoder": True}, "t5 and it is an encoder-decoder"),
        ({"model_type": "bloom"}, "biases by distance .ALiBi. to its attention instead of rotary positions"),
        ({"model_type": "falcon", "alibi": True}, "biases by distance"),
        ({"model_type": "new", "attn_config": {"alibi": True}}, "biases by distance"),
        ({"model_type": "mamba"}, "mamba and it has a recurrent state in some or all of its layers"),
        ({"model_type": "new", "layer_types": ["full_attention", "linear_attention"]}, "a recurrent state"),
        ({"model_type": "lfm2", "layer_types": ["conv", "full_attention"]}, "a recurrent state"),
        ({"model_type": "falcon_h1", "mamba_d_ssm": 32}, "a recurrent state"),
        ({"model_type": "new", "kv_lora_rank": 512}, "new and it keeps a compressed latent in place of keys"),
        (
            {"model_type": "ministral3", "rope_parameters": {"llama_4_scaling_beta": 0.1}},
            "queries are scaled by their position",
        ),
        (
            {"model_type": "mistral3", "text_config": {"rope_parameters": {"llama_4_scaling_beta": 0.1}}},
            "queries are scaled by their position",
        ),
        ({"model_type": "llama4", "text_config": {"attn_temperature_tuning": True}}, "queries are scaled"),
        ({"model_type": "llava", "text_config": {}}, "llava, it takes more than text"),
        ({"model_type": "distilbert"}, "has no causal language model of that name"),
        (
            {"model_type": "llama", "architectures": ["LlamaForSequenceClassification"]},
            "its head is that of LlamaForSequenceClassification, which writes no text",
        ),
        ({"model_type": None}, "names no model_type"),
    ],
)
def test_the_reason_is_one_sentence_with_a_way_out(config: dict[str, Any], why: str) -> None:
    with pytest.raises(ModelRefused, match=why) as refused:
        check_family(config, "their/model")
    words = str(refused.value)
    assert words.startswith("their/model is refused: ")
    assert words.endswith(".")
    assert not re.search(r"[.!?] [A-Z]", words)
    assert "choose" in words


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "llama"},
        {"model_type": "qwen3_moe", "layer_types": ["full_attention", "sliding_attention"]},
        {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text"}, "vision_config": {}},
        {"model_type": "gptj", "n_positions": 2048, "rotary_dim": 64},
        # A family that can mix, in a size that does not.
        {"model_type": "granitemoehybrid", "layer_types": ["attention", "attention"], "mamba_d_state": 128},
        {"model_type": "llama", "auto_map": {"AutoModelForCausalLM": "mine.Mine"}},
    ],
)
def test_whatever_the_config_does_not_rule_out_is_left_to_the_proof(config: dict[str, Any]) -> None:
    check_family(config, "their/model")


def test_code_that_comes_with_a_model_lets_it_through_only_where_it_may_run() -> None:
    config = {"model_type": "theirs", "auto_map": {"AutoModelForCausalLM": "theirs.Model"}}
    with pytest.raises(ModelRefused, match="say --trust-remote-code if you trust it"):
        check_family(config, "their/model")
    check_family(config, "their/model", Allowed(remote_code=True))


def test_the_families_are_transformers_own() -> None:
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    assert causal_families() == set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def test_the_families_are_known_without_importing_transformers() -> None:
    program = (
        "import sys; from sinkchat.models.family import causal_families; assert 'llama' in causal_families(); "
        "sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(
    ("stored", "named"),
    [
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, "nf4"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "fp4"}, "fp4"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8"),
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
        (None, None),
    ],
)
def test_what_a_checkpoint_is_stored_in_is_told_by_its_config(stored: Any, named: str | None) -> None:
    assert stored_quant({"quantization_config": stored}, "m") == named
    assert stored_quant({"text_config": {"quantization_config": stored}}, "m") == named


def test_a_quantization_that_nobody_loads_is_refused() -> None:
    """The library would take the packed weights for plain ones."""
    with pytest.raises(ModelRefused, match="its weights are stored in theirs, which this transformers does not load"):
        stored_quant({"quantization_config": {"quant_method": "theirs"}}, "m")


def test_the_methods_are_transformers_own() -> None:
    from transformers.quantizers.auto import AUTO_QUANTIZATION_CONFIG_MAPPING

    ours = {method.partition("_4bit")[0].partition("_8bit")[0] for method in AUTO_QUANTIZATION_CONFIG_MAPPING}
    assert {*quantized._NEEDED, *quantized._BARE} == ours - {"bitsandbytes", "gguf"}


def test_a_quantization_that_contradicts_the_stored_one_is_an_error() -> None:
    assert chosen_quant("auto", "fp8", "m") == "fp8"
    assert chosen_quant("auto", None, "m") is None
    assert chosen_quant("nf4", None, "m") == "nf4"
    with pytest.raises(
        UsageError, match="--quant nf4 cannot be had: the weights of m are stored in fp8; say --quant a"
    ):
        chosen_quant("nf4", "fp8", "m")
