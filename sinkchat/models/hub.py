"""Models of the Hugging Face hub: found in its local cache first, and fetched into it. Free of torch.

Only the configuration, the tokenizer and the safetensors weights are fetched, and the configuration first, so that
a model that cannot run is refused before its weights cross the network. What is fetched twice resumes.
"""

from __future__ import annotations

import errno
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sinkchat.errors import ModelError, SinkchatError
from sinkchat.models.allowed import NOTHING, Allowed
from sinkchat.models.family import check_family, read_config
from sinkchat.models.progress import Progress, ProgressSink, folder_bytes
from sinkchat.models.quantized import stored_quant
from sinkchat.models.weights import (
    INDEX,
    PICKLED_INDEX,
    PICKLED_SINGLE,
    SINGLE,
    only_pickled,
    shards,
    weight_files,
)

_REPO = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")

_SMALL_FILES = (
    "generation_config.json",
    "tokenizer_config.json",
    "tokenizer.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
)


@dataclass(frozen=True, slots=True)
class HubName:
    """A model of the hub, and the branch, tag or commit that is wanted."""

    repo: str
    revision: str | None

    def __str__(self) -> str:
        return f"{self.repo}@{self.revision}" if self.revision else self.repo


def parse(name: str) -> HubName:
    """`org/name`, `name`, or either with `@revision`."""
    repo, at, revision = name.partition("@")
    # The hub's own rule: two dashes or dots in a row would be read as a path.
    if not _REPO.fullmatch(repo) or "--" in repo or ".." in repo or (at and not revision):
        raise ModelError(
            f"{name!r} is neither a folder nor a Hugging Face name; a name looks like org/name or org/name@revision."
        )
    return HubName(repo, revision or None)


def cached(wanted: HubName, allowed: Allowed = NOTHING) -> Path | None:
    """The snapshot in the local cache, if it is whole; its name is the commit."""
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(wanted.repo, "config.json", revision=wanted.revision)
    if not isinstance(config, str):
        return None
    folder = Path(config).parent
    try:
        weight_files(folder, str(wanted), allowed)
    except ModelError:  # the rest was never fetched
        return None
    return folder


def download(wanted: HubName, progress: ProgressSink, allowed: Allowed = NOTHING) -> Path:
    """Fetch what is not here yet; the snapshot's folder, whose name is the commit.

    Raises `ModelError` with the reason: no such model or revision, no network, no permission, no space, no
    safetensors; `ModelRefused` for a model that cannot run.
    """
    with _told_plainly(wanted):
        return _download(wanted, progress, allowed)


def _download(wanted: HubName, progress: ProgressSink, allowed: Allowed) -> Path:
    from huggingface_hub import HfApi, hf_hub_download
    from huggingface_hub.constants import HF_HUB_CACHE
    from huggingface_hub.utils import disable_progress_bars

    disable_progress_bars()
    progress(Progress(f"looking up {wanted.repo}", 0, None))
    info = HfApi().model_info(wanted.repo, revision=wanted.revision, files_metadata=True)
    sizes = {file.rfilename: file.size or 0 for file in info.siblings}

    def fetched(file: str) -> Path:
        return Path(hf_hub_download(wanted.repo, file, revision=info.sha))

    if "config.json" not in sizes:
        if any(file.endswith(".gguf") for file in sizes):
            raise ModelError(_only_gguf(wanted))
        raise ModelError(f"{wanted} holds no model that can be loaded: it has no config.json.")
    folder = fetched("config.json").parent
    config = read_config(folder, str(wanted))
    check_family(config, str(wanted), allowed)
    stored_quant(config, str(wanted))
    weights = _weights(wanted, sizes, fetched, allowed)
    code = [file for file in sizes if file.endswith(".py")] if allowed.remote_code else []
    files = [file for file in _SMALL_FILES if file in sizes] + code + list(weights)

    missing = [file for file in files if not (folder / file).exists()]
    total = sum(sizes.get(file, 0) for file in missing)
    cache = Path(HF_HUB_CACHE)
    _check_space(wanted, total, cache)
    blobs = cache / ("models--" + wanted.repo.replace("/", "--")) / "blobs"
    with _watched(blobs, f"fetching {wanted.repo}", total, progress):
        for file in missing:
            fetched(file)
    if wanted.revision is None or wanted.revision != info.sha:
        # A branch or tag is found again without the network only if the cache has heard of it.
        hf_hub_download(wanted.repo, "config.json", revision=wanted.revision)
    return folder


