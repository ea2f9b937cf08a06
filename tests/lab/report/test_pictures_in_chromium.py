"""The report as a browser draws it: opened from disk in headless Chromium, where no host has an address."""

from __future__ import annotations

import base64
import json
import re
import shutil
import struct
import subprocess
import urllib.parse
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from sinkchat.lab.report.page import html
from sinkchat.lab.results import Evaluation, Rule
from tests.lab import sample

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="There is no chromium on this machine, so nobody looks at the pictures; install it."
)

DARK, LIGHT = "0", "1"

# Written into the test's copy alone. Text is compared by the boxes that the browser itself gives; a quarter of a
# line's height is its empty rim, and lines of text may share it.
MEASURE = """
const boxes = svg => [...svg.querySelectorAll('text')].map(text => {
  const box = text.getBoundingClientRect(), rim = box.height / 6;
  return {words: text.textContent, left: box.left, right: box.right, top: box.top + rim, bottom: box.bottom - rim};
});
const faults = [];
let texts = 0, drawings = 0;
for (const svg of document.querySelectorAll('main svg')) {
  const frame = svg.getBoundingClientRect();
  if (!frame.width || svg.parentElement.closest('svg')) continue;
  drawings += 1;
  const all = boxes(svg);
  texts += all.length;
  for (const [at, one] of all.entries()) {
    if (one.left < frame.left - 0.5 || one.right > frame.right + 0.5 ||
        one.top < frame.top - 0.5 || one.bottom > frame.bottom + 0.5)
      faults.push(`outside of its drawing: ${one.words}`);
    for (const other of all.slice(at + 1))
      if (one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom)
        faults.push(`on each other: ${one.words} | ${other.words}`);
  }
}
for (const part of document.querySelectorAll('main *')) {
  const box = part.getBoundingClientRect();
  if (box.width && box.right > innerWidth + 1 && !part.closest('.scroll') && !part.closest('svg'))
    faults.push(`wider than the page: ${part.tagName} ${part.className} ${box.right} of ${innerWidth}`);
}
const told = {
  faults, texts, drawings, page: innerWidth, scrolled: document.documentElement.scrollWidth,
  tables: [...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > one.clientWidth + 1).length,
  paper: getComputedStyle(document.body).backgroundColor, ink: getComputedStyle(document.body).color,
};
"""


@dataclass(frozen=True)
class Measured:
    faults: Sequence[str]
    texts: int
    drawings: int
    page: int
    scrolled: int
    tables: int
    """That are wider than their place, and are scrolled."""
    paper: str
    ink: str


Browser = Callable[..., str]


