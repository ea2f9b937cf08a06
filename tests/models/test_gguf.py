"""A GGUF file is converted once into the model that it holds, or refused; nothing of it is lost on the way."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from sinkchat import locations
from sinkchat.engine.engine import SinkEngine
from sinkchat.errors import ModelError, ModelRefused
from sinkchat.models import gguf_file, memory
from sinkchat.models.find import find
from sinkchat.models.gguf_file import converted
from sinkchat.models.load import load
from sinkchat.models.progress import Progress, silent
from tests.models.tiny import chatml_tokenizer, llama
from tests.models.wheel import tiny_gguf


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(locations.CACHE_DIR, str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def tiny_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


def test_a_file_becomes_a_model_with_its_hash_and_loads_as_any_other(tiny_file: Path) -> None:
    steps: list[Progress] = []
    loaded = load(find(str(tiny_file)), device="cpu", quant="nf4", progress=steps.append)
    assert (loaded.facts.name, loaded.facts.family, loaded.facts.quant) == (str(tiny_file), "llama", "nf4")
    assert loaded.facts.revision is not None
    assert len(loaded.facts.revision) == 64
    assert loaded.tokenizer.get_vocab() == chatml_tokenizer().get_vocab()
    stages = list(dict.fromkeys(step.stage for step in steps))
    assert stages[:2] == ["checking tiny.gguf", "converting tiny.gguf, once"]


def test_its_weights_are_the_files(tiny_file: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(converted(tiny_file, "tiny", silent).folder)
    theirs = llama(len(chatml_tokenizer()), tie_word_embeddings=True).state_dict()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in model.state_dict().items())


def test_it_is_converted_once_and_not_even_read_again(tiny_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = converted(tiny_file, "tiny", silent)
    monkeypatch.setattr(gguf_file, "_make", lambda *_: pytest.fail("made again"))
    monkeypatch.setattr(gguf_file, "_digest", lambda *_: pytest.fail("read again"))
    assert converted(tiny_file, "tiny", silent) == first


def test_a_copy_elsewhere_is_known_by_its_hash(
    tiny_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = converted(tiny_file, "tiny", silent)
    monkeypatch.setattr(gguf_file, "_make", lambda *_: pytest.fail("made again"))
    copy = shutil.copy(tiny_file, tmp_path / "tiny.gguf")
    assert converted(Path(copy), "tiny", silent) == first


def test_another_file_of_the_same_name_is_another_model(tiny_file: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copy(tiny_file, tmp_path / "tiny.gguf"))
    first = converted(copy, "tiny", silent)
    copy.write_bytes(copy.read_bytes() + b"\0")
    assert converted(copy, "tiny", silent).folder != first.folder


def test_parts_are_one_model(tiny_file: Path, tmp_path: Path) -> None:
    parts = split_in_two(tiny_file, tmp_path)
    model = AutoModelForCausalLM.from_pretrained(converted(parts[1], "split", silent).folder)
    theirs = llama(len(chatml_tokenizer()), tie_word_embeddings=True).state_dict()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in model.state_dict().items())


def test_factors_for_each_frequency_turn_the_model_as_the_file_says(tmp_path: Path) -> None:
    """As Llama 3.1 and later have them; transformers' loader passes over them."""
    factors = np.array([1, 1, 1, 1, 2, 4, 8, 8], dtype=np.float32)
    file = changed_gguf(tmp_path / "scaled.gguf", tensors={"rope_freqs.weight": factors})
    model = AutoModelForCausalLM.from_pretrained(converted(file, "scaled", silent).folder)
    expected = 10000 ** (-torch.arange(0, 16, 2) / 16) / torch.from_numpy(factors)
    rotary = model.model.rotary_emb
    positions = torch.tensor([[0, 1, 100]])
    cos, sin = rotary(torch.zeros(1), positions)
    angles = positions[0, :, None] * torch.cat((expected, expected))
    torch.testing.assert_close(cos[0], angles.cos(), atol=1e-5, rtol=0)
    torch.testing.assert_close(sin[0], angles.sin(), atol=1e-5, rtol=0)


def test_a_table_for_long_texts_and_one_for_short_ones_are_carried_over_and_run(tmp_path: Path) -> None:
    """As Phi-3's long context has them."""
    long, short = (np.linspace(1, most, 8, dtype=np.float32) for most in (9, 2))
    file = changed_gguf(
        tmp_path / "long.gguf",
        tensors={"rope_factors_long.weight": long, "rope_factors_short.weight": short},
        fields={"rope.scaling.original_context_length": 64},
    )
    loaded = load(find(str(file)), device="cpu", dtype="float32", quant="none")
    rope = loaded.model.config.rope_parameters
    assert (rope["rope_type"], rope["original_max_position_embeddings"], rope["factor"]) == ("longrope", 64, 4)
    assert (rope["long_factor"], rope["short_factor"]) == (long.tolist(), short.tolist())
    SinkEngine(loaded, window=128)


@pytest.mark.parametrize("kind", ["linear", "yarn"])
def test_a_stated_scaling_is_carried_over(kind: str, tmp_path: Path) -> None:
    file = changed_gguf(tmp_path / "scaled.gguf", fields={"rope.scaling.type": kind, "rope.scaling.factor": 4.0})
    rope = AutoConfig.from_pretrained(converted(file, "scaled", silent).folder).rope_parameters
    assert (rope["rope_type"], rope["factor"]) == (kind, 4.0)