def _weights(wanted: HubName, sizes: dict[str, int], fetched: Any, allowed: Allowed) -> tuple[str, ...]:
    kinds = ((INDEX, SINGLE), (PICKLED_INDEX, PICKLED_SINGLE))[: 2 if allowed.pickle else 1]
    for index, single in kinds:
        if index in sizes:
            return shards(fetched(index), str(wanted))
        if single in sizes:
            return (single,)
    if any(file.endswith(".gguf") for file in sizes):
        raise ModelError(_only_gguf(wanted))
    if any(file.endswith((".bin", ".pt", ".pth")) for file in sizes):
        raise only_pickled(str(wanted), allowed)
    raise ModelError(f"{wanted} has a config.json and no weights.")


def _only_gguf(wanted: HubName) -> str:
    return (
        f"{wanted} holds only GGUF files; fetch one of them (`hf download {wanted.repo} NAME.gguf`) and give its "
        "path as the model, or take the model that they were made from, with safetensors weights."
    )


def _check_space(wanted: HubName, needed: int, cache: Path) -> None:
    existing = next(folder for folder in (cache, *cache.parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    if needed > free:
        raise ModelError(
            f"{wanted} needs {needed / 1e9:.1f} GB of disk, and {cache} has {free / 1e9:.1f} GB free; "
            "make room, or set HF_HOME to a larger disk."
        )


@contextmanager
def _watched(folder: Path, stage: str, total: int, progress: ProgressSink) -> Iterator[None]:
    """Report how the folder grows, from a thread of its own, while the block runs."""
    before, done = folder_bytes(folder), threading.Event()

    def watch() -> None:
        while not done.wait(0.2):
            progress(Progress(stage, min(max(folder_bytes(folder) - before, 0), total), total, "B"))

    progress(Progress(stage, 0, total, "B"))
    watcher = threading.Thread(target=watch, name="sinkchat-fetch", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
    progress(Progress(stage, total, total, "B"))


@contextmanager
def _told_plainly(wanted: HubName) -> Iterator[None]:
    from huggingface_hub import errors

    try:
        yield
    except SinkchatError:
        raise
    except errors.GatedRepoError as error:
        raise ModelError(
            f"{wanted} is gated: accept its licence at https://huggingface.co/{wanted.repo}, "
            "then log in with `hf auth login` or set HF_TOKEN."
        ) from error
    except errors.RevisionNotFoundError as error:
        raise ModelError(
            f"{wanted.repo} has no revision {wanted.revision}; name a branch, a tag or a commit."
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise ModelError(
            f"There is no folder and no Hugging Face model {wanted.repo}; check the name, "
            "or, if it is private, log in with `hf auth login`."
        ) from error
    except errors.OfflineModeIsEnabled as error:
        raise ModelError(
            f"{wanted} is not in the local cache, and HF_HUB_OFFLINE forbids fetching it; unset it, or give a folder."
        ) from error
    except (OSError, errors.HTTPError, RuntimeError, ValueError) as error:
        if getattr(error, "errno", None) == errno.ENOSPC:
            raise ModelError(
                f"The disk is full: {wanted} could not be fetched whole; make room and try again."
            ) from error
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise ModelError(
            f"{wanted} is not in the local cache and could not be fetched ({reason}); "
            "check the network and try again, or give a folder."
        ) from error
