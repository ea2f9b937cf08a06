"""Where sinkchat's files are: the only place that builds a path.

Each folder is where platformdirs puts it, unless its environment variable names another one. Nothing here creates
a folder or a file: whoever writes does.
"""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from sinkchat.files import expanded

APP = "sinkchat"

CONFIG_DIR = "SINKCHAT_CONFIG_DIR"
DATA_DIR = "SINKCHAT_DATA_DIR"
CACHE_DIR = "SINKCHAT_CACHE_DIR"
STATE_DIR = "SINKCHAT_STATE_DIR"
VARIABLES = (CONFIG_DIR, DATA_DIR, CACHE_DIR, STATE_DIR)

_PACKAGE = Path(__file__).resolve().parent


def config_dir() -> Path:
    """Where a person's own choices are."""
    return _chosen(CONFIG_DIR) or platformdirs.user_config_path(APP, appauthor=False)


def data_dir() -> Path:
    """What must not be lost: the sessions."""
    return _chosen(DATA_DIR) or platformdirs.user_data_path(APP, appauthor=False)


def cache_dir() -> Path:
    """What can be fetched or made again: the converted small model."""
    return _chosen(CACHE_DIR) or platformdirs.user_cache_path(APP, appauthor=False)


def state_dir() -> Path:
    """What is kept between runs and can be lost: the input history and the log."""
    return _chosen(STATE_DIR) or platformdirs.user_state_path(APP, appauthor=False)


def config_file() -> Path:
    return config_dir() / "config.toml"


def sessions_dir() -> Path:
    return data_dir() / "sessions"


def models_dir() -> Path:
    return cache_dir() / "models"


def user_themes_dir() -> Path:
    return config_dir() / "themes"


def packaged_themes_dir() -> Path:
    """The themes that come with sinkchat: inside the package when installed, beside it in a source checkout."""
    return _packaged("themes")


def example_config() -> Path:
    """The configuration file that documents every setting."""
    return _packaged("config.example.toml")


def history_file() -> Path:
    return state_dir() / "history"


def log_file() -> Path:
    return state_dir() / "sinkchat.log"


def _chosen(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return expanded(value).absolute() if value else None


def _packaged(name: str) -> Path:
    inside = _PACKAGE / name
    return inside if inside.exists() else _PACKAGE.parent / name