def test_a_scaling_that_is_not_known_is_refused(tmp_path: Path) -> None:
    file = changed_gguf(tmp_path / "odd.gguf", fields={"rope.scaling.type": "spiral", "rope.scaling.factor": 4.0})
    with pytest.raises(ModelRefused, match=r"rotary angles are scaled \(spiral\) in a way"):
        converted(file, "odd", silent)


def test_a_tensor_without_a_place_is_refused(tmp_path: Path) -> None:
    extra = np.zeros((64,), dtype=np.float32)
    file = changed_gguf(tmp_path / "more.gguf", tensors={"blk.0.attn_q_norm.weight": extra})
    with pytest.raises(ModelRefused, match="the two are not the same model"):
        converted(file, "more", silent)


def test_a_rule_of_cutting_text_that_is_not_known_is_refused(tmp_path: Path) -> None:
    file = changed_gguf(tmp_path / "cut.gguf", pre="their-own")
    with pytest.raises(ModelRefused, match="cuts text into tokens by a rule named their-own"):
        converted(file, "cut", silent)


def test_an_architecture_that_is_not_read_is_refused(tmp_path: Path) -> None:
    file = changed_gguf(tmp_path / "new.gguf", architecture="plamo9")
    with pytest.raises(ModelRefused, match=r"no GGUF file of its architecture \(.*plamo9"):
        converted(file, "new", silent)


def test_a_family_that_cannot_run_is_refused_before_its_weights_are_unpacked(tmp_path: Path) -> None:
    file = changed_gguf(tmp_path / "gpt2.gguf", architecture="gpt2")
    with pytest.raises(ModelRefused, match=r"gpt2\.gguf is refused: its model_type is gpt2 and it has learned"):
        converted(file, "gpt2", silent)


def test_too_small_a_disk_is_said_before_anything_is_unpacked(
    tiny_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: SimpleNamespace(free=1_000_000))
    with pytest.raises(ModelError, match=r"Tiny\.gguf needs 50 MB of disk while it is made"):
        converted(tiny_file, "tiny", silent)


def test_too_little_memory_is_said_before_anything_is_unpacked(
    tiny_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda _device: 1000)
    with pytest.raises(ModelError, match=r"Converting tiny\.gguf needs .* of memory"):
        converted(tiny_file, "tiny", silent)


def test_a_file_that_is_cut_short_is_said_and_nothing_is_left(tiny_file: Path, tmp_path: Path) -> None:
    short = tmp_path / "short.gguf"
    short.write_bytes(tiny_file.read_bytes()[:2000])
    with pytest.raises(ModelError, match=r"The file short\.gguf could not be converted"):
        converted(short, "short", silent)
    assert [path.suffix for path in locations.models_dir().iterdir()] == [".lock"]


@pytest.mark.parametrize("seed", range(8))
def test_a_damaged_file_is_said_whatever_is_damaged(seed: int, tiny_file: Path, tmp_path: Path) -> None:
    """Twenty bytes of its metadata are others; what still is a model may load."""
    random = Random(seed)
    content = bytearray(tiny_file.read_bytes())
    for _ in range(20):
        content[random.randrange(4, 12_000)] = random.randrange(256)
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(content)
    with contextlib.suppress(ModelError):
        converted(damaged, "damaged", silent)


def changed_gguf(
    file: Path,
    *,
    tensors: dict[str, Any] | None = None,
    fields: dict[str, Any] | None = None,
    pre: str = "smollm",
    architecture: str = "llama",
) -> Path:
    """The tiny model, with more in it."""
    from tests.models import wheel

    class Writer(gguf.GGUFWriter):
        def __init__(self, path: str, _architecture: str) -> None:
            super().__init__(path, architecture)

        def add_tokenizer_pre(self, _pre: str) -> None:
            super().add_tokenizer_pre(pre)

        def write_header_to_file(self, *args: Any) -> None:
            for key, value in (fields or {}).items():
                kinds = {str: self.add_string, int: self.add_uint32, float: self.add_float32}
                add = kinds[type(value)]
                add(f"{architecture}.{key}", value)
            for name, data in (tensors or {}).items():
                self.add_tensor(name, data)
            super().write_header_to_file(*args)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(wheel.gguf, "GGUFWriter", Writer)
        return tiny_gguf(file)


def split_in_two(file: Path, folder: Path) -> list[Path]:
    """The file's tensors in two files, the first of them with all of the metadata."""
    whole = gguf.GGUFReader(str(file))
    half = len(whole.tensors) // 2
    parts = [folder / f"split-0000{part}-of-00002.gguf" for part in (1, 2)]
    for part, tensors in zip(parts, (whole.tensors[:half], whole.tensors[half:]), strict=True):
        writer = gguf.GGUFWriter(str(part), "llama")
        if part == parts[0]:
            for key, field in whole.fields.items():
                if key.startswith("GGUF.") or key == "general.architecture":
                    continue
                value, kind = field.contents(), field.types[0]
                writer.add_key_value(
                    key, value, kind, *([field.types[-1]] if kind == gguf.GGUFValueType.ARRAY else [])
                )
        for tensor in tensors:
            writer.add_tensor(tensor.name, np.ascontiguousarray(tensor.data))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    return parts


def test_the_manifest_says_what_it_was_made_from(tiny_file: Path) -> None:
    made = converted(tiny_file, "tiny", silent)
    manifest = json.loads((made.folder / "manifest.json").read_text())
    assert (manifest["source"], manifest["source_sha256"]) == ("tiny.gguf", made.sha256)
    assert manifest["source_files"][0]["bytes"] == tiny_file.stat().st_size
