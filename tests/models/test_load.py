"""A model that runs is loaded as asked, and one that cannot run is refused before its weights are read."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

from sinkchat.cache.attention import NAME
from sinkchat.errors import ModelError, ModelRefused, UsageError
from sinkchat.models import memory, placement
from sinkchat.models.find import find
from sinkchat.models.load import LoadedModel, load
from sinkchat.models.memory import Plan, weight_need
from sinkchat.models.placement import LARGE, Placement, place
from sinkchat.models.progress import Progress
from sinkchat.models.sampling import Sampling
from sinkchat.models.stated import UNSTATED_SAMPLING, stated_sampling
from sinkchat.models.weights import StoredTensor
from tests.models.tiny import chatml_tokenizer, save_llama

CPU = torch.device("cpu")


@pytest.fixture
def folder(tiny_folder: Path, tmp_path: Path) -> Path:
    """A copy of the tiny model that a test may change."""
    return Path(shutil.copytree(tiny_folder, tmp_path / "model"))


def changed(folder: Path, file: str, **changes: Any) -> Path:
    path = folder / file
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return folder


def opened(folder: Path, **options: Any) -> LoadedModel:
    return load(find(str(folder)), **({"device": "cpu", "quant": "none"} | options))


def test_the_facts_are_those_of_the_folder(tiny_folder: Path) -> None:
    facts = opened(tiny_folder, dtype="float32").facts
    assert (facts.name, facts.revision, facts.family) == (str(tiny_folder), None, "llama")
    assert (facts.layers, facts.heads, facts.kv_heads, facts.trained_length) == (2, 4, 2, 256)
    assert (facts.quant, facts.dtype, facts.device) == ("none", "float32", "cpu")


def test_weight_bytes_are_those_of_the_tensors(tiny_folder: Path) -> None:
    stored = sum(tensor.numel() for tensor in load_file(tiny_folder / "model.safetensors").values())
    buffers = 16 * 4  # the rotary frequencies, in their two copies
    loaded = opened(tiny_folder, dtype="float32")
    assert loaded.facts.weight_bytes - 4 * stored in range(0, 2 * buffers + 1)
    assert opened(tiny_folder, dtype="bfloat16").facts.weight_bytes < 0.51 * loaded.facts.weight_bytes


def test_shared_embeddings_are_counted_once(tmp_path: Path, tiny_folder: Path) -> None:
    tied = opened(save_llama(tmp_path / "tied", tie_word_embeddings=True), dtype="float32")
    apart = opened(tiny_folder, dtype="float32")
    matrix = apart.model.lm_head.weight.nbytes
    assert apart.facts.weight_bytes - tied.facts.weight_bytes == matrix


def test_the_model_is_ready_and_attends_through_the_bounded_cache(tiny_folder: Path) -> None:
    model = opened(tiny_folder).model
    assert model.config._attn_implementation == NAME
    assert not model.training
    assert not any(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_the_type_asked_for_is_in_force(dtype: str, tiny_folder: Path) -> None:
    loaded = opened(tiny_folder, dtype=dtype)
    assert loaded.facts.dtype == dtype
    assert {parameter.dtype for parameter in loaded.model.parameters()} == {getattr(torch, dtype)}


@pytest.mark.parametrize(("fast", "chosen"), [(True, torch.bfloat16), (False, torch.float32)])
def test_a_cpu_takes_bfloat16_only_where_it_is_fast(
    fast: bool, chosen: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "_cpu_has_bfloat16", lambda: fast)
    auto = place(device="cpu", dtype="auto", quant="none", checkpoint=torch.bfloat16, tensors=())
    assert auto == Placement(CPU, chosen, "none")


@pytest.mark.parametrize(
    ("fused", "size", "chosen"), [(True, LARGE + 1, "nf4"), (True, LARGE, "none"), (False, LARGE + 1, "none")]
)
def test_auto_is_nf4_on_a_cpu_only_for_a_large_model_and_where_it_is_multiplied_without_unpacking(
    fused: bool, size: int, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "fused_nf4", lambda: fused)
    tensors = (StoredTensor("model.layers.0.mlp.up_proj.weight", (64, 64), size),)
    auto = place(device="cpu", dtype="float32", quant=None, checkpoint=torch.float32, tensors=tensors)
    assert auto.quant == chosen


def test_a_matrix_that_the_fused_kernel_cannot_hold_is_left_unquantized_or_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(placement, "fused_nf4", lambda: True)
    odd = (StoredTensor("model.layers.0.self_attn.k_proj.weight", (16, 64), LARGE + 1),)
    options: dict[str, Any] = {"device": "cpu", "dtype": "float32", "checkpoint": torch.float32, "tensors": odd}
    assert place(quant=None, **options).quant == "none"
    with pytest.raises(ModelError, match=r"k_proj\.weight is 16 by 64, .*; say --quant none or int8"):
        place(quant="nf4", **options)


@pytest.mark.parametrize("quant", ["nf4", "int8"])
def test_quantized_weights_take_the_bytes_that_are_stated_and_say_nearly_the_same(
    quant: str, tiny_folder: Path
) -> None:
    whole, packed = opened(tiny_folder, dtype="float32"), opened(tiny_folder, dtype="float32", quant=quant)
    assert packed.facts.quant == quant
    bits = {"nf4": 4, "int8": 8}[quant]
    matrices = sum(p.numel() for name, p in whole.model.named_parameters() if ".layers." in name and p.dim() == 2)
    saved = whole.facts.weight_bytes - packed.facts.weight_bytes
    assert 0.9 * matrices * (32 - bits) / 8 < saved < matrices * (32 - bits) / 8
    hidden = torch.randn(1, 64, generator=torch.Generator().manual_seed(0))
    layer, same = whole.model.model.layers[0].mlp.up_proj, packed.model.model.layers[0].mlp.up_proj
    with torch.inference_mode():
        assert torch.cosine_similarity(layer(hidden), same(hidden).float()).item() > 0.98


def test_a_quantized_layer_does_not_grow_when_it_is_first_used(tiny_folder: Path) -> None:
    loaded = opened(tiny_folder, quant="nf4")
    before = [parameter.shape for parameter in loaded.model.parameters()]
    with torch.inference_mode():
        loaded.model.model.layers[0].mlp.up_proj(torch.zeros(1, 64, dtype=torch.bfloat16))
    assert [parameter.shape for parameter in loaded.model.parameters()] == before


def test_a_checkpoint_that_is_quantized_already_is_taken_as_it_is(tiny_folder: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    bits = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True)
    stored = Path(shutil.copytree(tiny_folder, tmp_path / "stored"))
    model = AutoModelForCausalLM.from_pretrained(tiny_folder, quantization_config=bits, device_map={"": "cpu"})
    model.save_pretrained(stored)
    assert opened(stored, quant="auto").facts.quant == "nf4"
    assert opened(stored, quant="nf4").facts.quant == "nf4"
    with pytest.raises(UsageError, match=r"--quant int8 cannot be had: the weights of .* are stored in nf4"):
        opened(stored, quant="int8")
    with pytest.raises(UsageError, match="--quant none cannot be had"):
        opened(stored, quant="none")


def test_eight_bit_floats_are_unpacked_on_a_cpu_and_the_facts_say_so(tmp_path: Path) -> None:
    plain = opened(save_llama(tmp_path / "plain", hidden_size=128), dtype="bfloat16")
    folder = Path(shutil.copytree(tmp_path / "plain", tmp_path / "fp8"))
    stored = {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        stored[name] = tensor
        if "_proj.weight" in name:
            stored[name] = (tensor.float() * 2).to(torch.float8_e4m3fn)
            stored[f"{name}_scale_inv"] = torch.full([-(-size // 128) for size in tensor.shape], 0.5)
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    changed(folder, "config.json", quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128]})
    unpacked = opened(folder, quant="auto", dtype="bfloat16")
    assert (unpacked.facts.quant, unpacked.facts.weight_bytes) == ("none", plain.facts.weight_bytes)
    ours, theirs = (model.model.model.layers[0].mlp.up_proj.weight.float() for model in (unpacked, plain))
    assert torch.cosine_similarity(ours.flatten(), theirs.flatten(), dim=0) > 0.99


def test_stop_tokens_are_the_makers_the_tokenizers_and_the_templates(folder: Path) -> None:
    changed(folder, "generation_config.json", eos_token_id=[7, 9])
    changed(folder, "tokenizer_config.json", eos_token="<|endoftext|>")
    loaded = opened(folder)
    named = [loaded.tokenizer.convert_tokens_to_ids(name) for name in ("<|endoftext|>", "<|im_end|>")]
    assert loaded.stop_ids == {7, 9, *named}


@pytest.mark.parametrize(
    ("generation", "sampling"),
    [
        ({}, UNSTATED_SAMPLING),
        ({"do_sample": False, "temperature": 0.6}, Sampling(temperature=0, min_p=None, repetition_penalty=None)),
        ({"temperature": 0.6, "top_p": 0.9}, Sampling(0.6, top_p=0.9, min_p=None, repetition_penalty=None)),
        (
            {"do_sample": True, "top_k": 40, "repetition_penalty": 1.1},
            Sampling(1.0, top_k=40, min_p=None, repetition_penalty=1.1),
        ),
        ({"do_sample": None, "temperature": None, "top_p": "much"}, UNSTATED_SAMPLING),
    ],
)
def test_sampling_is_what_the_makers_say(generation: dict[str, Any], sampling: Sampling) -> None:
    assert stated_sampling(generation) == sampling


def test_loading_counts_the_bytes_of_the_checkpoint(tiny_folder: Path) -> None:
    steps: list[Progress] = []
    opened(tiny_folder, progress=steps.append)
    loading = [step for step in steps if step.stage == f"loading {tiny_folder}"]
    total = sum(tensor.nbytes for tensor in load_file(tiny_folder / "model.safetensors").values())
    assert {step.total for step in loading} == {total}
    assert [step.done for step in loading] == sorted(step.done for step in loading)
    assert len({step.done for step in loading}) > 10
    assert loading[-1].done == total


def test_nothing_is_printed_while_loading(
    tiny_folder: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        opened(tiny_folder, quant="int8")
        opened(tiny_folder, quant="nf4")
    assert capfd.readouterr() == ("", "")


def test_another_family_is_refused_before_weights_are_read(folder: Path) -> None:
    source = find(str(folder))
    changed(folder, "config.json", model_type="gpt2")
    (folder / "model.safetensors").write_bytes(b"not read")
    with pytest.raises(ModelRefused, match="model_type is gpt2 and it has learned positions"):
        load(source)


def test_a_config_is_checked_again_with_the_defaults_that_it_leaves_out(folder: Path) -> None:
    """Whether a granitemoehybrid is recurrent is told by a default where its config.json is silent."""
    changed(folder, "config.json", model_type="granitemoehybrid", architectures=["GraniteMoeHybridForCausalLM"])
    (folder / "model.safetensors").write_bytes(b"not read")
    source = find(str(folder))
    with pytest.raises(ModelRefused, match="granitemoehybrid and it has a recurrent state"):
        load(source)


def test_an_attention_that_cannot_be_replaced_is_refused(tmp_path: Path) -> None:
    tokenizer = chatml_tokenizer()
    config = AutoConfig.for_model(
        "falcon", vocab_size=len(tokenizer), hidden_size=64, num_hidden_layers=1, num_attention_heads=4
    )
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ModelRefused, match="its attention is its own and cannot be reached"):
        opened(tmp_path)


def test_weights_that_are_cut_short_are_said(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    with pytest.raises(ModelError, match=r"weight file model\.safetensors of .* is broken \(it is cut short\)"):
        opened(folder)


def test_a_missing_tensor_is_said_and_never_made_up(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(
        ModelError, match=r"incomplete: 1 tensors are missing, model\.layers\.1\.mlp\.up_proj\.weight"
    ):
        opened(folder)


def test_weights_of_another_shape_are_said(folder: Path) -> None:
    changed(folder, "config.json", intermediate_size=192)
    with pytest.raises(ModelError, match="cannot be loaded"):
        opened(folder)


def test_a_config_of_wrong_types_is_said(folder: Path) -> None:
    changed(folder, "config.json", num_attention_heads="four")
    with pytest.raises(ModelError, match="describes no model that can be built"):
        opened(folder)


def test_a_folder_without_a_tokenizer_is_said(folder: Path) -> None:
    for file in folder.glob("tokenizer*"):
        file.unlink()
    with pytest.raises(ModelError, match=r"The tokenizer of .* cannot be loaded"):
        opened(folder)


@pytest.mark.parametrize(
    "content", ["{", "{}", '{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a", "b"]]}}']
)
def test_a_broken_tokenizer_is_said(content: str, folder: Path) -> None:
    (folder / "tokenizer.json").write_text(content)
    with pytest.raises(ModelError, match=r"The tokenizer of .* cannot be loaded"):
        opened(folder)


def test_code_in_the_folder_is_never_run(folder: Path, tmp_path: Path) -> None:
    (folder / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Mine: pass\nclass Conf: pass\n")
    changed(folder, "config.json", auto_map={"AutoConfig": "mine.Conf", "AutoModelForCausalLM": "mine.Mine"})
    changed(folder, "tokenizer_config.json", auto_map={"AutoTokenizer": ["mine.Mine", "mine.Mine"]})
    opened(folder)
    assert not (tmp_path / "ran").exists()


def test_a_gpu_that_is_not_there_is_said(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ModelError, match=r"--device cuda cannot be had: .*; say --device cpu or auto"):
        opened(tiny_folder, device="cuda")
    with pytest.raises(ModelError, match="--device cuda:3 cannot be had"):
        opened(tiny_folder, device="cuda:3")


def test_mps_that_is_not_there_is_said(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(ModelError, match="no mps device that torch can use; say --device cpu or auto"):
        opened(tiny_folder, device="mps")


def test_a_gpu_past_the_last_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(ModelError, match="there are 2 CUDA devices, cuda:0 to cuda:1"):
        place(device="cuda:2", dtype="auto", quant="none", checkpoint=torch.bfloat16, tensors=())


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "tpu", ""])
def test_a_word_that_is_no_device_is_said(device: str, tiny_folder: Path) -> None:
    with pytest.raises(UsageError, match="is no device; say auto, cpu, cuda"):
        opened(tiny_folder, device=device)


def test_too_little_memory_is_said_before_loading(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda _device: 1000)
    with pytest.raises(ModelError, match=r"does not fit into the memory of cpu: its weights need .* take a smaller"):
        opened(tiny_folder)


@pytest.mark.parametrize("quant", ["none", "int8", "nf4"])
def test_the_least_that_weights_need_is_no_more_than_they_take(quant: str, tiny_folder: Path) -> None:
    from sinkchat.models.weights import stored_tensors

    tensors = stored_tensors(tiny_folder / "model.safetensors", "tiny")
    loaded = opened(tiny_folder, quant=quant, dtype="bfloat16")
    least = weight_need(tensors, Plan("cpu", quant, torch.bfloat16, 64))
    assert 0.9 * loaded.facts.weight_bytes < least <= loaded.facts.weight_bytes


def test_memory_that_runs_out_while_loading_is_said(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sinkchat.models import load as module

    def full(*_: object, **__: object) -> None:
        torch.empty(10**15)

    monkeypatch.setattr(module, "_model", full)
    with pytest.raises(ModelError, match="it ran out while the weights were loaded; say --quant nf4"):
        opened(tiny_folder)


@pytest.mark.real_model
def test_the_small_model_is_known_by_the_hash_of_its_file(small: LoadedModel) -> None:
    facts = small.facts
    assert facts.revision == "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
    assert (facts.name, facts.layers, facts.heads, facts.kv_heads) == ("SmolLM2-135M-Instruct", 30, 9, 3)
    assert facts.trained_length == 8192


@pytest.mark.real_model
def test_the_small_model_draws_as_its_size_needs_and_stops_at_its_turns_end(small: LoadedModel) -> None:
    assert small.sampling == Sampling(temperature=0.8, min_p=0.05, repetition_penalty=1.15, repetition_window=128)
    assert small.stop_ids == {small.tokenizer.convert_tokens_to_ids("<|im_end|>")}
