"""The measurements behind docs/evidence.md: each is one command that anybody can repeat.

python -m tests.evidence.runs FOLDER        all of them, an hour and more on two cores; goes on with what is there
python -m tests.evidence.page FOLDER > docs/evidence.md
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import threading
import time
from pathlib import Path

LOADED = "--dtype float32 --quant none --device cpu"

RUNS = {
    "sweep": "--policies full,window,sinks,recompute --window 256,512 --sinks 0,1,2,4,8,16",
    "absolute": "--policies full,sinks --positions cache,absolute --start-position 0,8192,40000,200000",
    "recall": "--policies full,window,sinks,recompute --tokens 2048 --recall",
    "past": "--policies full,window,sinks --tokens 14000",
    "tokens": "--policies full,sinks --sinks 1,4 --sink-tokens text,newlines,random",
    "long": "--policies sinks --tokens 100000",
    "writing": "--policies full,window,sinks,recompute --window 128 --tokens 1024 --generate 400",
}
"""By the name of the file that keeps what was measured: what follows `sinkchat eval`, and LOADED."""

WATCHED = "long"
"""The run whose resident memory is watched."""


def command(name: str) -> str:
    """As a person types it."""
    return f"sinkchat eval {LOADED} {RUNS[name]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name in RUNS:
        words = shlex.split(command(name))[1:]
        outputs = ["--json", str(folder / f"{name}.json"), "--html", str(folder / f"{name}.html"), "--resume"]
        with subprocess.Popen([sys.executable, "-m", "sinkchat.cli.main", *words, *outputs]) as run:
            if name == WATCHED:
                threading.Thread(target=_watch, args=(run, folder / f"{name}.rss"), daemon=True).start()
        if run.returncode:
            return run.returncode
    return 0


def _watch(run: subprocess.Popen[bytes], file: Path) -> None:
    """Resident memory in kB, every five seconds."""
    with file.open("w") as out:
        while run.poll() is None:
            status = Path(f"/proc/{run.pid}/status")
            if status.exists() and (found := [line for line in status.read_text().splitlines() if "VmRSS" in line]):
                print(int(time.time()), found[0].split()[1], file=out, flush=True)
            time.sleep(5)


if __name__ == "__main__":
    sys.exit(main())
