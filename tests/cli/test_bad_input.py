"""Bad input to every command: exit code 2, one sentence with advice, nothing written.

Each case names the defect, the words that its sentence must have, and how to call the command.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import mechtrace as mt

HEADER = "time,run,mode,x,y\n"
ROWS = [f"{t},{r},{'AB'[r % 2]},{np.sin(t + r):.3f},{t % 3}" for r in range(6) for t in range(12)]
GOOD = HEADER + "\n".join(ROWS) + "\n"
LINE_5 = ROWS[3]


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """One tiny model of channels x and y, trained once."""
    world = mt.worlds.make("paper", regimes=2, latents=2, channels=2, length=20)
    panel = replace(world.simulate(12).panel, regimes=("A", "B"), channels=("x", "y"))
    path = tmp_path_factory.mktemp("tiny") / "tiny.mechtrace"
    settings = {"latents": 2, "hidden": 16, "steps": 200, "batch": 12, "lr": 0.01, "align": False}
    mt.Trace(**settings, evaluations=4).fit(panel, progress=False).save(path)
    return path


def put(folder: Path, content: str | bytes, name: str = "bad.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def npz(**arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def good_npz(**changes: object) -> bytes:
    arrays = {"values": np.zeros((2, 5, 2)), "channels": np.array(["x", "y"])} | changes
    return npz(**arrays)


def swap(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


#: name: (what stderr must say, file or content of bad.csv, further options)
DATA: dict[str, tuple] = {
    "no such file": ("none.csv.*no such file", lambda d: d / "none.csv"),
    "empty folder": ("void.*no data", lambda d: (d / "void").mkdir() or d / "void"),
    "no match": (r"\*\.csv.*no file matches", lambda d: d / "no*.csv"),
    "unknown type": ("a.xls.*type", lambda d: put(d, "x", "a.xls")),
    "empty file": ("bad.csv.*empty", ""),
    "blank lines": ("bad.csv.*blank", "\n\n \n"),
    "header only": ("bad.csv.*no rows", HEADER),
    "not UTF-8": ("bad.csv.*UTF-8", GOOD.replace("x", "\u0081").encode("latin-1")),
    "binary": ("bad.csv", bytes(range(256)) * 4),
    "text in a cell": ("line 5.*oops|oops.*line 5", swap(LINE_5, "3,0,A,oops,0")),
    "missing cell": ("line 5.*--missing gap", swap(LINE_5, "3,0,A,,0")),
    "infinity": ("infinite.*line 5", swap(LINE_5, "3,0,A,inf,0")),
    "time twice": ("time 11 appears twice", GOOD + "11,5,B,1,1\n"),
    "time is a word": ("noon.*neither a number nor a date", swap(LINE_5, "noon,0,A,1,0")),
    "numbers and dates": ("mix numbers and dates", swap(LINE_5, "2024-01-31,0,A,1,0")),
    "no time": ("no time.*line 5", swap(LINE_5, ",0,A,1,0")),
    "infinite time": ("infinite time", swap(LINE_5, "inf,0,A,1,0")),
    "date too early": (
        "1678",
        "time,run,mode,x,y\n" + "".join(f"150{t}-01-01,0,A,{t},1\n" for t in range(9)),
    ),
    "long row": ("line 5 has 6 cells", swap(LINE_5, LINE_5 + ",7")),
    "unclosed quote": ("bad.csv", swap(LINE_5, '3,0,"A,1,0')),
    "column twice": ("'x' appears twice", GOOD.replace("x,y", "x,x")),
    "no series name": ("no series name.*line 5", swap(LINE_5, "3,,A,1,0")),
    "damaged parquet": ("bad.parquet", lambda d: put(d, b"PAR1" + b"x" * 50, "bad.parquet")),
    "damaged npz": ("bad.npz", lambda d: put(d, b"PK\x03\x04 no", "bad.npz")),
    "npz without values": ("no array.*values", lambda d: put(d, npz(x=np.ones(3)), "bad.npz")),
    "npz of objects": (
        "pickled",
        lambda d: put(d, npz(values=np.array([{}, []], dtype=object)), "bad.npz"),
    ),
    "npz with NaN": (
        "no value",
        lambda d: put(d, good_npz(values=np.full((2, 5, 2), np.nan)), "bad.npz"),
    ),
    "npz, wrong times": (
        "bad.npz",
        lambda d: put(d, good_npz(time=np.array([3, 2, 1, 1, 0])), "bad.npz"),
    ),
    "cut gzip": ("bad.csv.gz", lambda d: put(d, gzip.compress(GOOD.encode())[:60], "bad.csv.gz")),
    "not gzip": ("bad.csv.gz", lambda d: put(d, GOOD, "bad.csv.gz")),
    "unknown time column": ("'clock'", GOOD, "--time", "clock"),
    "unknown series column": ("'wheel'", GOOD, "--series", "wheel"),
    "unknown series columns": ("wheel", GOOD, "--series", "run,wheel"),
    "unknown --missing": ("--missing.*error.*gap.*interpolate", GOOD, "--missing", "guess"),
    "gap of nothing": ("gap=0", GOOD, "--gap", "0"),
    "gap is a word": ("--gap", GOOD, "--gap", "wide"),
    "files of two kinds of time": (
        "times are dates.*numbers",
        lambda d: [
            put(d, GOOD),
            put(d, re.sub(r"(?m)^(\d+),", r"2024-01-31T00:00:\1,", GOOD), "c.csv"),
        ],
    ),
    "a file lacks a column": (
        "c.csv.*no column 'y'",
        lambda d: [put(d, GOOD), put(d, GOOD.replace("x,y", "x,w"), "c.csv")],
    ),
    "a column for an npz": (
        "no columns to choose from",
        lambda d: put(d, good_npz(), "bad.npz"),
        "--series", "run",
    ),
    "JSON in no folder": ("a.json.*folder", GOOD, "--json", "{folder}/no/a.json"),
    "JSON over a folder": ("this is a folder", GOOD, "--json", "{folder}"),
    "JSON over the data": ("is read too", GOOD, "--json", "{folder}/bad.csv"),
    "unknown option": ("no such option: --bogus.*--help", GOOD, "--bogus"),
}  # fmt: skip

#: What can be wrong with a table of curves, or with what is known about it.
KNOWN = ["--anchor", "0:4=A", "--anchor", "8:11=B"]


def curves(change=lambda frame: frame):
    """A table of two curves, as recover writes them, with a defect."""
    rows = [
        {"series": s, "time": t, "A": 1 - t / 11, "B": t / 11, "A_lower": 0.0, "A_upper": 1.0,
         "B_lower": 0.0, "B_upper": 1.0, "residual": 1.0, "flag": ""}
        for s in ("one", "two") for t in range(12)
    ]  # fmt: skip
    return change(pd.DataFrame(rows)).to_csv(index=False)


CURVES: dict[str, tuple] = {
    "no such file": ("none.csv.*no such file", lambda d: d / "none.csv"),
    "a folder": ("folder", lambda d: d),
    "unknown type": ("a.xls.*type", lambda d: put(d, "x", "a.xls")),
    "empty file": ("empty", ""),
    "blank lines": ("blank", "\n\n"),
    "header only": ("no rows", curves(lambda f: f[:0])),
    "not UTF-8": ("UTF-8", curves().replace("one", "\u0081").encode("latin-1")),
    "no curves": ("mechtrace recover", GOOD),
    "no residual": ("no column 'residual'", curves(lambda f: f.drop(columns="residual"))),
    "no upper bound": ("no column 'B_upper'", curves(lambda f: f.drop(columns="B_upper"))),
    "no time": ("no column 'time'", curves(lambda f: f.drop(columns="time"))),
    "text in a curve": ("high", curves(lambda f: f.astype({"A": str}).replace("1.0", "high"))),
    "infinity": ("infinite", curves(lambda f: f.replace(1 / 11, np.inf))),
    "time twice": ("appears twice", curves(lambda f: f.assign(series="one"))),
    "long row": ("cells", curves() + "one,12" + ",1" * 12 + "\n"),
    "damaged parquet": ("bad.parquet", lambda d: put(d, b"PAR1" + b"x" * 50, "bad.parquet")),
    "damaged npz": ("bad.npz", lambda d: put(d, b"PK\x03\x04 no", "bad.npz")),
    "npz of something else": ("bad.npz.*series", lambda d: put(d, good_npz(), "bad.npz")),
    "known without =": ("not FROM:TO=REGIME", curves(), "--anchor", "0:4"),
    "known without a span": ("not FROM:TO=REGIME", curves(), "--anchor", "A"),
    "known regime unknown": ("no regime 'C'", curves(), "--anchor", "0:4=C"),
    "known series unknown": ("no series 'three'", curves(), "--anchor", "three/0:4=A"),
    "known at no time": ("no step lies between", curves(), "--anchor", "50:60=A"),
    "known at a word": ("noon", curves(), "--anchor", "noon:night=A"),
    "known weights are words": ("no list of weights", curves(), "--anchor", "0:4=A:half,B:half"),
    "known weights too small": ("do not sum to 1", curves(), "--anchor", "0:4=A:0.1,B:0.1"),
    "one regime known": ("", curves(), "--anchor", "0:4=A"),
    "unknown way": ("how", curves(), *KNOWN, "--how", "magic"),
    "nothing known": ("--anchor", curves(), "--quiet"),
    "JSON in no folder": ("folder", curves(), *KNOWN, "--json", "{folder}/no/a.json"),
    "unknown option": ("no such option", curves(), *KNOWN, "--bogus"),
}


def damaged(change):
    """A copy of the model with members or manifest changed."""

    def make(folder: Path, model: Path) -> Path:
        target = folder / "bad.mechtrace"
        with zipfile.ZipFile(model) as source, zipfile.ZipFile(target, "w") as copy:
            members = {name: source.read(name) for name in source.namelist()}
            copy.comment = source.comment
            for name, data in change(members).items():
                copy.writestr(name, data)
        return target

    return make


def manifest(**changes: object):
    def change(members: dict[str, bytes]) -> dict[str, bytes]:
        meta = json.loads(members["manifest.json"]) | changes
        return members | {"manifest.json": json.dumps(meta).encode()}

    return damaged(change)


def cut(share: float):
    return lambda d, model: put(
        d, model.read_bytes()[: int(share * model.stat().st_size)], "bad.mechtrace"
    )


def flipped(share: float):
    def make(folder: Path, model: Path) -> Path:
        content = bytearray(model.read_bytes())
        content[int(share * len(content))] ^= 0xFF
        return put(folder, bytes(content), "bad.mechtrace")

    return make


def without(name: str):
    return damaged(lambda members: {k: v for k, v in members.items() if k != name})


def emptied(name: str):
    return damaged(lambda members: members | {name: b""})


MODELS: dict[str, tuple] = {
    "no such model": ("none.mechtrace", lambda d, m: d / "none.mechtrace"),
    "a folder": ("folder", lambda d, m: d),
    "an empty file": ("bad.mechtrace", lambda d, m: put(d, "", "bad.mechtrace")),
    "a table": ("not a mechtrace file", lambda d, m: put(d, GOOD, "t.csv")),
    "an npz": ("not a mechtrace file", lambda d, m: put(d, good_npz(), "t.npz")),
    "text": ("not a mechtrace file", lambda d, m: put(d, "hello", "bad.mechtrace")),
    "noise": ("bad", lambda d, m: put(d, bytes(range(256)) * 9, "bad.mechtrace")),
    **{f"cut at {share}": ("bad.mechtrace", cut(share)) for share in (0.01, 0.3, 0.6, 0.9, 0.99)},
    **{
        f"a byte changed at {share}": ("bad.mechtrace", flipped(share))
        for share in (0.0, 0.1, 0.3, 0.5, 0.7, 0.8)
    },
    "no manifest": ("bad.mechtrace", without("manifest.json")),
    "no weights": ("bad.mechtrace", without("weights.safetensors")),
    "no arrays": ("bad.mechtrace", without("arrays.npz")),
    "no card": ("bad.mechtrace", without("card.md")),
    "empty manifest": ("bad.mechtrace", emptied("manifest.json")),
    "empty weights": ("bad.mechtrace", emptied("weights.safetensors")),
    "empty arrays": ("bad.mechtrace", emptied("arrays.npz")),
    "another format": ("bad.mechtrace", manifest(format="other")),
    "a later schema": ("bad.mechtrace", manifest(schema=99)),
    "an unknown kind": ("bad.mechtrace", manifest(kind="poem")),
    "other members": ("bad.mechtrace", manifest(members={})),
}

FIT: dict[str, tuple] = {
    "no data": ("no data to learn from", None),
    "no labels": (
        "--regime COLUMN",
        GOOD.replace(",A,", ",1,").replace(",B,", ",2,").replace("mode", "word"),
    ),
    "labels are blank": ("no regime labels", GOOD.replace(",A,", ",,").replace(",B,", ",,")),
    "one regime": ("one regime, 'A'", GOOD.replace(",B,", ",A,")),
    "too short": ("no stretch of more than 20 rows", GOOD, "--lags", "20"),
    "unknown regime column": ("'gait'", GOOD, "--regime", "gait"),
    "unknown channel": ("'q'", GOOD, "--channels", "x,q"),
    "nothing but text": ("no channels are left", "time,mode,x\n0,A,u\n1,B,v\n"),
    "a setting of nothing": ("latents = 0", GOOD, "--latents", "0"),
    "a setting of the wrong kind": ("--latents", GOOD, "--latents", "many"),
    "no such setting": ("no setting 'nonsense'", GOOD, "--set", "nonsense=1"),
    "not a setting": ("not name=value", GOOD, "--set", "window"),
    "a learning rate below zero": ("lr = -1", GOOD, "--lr", "-1"),
    "unknown experts": ("--experts", GOOD, "--experts", "oracle"),
    "unknown device": ("abacus", GOOD, "--device", "abacus"),
    "no such config": ("none.toml", GOOD, "--config", "{folder}/none.toml"),
    "a config that is no TOML": ("TOML", GOOD, "--config", "{folder}/bad.csv"),
    "a log in no folder": ("folder", GOOD, "--log", "{folder}/no/log"),
    "resume a table": ("not a mechtrace file", GOOD, "--resume"),
}
RECOVER: dict[str, tuple] = {
    "unknown method": ("--method", GOOD, "--method", "magic"),
    "a level above one": ("level = 2", GOOD, "--level", "2"),
    "unknown active regime": ("active", GOOD, "--active", "A,Z"),
    "unknown evidence": ("block|evidence|magic", GOOD, "--evidence", "magic"),
    "known without a span": ("not FROM:TO=REGIME", GOOD, "--anchor", "A"),
    "known regime unknown": ("no regime 'Z'", GOOD, "--anchor", "0:4=Z"),
    "offset of the past alone": ("estimate_offset", GOOD, "--estimate-offset", "--causal"),
    "known in a pool": ("pool", GOOD, "--anchor", "0:4=A", "--pool"),
    "other channels": ("no column 'x'", GOOD.replace("x,y", "u,v")),
}
SIMULATE: dict[str, list[str]] = {
    "unknown world": ["unknown world 'moon'", "--world", "moon"],
    "not an option": ["not name=value", "--set", "noise"],
    "unknown option": ["no option 'colour'", "--set", "colour=1"],
    "option of the wrong kind": ["noise", "--set", "noise=loud"],
    "an option of nothing": ["regimes", "--set", "regimes=0"],
    "no series": ["--series", "--series", "0"],
    "unknown schedule": ["unknown schedule 'jump'", "--transition", "jump"],
    "active words": ["not a list of whole numbers", "--transition", "simple", "--active", "a,b"],
    "active regime unknown": ["active|regime", "--transition", "simple", "--active", "0,99"],
    "seed is a word": ["--seed", "--seed", "lucky"],
    "a seed below zero": ["seed", "--seed", "-1"],
    "a world seed below zero": ["seed", "--world-seed", "-1"],
    "truth over the data": ["written twice", "--truth", "{folder}/out.csv"],
    "truth in no folder": ["folder", "--truth", "{folder}/no/t.npz"],
    "JSON in no folder": ["folder", "--json", "{folder}/no/t.json"],
    "unknown flag": ["no such option", "--bogus"],
}
#: For every command that writes: where it cannot.
TARGETS = {
    "no folder": ("folder.*not exist", "{folder}/no/out"),
    "a folder": ("this is a folder", "{folder}"),
    "out over the data": ("is read too", "{folder}/bad.csv"),
}


def spelt(arguments, folder: Path) -> list[str]:
    return [str(part).replace("{folder}", str(folder)) for part in arguments]


def sources(case: tuple, folder: Path) -> list[Path]:
    """The files that a case is about."""
    if case[1] is None:
        return []
    found = case[1](folder) if callable(case[1]) else put(folder, case[1])
    return found if isinstance(found, list) else [found]


def listing(folder: Path) -> dict[str, int]:
    return {str(p.relative_to(folder)): p.stat().st_mtime_ns for p in folder.rglob("*")}


@pytest.fixture
def refused(command, tmp_path):
    """Call a command that must refuse, in one sentence, without a trace on the disk."""

    def call(message: str, *arguments: object) -> None:
        before = listing(tmp_path)
        code, out, err = command(*arguments)
        assert code == 2, (out, err)
        assert err.startswith("mechtrace: ")
        assert err.count("\n") == 1, err
        assert "Traceback" not in err
        assert re.search(message, err), err
        assert re.search(r"; \S", err), f"no advice: {err}"
        assert err.endswith(".\n")
        assert listing(tmp_path) == before

    return call


def ways(command: str, folder: Path, model: Path) -> tuple[list, list]:
    """What stands before and after the data of a command."""
    out = folder / {"fit": "m", "report": "r.html"}.get(command, "out.csv")
    before = [command] if command == "fit" else [command, model]
    return before, [] if command == "diagnose" else ["--out", out]


@pytest.mark.parametrize("case", DATA)
@pytest.mark.parametrize("name", ["fit", "recover", "diagnose", "report"])
def test_data(refused, model, tmp_path, name, case):
    message, options = DATA[case][0], DATA[case][2:]
    before, after = ways(name, tmp_path, model)
    files = sources(DATA[case], tmp_path)
    refused(message, *before, *files, *after, *spelt(options, tmp_path))


@pytest.mark.parametrize("case", FIT)
def test_fit(refused, tmp_path, case):
    message, options = FIT[case][0], FIT[case][2:]
    files = sources(FIT[case], tmp_path)
    if case == "resume a table":
        put(tmp_path, GOOD, "m.ckpt")
    refused(message, "fit", *files, "-o", tmp_path / "m", *spelt(options, tmp_path))


def test_fit_needs_a_name_for_the_model(refused, tmp_path):
    refused("--out model.mechtrace", "fit", put(tmp_path, GOOD))


@pytest.mark.parametrize("case", RECOVER)
@pytest.mark.parametrize("name", ["recover", "diagnose", "report"])
def test_recover(refused, model, tmp_path, name, case):
    message, options = RECOVER[case][0], RECOVER[case][2:]
    if name == "diagnose" and "--level" in options:
        pytest.skip("a diagnosis has no level")
    before, after = ways(name, tmp_path, model)
    refused(message, *before, *sources(RECOVER[case], tmp_path), *after, *options)


@pytest.mark.parametrize("case", MODELS)
@pytest.mark.parametrize("name", ["info", "recover", "diagnose", "report"])
def test_models(refused, model, tmp_path, name, case):
    message, make = MODELS[case]
    bad = make(tmp_path, model)
    if name == "info":
        refused(message, "info", bad)
    else:
        _, after = ways(name, tmp_path, model)
        refused(message, name, bad, put(tmp_path, GOOD, "new.csv"), *after)


@pytest.mark.parametrize("case", CURVES)
def test_calibrate(refused, tmp_path, case):
    message, options = CURVES[case][0], CURVES[case][2:] or KNOWN
    (table,) = sources(CURVES[case], tmp_path)
    target = tmp_path / "out.csv"
    refused(message, "calibrate", table, *spelt(options, tmp_path), "--out", target)


@pytest.mark.parametrize("case", SIMULATE)
def test_simulate(refused, tmp_path, case):
    message, *options = SIMULATE[case]
    refused(message, "simulate", "--out", tmp_path / "out.csv", *spelt(options, tmp_path))


@pytest.mark.parametrize("case", TARGETS)
@pytest.mark.parametrize("name", ["fit", "recover", "report", "calibrate", "simulate"])
def test_targets(refused, model, tmp_path, name, case):
    message, target = TARGETS[case]
    end = ".csv" if name in ("recover", "calibrate", "simulate") and case == "no folder" else ""
    if name == "simulate":
        if case == "out over the data":
            pytest.skip("no data is read")
        arguments = ["simulate"]
    elif name == "calibrate":
        arguments = ["calibrate", put(tmp_path, curves()), *KNOWN]
    else:
        arguments = [*ways(name, tmp_path, model)[0], put(tmp_path, GOOD)]
    refused(message, *arguments, "--out", *spelt([target + end], tmp_path))


@pytest.mark.parametrize("name", ["recover", "calibrate", "simulate"])
def test_types_that_are_not_written(refused, model, tmp_path, name):
    arguments = {
        "recover": ["recover", model, put(tmp_path, GOOD)],
        "calibrate": ["calibrate", put(tmp_path, curves(), "c.csv"), *KNOWN],
        "simulate": ["simulate"],
    }[name]
    refused("use .csv", *arguments, "--out", tmp_path / "out.xlsx")


@pytest.mark.parametrize("name", ["", "fit", "recover", "info", "bench"])
def test_unknown_words(refused, name):
    refused("--help", *([name] if name else []), "--nonsense")


def test_unknown_command(refused):
    refused("no such command 'fitt'", "fitt")


def test_an_old_result_survives_a_failure(command, model, tmp_path):
    old = put(tmp_path, "old", "alpha.csv")
    shutil.copy(model, tmp_path / "m.mechtrace")
    code, _, _ = command("recover", model, put(tmp_path, swap(LINE_5, "3,0,A,,0")), "-o", old)
    assert code == 2
    code, _, _ = command("fit", tmp_path / "bad.csv", "-o", tmp_path / "m.mechtrace")
    assert code == 2
    assert old.read_text() == "old"
    assert (tmp_path / "m.mechtrace").read_bytes() == model.read_bytes()


def test_every_command_that_reads_is_walked_through():
    assert len(DATA) >= 25
    assert len(MODELS) >= 25
    assert len(CURVES) >= 25
