"""Settings files: TOML with the tables [model], [fit] and [data]."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from ..config import DATA_SETTINGS, is_a
from ..errors import ConfigError
from .regular_file import open_regular_file

#: Bytes of the largest file that is read; one with every setting has two thousand.
LARGEST = 1 << 20
_TO_START_FROM = "`mechtrace fit --write-config FILE` writes one to start from"


def read_toml(path: Path) -> dict[str, Any]:
    """Read the tables [model] and [fit] of a TOML file as flat settings; [data] stays a table."""
    with open_regular_file(path, ConfigError, "a file of settings") as file:
        text = file.read(LARGEST + 1)
    try:
        if len(text) > LARGEST:
            raise ValueError(f"larger than {LARGEST >> 20} MiB")
        content = tomllib.loads(text.decode())
    except (ValueError, RecursionError) as error:  # of TOML, of UTF-8, of long numbers, of depth
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        what = f"is not valid TOML ({reason})"
        raise ConfigError(what, where=str(path), fix=_TO_START_FROM) from error
    options: dict[str, Any] = {}
    for group, values in content.items():
        if group not in ("model", "fit", "data") or not isinstance(values, dict):
            fix = "put settings under [model], [fit] or [data]"
            raise ConfigError(f"has an unknown table [{group}]", where=str(path), fix=fix)
        if group == "data":
            options["data"] = _checked_data(values, path)
        else:
            options |= values
    return options


def _checked_data(values: dict[str, Any], path: Path) -> dict[str, Any]:
    for name, value in values.items():
        where = f"{path}, [data]"
        if name not in DATA_SETTINGS:
            known = ", ".join(DATA_SETTINGS)
            raise ConfigError(f"there is no setting {name!r}", where=where, fix=f"use {known}")
        if name == "channels":
            good = isinstance(value, list) and all(isinstance(item, str) for item in value)
        else:
            good = is_a(value, float if name in ("gap", "rate") else str)
        if not good:
            kinds = {"channels": "a list of names", "gap": "a number", "rate": "a number"}
            fix = f"make it {kinds.get(name, 'text')}"
            raise ConfigError(f"{name} = {value!r}", where=where, fix=fix)
    return values
