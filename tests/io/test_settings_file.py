"""Settings files: what is wrong with one is said in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from mechtrace.config import RunConfig
from mechtrace.errors import ConfigError
from mechtrace.io.settings_file import LARGEST, read_toml


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[train]\nlr = 1", r"unknown table \[train\]; put settings under \[model\], \[fit\] or"),
        ("latents = 3", r"unknown table \[latents\]"),
        ("[model]\nlatents 3", "is not valid TOML"),
        ("[model]\nlatents = 3\nlatents = 4", "is not valid TOML"),
        ("\udcff", "is not valid TOML"),
        ("[model]\nlatents = " + "[" * 50_000, r"is not valid TOML \(nested too deeply\)"),
        ("[fit]\nseed = " + "9" * 5_000, "is not valid TOML"),
        ("#" * (LARGEST + 1), r"is not valid TOML \(larger than 1 MiB\)"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError, match=message) as caught:
        read_toml(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: there is no such file"):
        read_toml(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="is a folder, not a file of settings"):
        read_toml(tmp_path)


def test_an_unknown_setting_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text("[fit]\nlearning_rate = 0.1\n")
    with pytest.raises(ConfigError, match="no setting 'learning_rate'"):
        RunConfig.from_options(**read_toml(path))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("seed = 9223372036854775808", "seed = a number of 19 digits or more; make it a whole"),
        ("seed = " + "9" * 400, "seed = a number of 19 digits or more"),
        ("lr = " + "9" * 400, "lr = a number of 19 digits or more; make it a finite number"),
        ("lr = 1e999", "lr = inf; make it a finite number"),
        ("device = [" + "[" * 50 + "]" * 50 + "]", r"device = \[\[\[.*; make it text"),
    ],
)
def test_values_that_no_number_holds(tmp_path: Path, setting: str, message: str) -> None:
    path = tmp_path / "run.toml"
    path.write_text(f"[fit]\n{setting}\n")
    with pytest.raises(ConfigError, match=message) as caught:
        RunConfig.from_options(**read_toml(path))
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("gap", ["9" * 400, "nan"])
def test_numbers_of_the_table_of_columns(tmp_path: Path, gap: str) -> None:
    path = tmp_path / "run.toml"
    path.write_text(f"[data]\ngap = {gap}\n")
    with pytest.raises(ConfigError, match=r"\[data\]: gap = .*; make it a number"):
        read_toml(path)
