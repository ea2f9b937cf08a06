"""What a GGUF file says of its model that transformers' loader leaves out: scaled rotary angles, and how text is cut.

Left out they would be no error, only another model. So they are carried over, or the file is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sinkchat.errors import ModelRefused

_BY_DIGITS = ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b")
_LIKE_GPT2 = ("", "default", "gpt-2", "gpt2", "mpt", "olmo", "jais", "granite-docling")


class GgufHeader:
    """A file's metadata and the names and shapes of its tensors."""

    def __init__(self, reader: Any) -> None:
        """`reader`: a `gguf.GGUFReader`."""
        self._fields = reader.fields
        self._tensors = {tensor.name: tensor for tensor in reader.tensors}
        self.architecture = str(self.value("general.architecture") or "")

    @property
    def weights(self) -> list[tuple[str, tuple[int, ...]]]:
        """Name and shape of every tensor that is a parameter; those of rotary angles are none."""
        return [
            (name, tuple(int(size) for size in tensor.shape))
            for name, tensor in self._tensors.items()
            if not name.startswith("rope_")
        ]

    def value(self, key: str) -> Any:
        """A field's value; None where it is not there."""
        field = self._fields.get(key)
        return None if field is None else field.contents()

    def of_model(self, key: str) -> Any:
        return self.value(f"{self.architecture}.{key}")

    def factors(self, name: str) -> list[float] | None:
        """The numbers of a small float32 tensor; None where it is not there."""
        tensor = self._tensors.get(name)
        return None if tensor is None else [float(number) for number in tensor.data.reshape(-1)]


def rope_parameters(header: GgufHeader, loaded: Mapping[str, Any] | None, title: str) -> dict[str, Any] | None:
    """The config's rope parameters with the scaling that the file states; None where the loader's are right.

    Llama 3's scaling, and any other that is a factor for each frequency, is stored as those factors: `longrope` is
    the type that takes them one by one. Raises `ModelRefused` for a scaling that is not known.
    """
    rope = dict(loaded or {})
    if "rope_type" not in rope and "rope_theta" not in rope:  # a table for each type of layer
        _refuse_scaled(header, title)
        return None
    if rope.get("rope_type", "default") != "default":
        return None
    trained = int(header.of_model("context_length") or 0)
    original = int(header.of_model("rope.scaling.original_context_length") or trained)
    long = header.factors("rope_factors_long.weight")
    if each := header.factors("rope_freqs.weight"):
        if all(factor == 1.0 for factor in each):
            return None
        factors = {"short_factor": each, "long_factor": each, "attention_factor": 1.0, "factor": 1.0}
        return rope | factors | {"rope_type": "longrope", "original_max_position_embeddings": trained}
    if long:
        short = header.factors("rope_factors_short.weight") or long
        scaled = rope | {"rope_type": "longrope", "short_factor": short, "long_factor": long}
        scaled |= {"factor": trained / original, "original_max_position_embeddings": original}
        attention = header.of_model("rope.scaling.attn_factor")
        return scaled | ({} if attention is None else {"attention_factor": float(attention)})
    kind, factor = header.of_model("rope.scaling.type"), header.of_model("rope.scaling.factor")
    if kind in (None, "none") or not factor:
        return None
    if kind == "linear":
        return rope | {"rope_type": "linear", "factor": float(factor)}
    if kind == "yarn":
        return rope | {
            "rope_type": "yarn",
            "factor": float(factor),
            "original_max_position_embeddings": original,
        }
    raise _unknown_scaling(title, kind)


def _refuse_scaled(header: GgufHeader, title: str) -> None:
    kind = header.of_model("rope.scaling.type")
    if kind not in (None, "none") or header.factors("rope_freqs.weight"):
        raise _unknown_scaling(title, kind or "by a factor for each frequency")


def _unknown_scaling(title: str, kind: str) -> ModelRefused:
    return ModelRefused(
        f"{title} is refused: its rotary angles are scaled ({kind}) in a way that is not carried over from a GGUF "
        "file; take the same model with safetensors weights."
    )


def cut_by_digits(header: GgufHeader) -> bool:
    """Whether the file's rule of cutting text is GPT-2's with each digit apart, which the loader does not know."""
    return _is_byte_level(header) and header.value("tokenizer.ggml.pre") in _BY_DIGITS


def check_cutting(header: GgufHeader, title: str) -> None:
    """Raise `ModelRefused` for a rule of cutting text that neither the loader nor we know."""
    from transformers.integrations.gguf import gguf_tokenizer_mapping

    pre = str(header.value("tokenizer.ggml.pre") or "")
    known = (*gguf_tokenizer_mapping.GGUF_PRE_TOKENIZER_SPLITS, *_BY_DIGITS, *_LIKE_GPT2)
    if _is_byte_level(header) and pre not in known:
        raise ModelRefused(
            f"{title} is refused: it cuts text into tokens by a rule named {pre}, which is not known here; "
            "take the same model with safetensors weights and its own tokenizer.json."
        )


def _is_byte_level(header: GgufHeader) -> bool:
    return bool(header.value("tokenizer.ggml.model") == "gpt2")
