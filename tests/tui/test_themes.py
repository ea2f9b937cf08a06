"""Themes can be read, by people and by the program."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from sinkchat import locations
from sinkchat.errors import UsageError
from sinkchat.settings import Settings
from sinkchat.tui.themes import load_themes, read_theme
from tests.tui.conftest import Chat, Play

PACKAGED = sorted(locations.packaged_themes_dir().glob("*.toml"))
TEXT = ("foreground", "person", "file")
QUIET = ("muted", "sink", "recent", "read", "wrote", "horizon", "good", "warning", "error", "code_keyword")
CODE = ("code_string", "code_number", "code_comment", "code_name")


def contrast(one: str, other: str) -> float:
    """Contrast ratio as WCAG 2 defines it."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(color: str) -> float:
    channels = [int(color[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    red, green, blue = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_the_measure_of_contrast_is_right() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_there_are_a_dark_a_light_a_strong_and_an_ansi_theme() -> None:
    themes = [read_theme(path) for path in PACKAGED]
    assert len(themes) >= 3
    assert any(theme.dark and not theme.ansi for theme in themes)
    assert any(not theme.dark for theme in themes)
    assert any(theme.ansi for theme in themes)
    assert Settings().theme in [theme.name for theme in themes]


@pytest.mark.parametrize("path", PACKAGED, ids=lambda path: path.stem)
def test_text_can_be_read_on_every_ground_it_stands_on(path: Path) -> None:
    theme = read_theme(path)
    if theme.ansi:
        assert all(value.startswith("ansi_") for value in dataclasses.asdict(theme.colors).values())
        return
    colors = dataclasses.asdict(theme.colors)
    for ground in (colors["background"], colors["surface"]):
        for name in TEXT:
            assert contrast(colors[name], ground) >= 7, (name, ground)
        for name in (*QUIET, *CODE):
            assert contrast(colors[name], ground) >= 4, (name, ground)
        for name in ("dim", "head"):
            assert contrast(colors[name], ground) >= 3, (name, ground)
    assert contrast(colors["foreground"], colors["selection"]) >= 4.5


def test_a_theme_of_ones_own_is_found_and_wins(folders: Path) -> None:
    own = folders / "config" / "themes"
    own.mkdir(parents=True)
    packaged = locations.packaged_themes_dir() / "paper.toml"
    (own / "mine.toml").write_text(packaged.read_text())
    (own / "harbour.toml").write_text(packaged.read_text())
    themes = load_themes()
    assert "mine" in themes.by_name
    assert not themes.by_name["harbour"].dark


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("background =", "backgruond ="), "unknown colour backgruond; did you mean background"),
        (("dim =", "# dim ="), "lacks the colour dim"),
        (('"#0f151c"', '"blueish"'), "must be #rrggbb"),
        (('"#0f151c"', '"ansi_black"'), "must be #rrggbb"),
        (("dark = true", "drak = true"), "unknown key drak; did you mean dark"),
        (("[colors]", "[colors"), "not valid TOML"),
    ],
)
def test_a_broken_theme_is_told_in_one_sentence(tmp_path: Path, change: tuple[str, str], reason: str) -> None:
    text = (locations.packaged_themes_dir() / "harbour.toml").read_text()
    assert change[0] in text
    path = tmp_path / "broken.toml"
    path.write_text(text.replace(*change, 1))
    with pytest.raises(UsageError, match=reason) as refused:
        read_theme(path)
    assert str(path) in str(refused.value)


def test_a_broken_theme_leaves_the_default_and_a_sentence(play: Play, folders: Path) -> None:
    own = folders / "config" / "themes"
    own.mkdir(parents=True)
    (own / "mine.toml").write_text("dark = 3")

    async def scenario(chat: Chat) -> None:
        assert chat.app.theme == "harbour"
        assert "mine.toml" in chat.hint
        assert "no theme mine" in chat.hint

    play(scenario, settings=Settings(theme="mine"))


@pytest.mark.parametrize("name", [path.stem for path in PACKAGED])
def test_every_theme_draws_the_whole_screen(play: Play, name: str) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.say("Hello")
        await chat.say(f"/theme {name}")
        assert chat.app.theme == name
        await chat.press("f1")
        await chat.press("escape")
        assert any("Hello" in line for line in chat.lines())

    play(scenario)
