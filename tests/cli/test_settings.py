"""One table of settings; a flag over the environment over the file over the default; clear sentences."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import tomli

from sinkchat import locations
from sinkchat.cli.resolved import resolve
from sinkchat.errors import UsageError
from sinkchat.settings import TABLE, Setting, Settings

IN_FILE = {"text": "auto", "place": "folder", "path": "/gguf", "whole": 7, "real": 0.5, "switch": True}


def load_settings(flags: Mapping[str, object], environ: Mapping[str, str], file: Path | None = None) -> Settings:
    return resolve(flags, environ, file).settings


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "my.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def some_value(setting: Setting) -> object:
    """A value that is not the default."""
    other = [choice for choice in setting.choices if choice != setting.default]
    return other[0] if other else IN_FILE[setting.kind]


def in_toml(value: object) -> str:
    return str(value).lower() if isinstance(value, (bool, int, float)) else f'"{value}"'


def test_the_table_describes_exactly_the_fields_of_settings() -> None:
    assert [setting.field for setting in TABLE] == [field.name for field in dataclasses.fields(Settings)]
    for setting in TABLE:
        assert re.fullmatch(r"[A-Z].*[^.]\.", setting.help), f"{setting.field}: the help is not one sentence"
        assert ". " not in setting.help


def test_without_anything_the_defaults_hold() -> None:
    settings = load_settings({}, {})
    assert settings == Settings()
    assert (settings.sinks, settings.window, settings.policy, settings.positions) == (4, None, "sinks", "cache")
    assert (settings.quant, settings.max_reply_tokens, settings.pin_system) == ("auto", 1024, False)


@pytest.mark.parametrize("setting", TABLE, ids=lambda setting: setting.field)
def test_each_setting_is_a_key_a_variable_and_a_flag(setting: Setting, tmp_path: Path) -> None:
    value = some_value(setting)
    expected = Path(str(value)) if setting.kind == "path" else value
    file = written(tmp_path, f"{setting.field} = {in_toml(value)}\n")
    text = str(value).lower() if setting.kind == "switch" else str(value)
    by_file = resolve({}, {}, file)
    by_variable = resolve({}, {setting.variable: text})
    by_flag = resolve({setting.field: value if setting.kind == "switch" else text}, {})
    for resolved, origin in ((by_file, str(file)), (by_variable, setting.variable), (by_flag, setting.flag)):
        assert getattr(resolved.settings, setting.field) == expected
        assert resolved.origins[setting.field] == origin


def test_a_flag_wins_over_the_environment_over_the_file_over_the_default(tmp_path: Path) -> None:
    file = written(tmp_path, "window = 100\nsinks = 5\ntheme = 'mine'\n")
    environ = {"SINKCHAT_WINDOW": "200", "SINKCHAT_SINKS": "6"}
    settings = load_settings({"window": "300"}, environ, file)
    assert (settings.window, settings.sinks, settings.theme, settings.policy) == (300, 6, "mine", "sinks")


def test_the_usual_file_is_read_if_it_is_there() -> None:
    locations.config_dir().mkdir(parents=True)
    locations.config_file().write_text("window = 123\n")
    assert load_settings({}, {}).window == 123


def test_a_variable_names_another_file(tmp_path: Path) -> None:
    file = written(tmp_path, "window = 321\n")
    assert load_settings({}, {"SINKCHAT_CONFIG": str(file)}).window == 321
    with pytest.raises(UsageError, match="no configuration file /nowhere"):
        load_settings({}, {"SINKCHAT_CONFIG": "/nowhere.toml"})


@pytest.mark.parametrize(("wrong", "meant"), [("windo", "window"), ("max-reply-tokens", "max_reply_tokens")])
def test_an_unknown_key_is_an_error_that_suggests_the_nearest(wrong: str, meant: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        load_settings({}, {}, written(tmp_path, f"{wrong} = 1\n"))
    assert str(error.value).endswith(f"no setting {wrong}; did you mean {meant}?")


def test_an_unknown_key_like_nothing_lists_what_is_known(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="known are model, sinks, window"):
        load_settings({}, {}, written(tmp_path, "zzz = 1\n"))


def test_an_unknown_variable_of_ours_is_an_error_that_suggests_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"SINKCHAT_WINDW .*did you mean SINKCHAT_WINDOW\?"):
        load_settings({}, {"SINKCHAT_WINDW": "1"})
    assert load_settings({}, {"SINKCHAT_CACHE_DIR": "/c", "OTHER": "1", "SINKCHAT_WINDOW": ""}) == Settings()


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("window = '256'", 'window is "256", but it must be a whole number of at least 1.'),
        ("window = 0", "window is 0, but it must be a whole number of at least 1."),
        ("window = 9.0", "window is 9.0, but it must be a whole number of at least 1."),
        ("window = true", "window is true, but it must be a whole number of at least 1."),
        ("sinks = -1", "sinks is -1, but it must be a whole number of at least 0."),
        ("top_p = 1.5", "top_p is 1.5, but it must be a number above 0, at most 1."),
        ("min_p = 2", "min_p is 2, but it must be a number from 0 to 1."),
        ("temperature = nan", "temperature is NaN, but it must be a number of at least 0."),
        ("repetition_penalty = 0", "repetition_penalty is 0, but it must be a number above 0."),
        ("policy = 'sink'", 'policy is "sink", but it must be one of sinks, window, full, recompute.'),
        ("quant = 'int4'", 'quant is "int4", but it must be one of auto, none, nf4, int8.'),
        ("pin_system = 'yes'", 'pin_system is "yes", but it must be true or false.'),
        ("theme = ''", 'theme is "", but it must be a text.'),
        ("system = 4", "system is 4, but it must be a text."),
        ("theme = 1979-05-27", "theme is 1979-05-27, but it must be a text."),
    ],
)
def test_a_wrong_value_names_the_file_the_value_and_what_is_allowed(line: str, sentence: str, tmp_path: Path) -> None:
    file = written(tmp_path, line + "\n")
    with pytest.raises(UsageError) as error:
        load_settings({}, {}, file)
    assert str(error.value) == f"{file}: {sentence}"


def test_a_wrong_value_names_the_variable_or_the_flag() -> None:
    with pytest.raises(UsageError, match=r'^SINKCHAT_SEED is "x", but it must be a whole number of at least 0.$'):
        load_settings({}, {"SINKCHAT_SEED": "x"})
    with pytest.raises(
        UsageError, match=r'^--max-reply-tokens is "1e3", but it must be a whole number of at least 0.$'
    ):
        load_settings({"max_reply_tokens": "1e3"}, {})


def test_the_window_must_be_larger_than_the_sinks(tmp_path: Path) -> None:
    file = written(tmp_path, "sinks = 8\n")
    with pytest.raises(UsageError) as error:
        load_settings({"window": "8"}, {}, file)
    assert "the window is 8 (--window)" in str(error.value)
    assert f"8 sinks ({file})" in str(error.value)
    assert load_settings({"window": "9"}, {}, file).window == 9


def test_an_empty_text_takes_back_what_the_file_set(tmp_path: Path) -> None:
    file = written(tmp_path, "system = 'Be brief.'\n")
    assert load_settings({}, {}, file).system == "Be brief."
    assert load_settings({"system": ""}, {}, file).system is None


def test_a_path_in_a_file_counts_from_the_file_and_a_tilde_from_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    file = written(tmp_path, "small_model_file = 'm.gguf'\nmodel = '~/m'\n")
    settings = load_settings({}, {}, file)
    assert settings.small_model_file == tmp_path / "m.gguf"
    assert settings.model == "/home/someone/m"


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    assert load_settings({}, {}, written(tmp_path, b"\xef\xbb\xbfwindow = 9\n")).window == 9


def test_a_file_that_cannot_be_understood_is_named_with_the_reason(tmp_path: Path) -> None:
    for text, reason in (
        ("window = 9\n\nsinks = = 2\n", r"is not valid TOML: .*line 3"),
        ("window = 9\nwindow = 8\n", r"is not valid TOML: .*line 2"),
        ("window = 9\n".encode("utf-16"), "is not UTF-8 text"),
    ):
        file = written(tmp_path, text)
        with pytest.raises(UsageError, match=f"{re.escape(str(file))} {reason}"):
            load_settings({}, {}, file)


def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no configuration file .*none\.toml"):
        load_settings({}, {}, tmp_path / "none.toml")
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        load_settings({}, {}, tmp_path)


def test_the_example_documents_every_setting_with_its_help_and_default(tmp_path: Path) -> None:
    text = locations.example_config().read_text(encoding="utf-8")
    assert load_settings({}, {}, locations.example_config()) == Settings(), "as it stands, it changes nothing"
    lines = text.splitlines()
    settings = {match[1]: number for number, line in enumerate(lines) if (match := re.match(r"# (\w+) = ", line))}
    assert sorted(settings) == sorted(setting.field for setting in TABLE)
    uncommented = "\n".join(line[2:] for number, line in enumerate(lines) if number in settings.values())
    loaded = load_settings({}, {}, written(tmp_path, uncommented))
    for setting in TABLE:
        above = lines[: settings[setting.field]]
        block = " ".join(line.removeprefix("# ") for line in above[len(above) - above[::-1].index("") :])
        assert block.startswith(setting.help), f"{setting.field} is not explained in the table's words"
        if setting.choices:
            assert f"One of {', '.join(setting.choices)}." in block
        if setting.default is not None:
            assert getattr(loaded, setting.field) == setting.default
    assert tomli.loads(uncommented).keys() == settings.keys()


def test_each_folder_can_be_moved_by_its_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in locations.VARIABLES:
        monkeypatch.setenv(variable, str(tmp_path / variable))
    assert locations.config_file() == tmp_path / "SINKCHAT_CONFIG_DIR" / "config.toml"
    assert locations.user_themes_dir() == tmp_path / "SINKCHAT_CONFIG_DIR" / "themes"
    assert locations.sessions_dir() == tmp_path / "SINKCHAT_DATA_DIR" / "sessions"
    assert locations.models_dir() == tmp_path / "SINKCHAT_CACHE_DIR" / "models"
    assert locations.log_file() == tmp_path / "SINKCHAT_STATE_DIR" / "sinkchat.log"
    assert locations.history_file() == tmp_path / "SINKCHAT_STATE_DIR" / "history"
    assert not any((tmp_path / variable).exists() for variable in locations.VARIABLES), "asking creates nothing"


def test_without_a_variable_the_platform_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in locations.VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    for folder in (locations.config_dir, locations.data_dir, locations.cache_dir, locations.state_dir):
        assert folder().is_absolute()
        assert "sinkchat" in folder().parts or os.name != "posix"