@pytest.fixture
def browse(tmp_path: Path) -> Browser:
    """Runs Chromium over a file, without a network, and gives what it prints."""

    def run(page: Path, *more: str, scheme: str = LIGHT, width: int = 1200) -> str:
        assert CHROMIUM is not None
        command = [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--hide-scrollbars",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={tmp_path / 'profile'}",
            f"--blink-settings=preferredColorScheme={scheme}",
            f"--window-size={width},1600",
            *more,
            page.as_uri(),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    return run


def measure(browse: Browser, folder: Path, document: str, *widths: int, scheme: str = LIGHT) -> list[Measured]:
    """The document in frames of exactly these widths in pixels: a window alone may be held to a least width."""
    inner = document.replace("</body>", f"<script>{MEASURE}parent.told[name] = told</script></body>")
    frames = "".join(
        f'<iframe name="{at}" style="border:0;width:{width}px;height:1500px"></iframe>'
        for at, width in enumerate(widths)
    )
    outer = folder / "outer.html"
    outer.write_text(
        f'<body style="margin:0">{frames}<pre></pre><script>'
        "window.told = []; const frames = [...document.querySelectorAll('iframe')];"
        # An empty frame tells that it is loaded too: only what they told counts.
        "for (const frame of frames) { frame.onload = () => { if (Object.keys(told).length === frames.length)"
        "document.querySelector('pre').textContent = btoa(encodeURIComponent(JSON.stringify(told))) };"
        f"frame.srcdoc = {json.dumps(inner).replace('</', '<' + chr(92) + '/')} }}</script></body>",
        encoding="utf-8",
    )
    dom = browse(outer, "--dump-dom", "--virtual-time-budget=20000", scheme=scheme)
    found = re.search(r"<pre>([A-Za-z0-9+/=]+)</pre>", dom)
    assert found is not None, "the page never told its measures"
    told = json.loads(urllib.parse.unquote(base64.b64decode(found[1]).decode()))
    assert [one["page"] for one in told] == list(widths)
    return [Measured(**one) for one in told]


def screenshot(browse: Browser, folder: Path, document: str, scheme: str) -> list[bytes]:
    """Rows of RGB bytes."""
    page, picture = folder / "page.html", folder / f"{scheme}.png"
    page.write_text(document, encoding="utf-8")
    browse(page, f"--screenshot={picture}", scheme=scheme)
    return rows_of(picture.read_bytes())


def rows_of(png: bytes) -> list[bytes]:
    """A PNG of 8 bits a channel, unpacked (RFC 2083), as rows of RGB."""
    at, data, width, channels = 8, b"", 0, 3
    while at < len(png):
        (length,), kind = struct.unpack(">I", png[at : at + 4]), png[at + 4 : at + 8]
        body = png[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width, _, depth, colour, *_ = struct.unpack(">IIBBBBB", body)
            assert depth == 8
            channels = {2: 3, 6: 4}[colour]
        data += body if kind == b"IDAT" else b""
        at += 12 + length
    raw, stride, rows, above = zlib.decompress(data), width * channels, [], bytes(width * channels)
    for start in range(0, len(raw), stride + 1):
        above = unfiltered(raw[start], raw[start + 1 : start + 1 + stride], above, channels)
        rows.append(above)
    return [bytes(part for at in range(0, stride, channels) for part in row[at : at + 3]) for row in rows[::8]]


def unfiltered(kind: int, line: bytes, above: bytes, step: int) -> bytes:
    if kind == 0:
        return line
    if kind == 2:
        return bytes((one + up) & 255 for one, up in zip(line, above, strict=True))
    row = bytearray(line)
    for at in range(len(row)):
        left = row[at - step] if at >= step else 0
        corner = above[at - step] if at >= step else 0
        if kind == 1:
            more = left
        elif kind == 3:
            more = (left + above[at]) // 2
        else:
            guess = left + above[at] - corner
            more = min((left, above[at], corner), key=lambda near: abs(guess - near))
        row[at] = (row[at] + more) & 255
    return bytes(row)


def test_the_document_asks_for_nothing_from_anywhere() -> None:
    document = html(sample.everything())
    assert not re.findall(r"https?:|//[a-z]|url\((?!#)|<script|<link|<img|@import|src=", document)


def test_it_is_drawn_light_and_dark(browse: Browser, tmp_path: Path) -> None:
    document = html(sample.everything())
    light, dark = (screenshot(browse, tmp_path, document, scheme) for scheme in (LIGHT, DARK))
    for rows in (light, dark):
        colours = {row[at : at + 3] for row in rows for at in range(0, len(row), 3)}
        assert len(colours) > 30, "the page is blank"
    assert mean(light) > 225
    assert mean(dark) < 60


def mean(rows: Sequence[bytes]) -> float:
    return sum(map(sum, rows)) / sum(map(len, rows))


@pytest.mark.parametrize("scheme", [LIGHT, DARK])
def test_no_word_is_cut_or_covered_and_nothing_is_wider_than_the_page(
    scheme: str, browse: Browser, tmp_path: Path
) -> None:
    widths = (390, 800, 1200)
    measured = measure(browse, tmp_path, html(sample.everything()), *widths, scheme=scheme)
    for width, one in zip(widths, measured, strict=True):
        assert one.faults == []
        assert one.scrolled <= width
        assert one.drawings > 20
        assert one.texts > 150
    assert measured[0].tables > 0
    assert measured[-1].tables == 0
    assert len({one.paper for one in measured}) == 1
    assert (measured[0].paper == "rgb(255, 255, 255)") == (scheme == LIGHT)


def hard_cases() -> dict[str, Evaluation]:
    large = sample.evaluation(
        [Rule("full"), Rule("window", window=1024), Rule("sinks", sinks=4, window=1024)],
        tokens=1_000_000,
        heads=(80, 64),
    )
    windows = (64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048)
    many = [Rule("sinks", sinks=sinks, window=window) for window in windows for sinks in range(1, 11)]
    steep = sample.evaluation()
    ruined = [
        replace(run, curve=[replace(point, loss=point.loss * 7) for point in run.curve], loss_after=20.5)
        if run.rule.policy == "window"
        else run
        for run in steep.runs
    ]
    long_name = replace(sample.SUBJECT, model="a-model-" * 20, text_name="/a/folder/" * 20)
    return {
        "a million tokens, 80 layers of 64 heads": large,
        "a hundred runs": sample.evaluation(many, maps=1, heads=(4, 4)),
        "losses of twenty": replace(steep, runs=ruined),
        "nothing evicted": sample.evaluation([Rule("full"), Rule("sinks", sinks=4, window=8000)], tokens=300),
        "long names": replace(steep, subject=long_name),
    }


@pytest.mark.parametrize("case", hard_cases())
def test_hard_cases_fit_a_phone_and_a_desk(case: str, browse: Browser, tmp_path: Path) -> None:
    for one in measure(browse, tmp_path, html(hard_cases()[case]), 390, 1100):
        assert one.faults == []
        assert one.scrolled <= one.page
