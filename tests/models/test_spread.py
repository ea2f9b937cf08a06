"""A model is spread over several GPUs whole or not at all, and runs as it does on one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from accelerate import dispatch_model

from sinkchat.engine.engine import SinkEngine
from sinkchat.errors import ModelError, UsageError
from sinkchat.models import spread as module
from sinkchat.models.find import find
from sinkchat.models.load import load
from sinkchat.models.memory import MARGIN
from sinkchat.models.sampling import Sampling
from sinkchat.models.spread import placed_whole, spread
from tests.models.test_memory import BF16, LAYOUT

GPU = torch.device("cuda", 0)


def test_one_device_is_not_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert spread("auto", "auto", GPU) is None
    assert spread("auto", "cpu", torch.device("cpu")) is None


def test_each_gpu_keeps_room_for_its_part_of_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(module.torch.cuda, "mem_get_info", lambda index: (10**10 * (index + 1), 0))
    assert spread("none", "auto", GPU) is None
    with pytest.raises(UsageError, match="--device cuda:1 is one GPU and --device-map auto takes all"):
        spread("auto", "cuda:1", GPU)
    several = spread("auto", "auto", GPU)
    assert several is not None
    room = several.map(LAYOUT, BF16)["max_memory"]
    half = LAYOUT.bytes(4096, 2) // 2
    assert all(room[index] <= 10**10 * (index + 1) - half - MARGIN["cuda"] for index in (0, 1))
    assert room[1] > room[0] > 9 * 10**9 - half


def test_a_layer_on_the_disk_is_an_error() -> None:
    class Model:
        hf_device_map = {"model.layers.0": 0, "model.layers.1": 1}  # noqa: RUF012

    placed_whole(Model(), "m")
    Model.hf_device_map = {"model.layers.0": 0, "model.layers.1": "disk"}
    with pytest.raises(ModelError, match="a part of it would lie on the disk"):
        placed_whole(Model(), "m")


def test_what_moves_values_between_devices_leaves_the_cache_as_it_is(tiny_folder: Path) -> None:
    """On one device here: the hooks that accelerate puts around the parts of a spread model, and nothing to move."""

    def said(spread: bool) -> list[str]:
        loaded = load(find(str(tiny_folder)), device="cpu", dtype="float32", quant="none", device_map="auto")
        if spread:
            parts = dict.fromkeys(("model.embed_tokens", "model.layers.0", "model.layers.1", "lm_head"), "cpu")
            parts |= {"model.norm": "cpu", "model.rotary_emb": "cpu"}
            dispatch_model(loaded.model, parts, main_device="cpu", force_hooks=True)
        engine = SinkEngine(loaded, window=16, sampling=Sampling(temperature=0, repetition_penalty=None))
        told = list(engine.prefill(list(range(40)))) + list(engine.generate(8, ignore_stops=True))
        return [event.text for event in told if type(event).__name__ == "Token"]  # type: ignore[union-attr]

    assert len(said(True)) == 8
    assert said(True) == said(False)
