"""``[tool.radixcheck]`` in ./pyproject.toml: a project's defaults, below flags and environment."""

from __future__ import annotations

import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from radixcheck.cli.options import REPORTS, Profile, duration, kinds, size

COMMANDS = ("run", "fuzz", "diff", "smoke", "replay", "shrink", "exhaust", "atheris")
"""The commands that take settings, where they have the option."""

TIMES = ("max_time", "max_ops", "profile")
"""Not for `smoke`, which is short whatever the project's runs are."""


class SettingsError(ValueError):
    """``[tool.radixcheck]`` cannot be understood; the message names file and key."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def settings_for(command: str, path: Path = Path("pyproject.toml")) -> dict[str, Any]:
    """Return the settings as the parameters of `command`, by name.

    Raises:
        SettingsError: the file is no TOML, a key is unknown, or a value has the wrong type.
    """
    settings = read_settings(path) if command in COMMANDS else {}
    left_out = TIMES if command == "smoke" else ()
    return {name: value for name, value in settings.items() if name not in left_out}


def read_settings(path: Path) -> dict[str, Any]:
    """Read the table of `path`; a file that is not there has none.

    Raises:
        SettingsError: as `settings_for`.
    """
    if not path.is_file():
        return {}
    try:
        tool = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is no TOML: {error}") from None
    table = tool.get("radixcheck", {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        raise SettingsError(f"{path}: tool.radixcheck = {table!r} is no table")
    return {key.replace("-", "_"): _checked(path, key, value) for key, value in table.items()}


def _checked(path: Path, key: str, value: object) -> Any:
    if key not in _WANTED:
        near = get_close_matches(key, _WANTED)
        nearest = f"nearest: {', '.join(near)}; " if near else ""
        hint = f"{nearest}known: {', '.join(_WANTED)}"
        raise SettingsError(f"{path}: unknown key {key!r} in [tool.radixcheck]", hint)
    wanted, fits = _WANTED[key]
    if not fits(value):
        raise SettingsError(f"{path}: [tool.radixcheck] {key} = {value!r}", f"write {wanted}")
    return value


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_duration(value: object) -> bool:
    try:
        return isinstance(value, str | int | float) and duration(str(value)) > 0
    except ValueError:
        return False


def _is_size(value: object) -> bool:
    try:
        return isinstance(value, str | int) and size(str(value)) > 0
    except ValueError:
        return False


def _are_kinds(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(kinds(value))
    except ValueError:
        return False


_WANTED = {
    "seed": ("a whole number", _is_count),
    "max-time": ('"90s", "10m" or "8h"', _is_duration),
    "max-ops": ("a number of operations", lambda value: _is_count(value) and value != 0),
    "exitfirst": ("true or false", lambda value: isinstance(value, bool)),
    "profile": (", ".join(map(repr, map(str, Profile))), lambda value: value in list(Profile)),
    "misuse": ("true or false", lambda value: isinstance(value, bool)),
    "isolate": ("true or false", lambda value: isinstance(value, bool)),
    "op-timeout": ('"10s" or "1m"', _is_duration),
    "memory-limit": ('"2G" or "512M"', _is_size),
    "known-failures": ("a file", lambda value: isinstance(value, str) and value != ""),
    "findings-dir": ("a folder", lambda value: isinstance(value, str) and value != ""),
    "report": (f'"{",".join(REPORTS)}", or some of it', _are_kinds),
    "report-dir": ("a folder", lambda value: isinstance(value, str) and value != ""),
}
"""Per key what to write, and what tells whether a value is that."""
