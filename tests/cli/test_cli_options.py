"""Options that commands share: former names, groups of options, and values from text."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from mechtrace.cli.main import app
from mechtrace.cli.options import (
    READING,
    RENAMED,
    assignments,
    named,
    plain,
    typed_command,
    with_options,
)
from mechtrace.config import RunConfig
from mechtrace.errors import ConfigError


def test_former_names_work_with_one_notice(command, tmp_path):
    table = tmp_path / "alpha.csv"
    table.write_text(
        "time,A,B,A_lower,B_lower,A_upper,B_upper,residual,flag\n"
        + "".join(f"{t},{1 - t / 9},{t / 9},0,0,1,1,1,\n" for t in range(10))
    )
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    code, _, err = command("calibrate", table, "--known", "0:1=A", "--known=8:9=B", "-o", old)
    assert code == 0, err
    assert err == "mechtrace: --known is now --anchor.\n"
    code, _, err = command("calibrate", table, "--anchor", "0:1=A", "--anchor=8:9=B", "-o", new)
    assert (code, err) == (0, "")
    assert old.read_text() == new.read_text()


@pytest.mark.parametrize("old", RENAMED)
def test_former_names_are_replaced_where_the_new_one_exists(command, old):
    tree = typer.main.get_command(app)
    having = {
        name
        for name, found in tree.commands.items()
        if RENAMED[old] in {option for one in found.params for option in one.opts}
    }
    assert having
    for name in having:
        code, _, err = command(name, old, "x", "--bogus")
        assert code == 2
        assert err.startswith(f"mechtrace: {old} is now {RENAMED[old]}.\n")
        assert "--bogus" in err
        assert old not in command(name, "--help")[1].replace(RENAMED[old], "").split()
    code, _, err = command("info", old, "x")
    assert (code, f"no such option: {old}" in err) == (2, True)


def test_words_after_two_dashes_are_left_alone(command):
    _, _, err = command("calibrate", "--", "--known")
    assert "is now" not in err


def test_groups_of_options_become_dictionaries():
    seen = {}

    @with_options(reading=READING)
    def show(series: int, reading: dict[str, Any], last: bool = False) -> None:
        seen.update(reading, own=series)

    names = list(inspect.signature(show).parameters)
    assert names == ["series", *(name for name in READING if name != "series"), "last"]
    given = dict.fromkeys(names) | {"series": 3, "rate": 2.0}
    show(**given)
    assert seen == {"rate": 2.0, "own": 3}


def test_values_from_text():
    assert named("walk, run") == ["walk", "run"]
    assert named("") is named(None) is None
    assert assignments(["a=1", "b=[2]", "c=text", "d=x=y"]) == {
        "a": 1, "b": [2], "c": "text", "d": "x=y",
    }  # fmt: skip
    with pytest.raises(ConfigError, match="not name=value"):
        assignments(["a"])


def test_results_become_plain_json():
    found = plain({
        "nan": np.float64("nan"), "day": np.datetime64("2024-01-31"), 3: (np.int64(1), None),
        "long": np.timedelta64(1500, "ms"),
    })  # fmt: skip
    assert found == {"nan": None, "day": "2024-01-31", "3": [1, None], "long": 1.5}


def test_the_help_of_fit_shows_every_default(command):
    code, said, _ = command("fit", "--help")
    text = " ".join(said.partition("Options:")[2].split())
    assert code == 0
    settings = RunConfig().options()
    for name in ("latents", "lags", "experts", "steps", "lr", "hidden", "holdout", "seed"):
        about = text.split(f" --{name} ")[1].split(" --")[0]
        assert f"[default: {settings[name]}]" in about, name
    for name in ("time", "series", "regime", "channels", "gap", "rate", "detrend", "batch"):
        assert "[default: " in text.split(f" --{name} ")[1].split(" --")[0], name


def test_new_recordings_are_read_as_in_the_fit_by_default(command):
    text = " ".join(command("recover", "--help")[1].split())
    assert text.count("[default: as in the fit]") == 6
    assert "[default: detected]" not in text


def test_every_command_has_an_example():
    def all_of(name, found):
        inner = dict(getattr(found, "commands", {}))
        parts = [all_of(f"{name} {k}", v) for k, v in inner.items()]
        return dict(pair for part in parts for pair in part.items()) or {name: found.help or ""}

    helps = all_of("mechtrace", typer.main.get_command(app))
    assert len(helps) > 9
    assert [name for name, text in helps.items() if "Example" not in text] == []


def test_the_home_folder_is_no_part_of_a_stored_command(monkeypatch):
    home = str(Path.home())
    words = ["mechtrace", "fit", f"{home}/my runs.csv", "--regime", "a b"]
    monkeypatch.setattr(sys, "argv", words)
    assert typed_command() == "mechtrace fit ~/'my runs.csv' --regime 'a b'"
