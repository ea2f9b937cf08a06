"""Of a model that takes pictures too, the text part is loaded alone, and says what the whole would say."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForImageTextToText, BitsAndBytesConfig

from sinkchat.models.find import find
from sinkchat.models.load import load
from tests.models.tiny import chatml_tokenizer

TEXT = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "query_pre_attn_scalar": 16,
    "sliding_window": 8,
    "max_position_embeddings": 256,
}
TOWER = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 14,
}


@pytest.mark.parametrize(("quant", "stored"), [("none", False), ("nf4", False), ("nf4", True)])
def test_the_text_part_of_gemma3_runs_without_its_tower(quant: str, stored: bool, tmp_path: Path) -> None:
    tokenizer = chatml_tokenizer()
    text = TEXT | {"vocab_size": len(tokenizer)}
    config = AutoConfig.for_model("gemma3", text_config=text, vision_config=TOWER, mm_tokens_per_image=4)
    torch.manual_seed(0)
    AutoModelForImageTextToText.from_config(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)

    if stored:
        bits = BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", llm_int8_skip_modules=["vision_tower", "lm_head"]
        )
        packed = AutoModelForImageTextToText.from_pretrained(
            tmp_path, quantization_config=bits, device_map={"": "cpu"}
        )
        packed.save_pretrained(tmp_path)
    loaded = load(find(str(tmp_path)), device="cpu", quant=quant, dtype="float32")
    assert (loaded.facts.family, loaded.facts.quant) == ("gemma3", quant)
    assert not any("vision" in name for name, _ in loaded.model.named_parameters())
    if quant == "nf4":  # whose tower the fused kernel of a CPU could not hold
        return
    whole = AutoModelForImageTextToText.from_pretrained(tmp_path, attn_implementation="eager", dtype=torch.float32)
    ids = torch.tensor([[3, 141, 59, 26, 53]])
    loaded.model.set_attn_implementation("eager")
    with torch.inference_mode():
        torch.testing.assert_close(loaded.model(input_ids=ids).logits, whole(input_ids=ids).logits)
