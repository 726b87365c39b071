"""Odd paths as input and output of every command: one sentence or success, no input changed."""

from __future__ import annotations

import glob
import os
import random
import shutil
import stat
from pathlib import Path

import pytest

from fuzz.guard import cases, guarded

pytestmark = pytest.mark.fuzz

PATHS = 200
#: Commands, with places for inputs and outputs.
COMMANDS = [
    ["recover", "MODEL", "DATA", "--out", "OUT"],
    ["recover", "MODEL", "DATA", "--out", "alpha.csv", "--json", "OUT"],
    ["recover", "MODEL", "DATA", "--out", "alpha.csv", "--report", "OUT"],
    ["report", "MODEL", "DATA", "--out", "OUT"],
    ["diagnose", "MODEL", "DATA", "--json", "OUT"],
    ["info", "MODEL", "--json", "OUT"],
    ["fit", "DATA", "--dry-run", "--json", "OUT"],
    ["fit", "DATA", "--dry-run", "--write-config", "OUT"],
    ["fit", "DATA", "--dry-run", "--config", "ANY"],
    ["evaluate", "MODEL", "DATA", "--json", "OUT"],
    ["calibrate", "ANY", "--anchor", "0:5=R0", "--out", "OUT"],
    ["simulate", "--series", "2", "--out", "OUT"],
]


@pytest.fixture
def folder(trained, panel, tmp_path, monkeypatch):
    """Good files, and odd ones."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    trained.save("m.mechtrace")
    panel[:6].to_csv("runs.csv")
    os.mkdir("folder")
    panel[6:9].to_csv("folder/one.csv")
    panel[9:].to_csv("folder/two.csv")
    os.mkfifo("pipe.csv")
    os.symlink("loop-b.csv", "loop-a.csv")
    os.symlink("loop-a.csv", "loop-b.csv")
    os.symlink("nowhere/file.csv", "dangling.csv")
    os.symlink("runs.csv", "link.csv")
    os.link("m.mechtrace", "hard-link.csv")
    os.symlink("m.mechtrace", "link.mechtrace")
    for name in ("empty.csv", "\x1b[31mred.csv", "two\nlines.csv", "=cmd.csv"):
        (here / name).write_text("" if name == "empty.csv" else "a,b\n1,2\n")
    shutil.copy("runs.csv", os.fsdecode(b"\xff\xfe.csv"))
    (here / "nested.toml").write_text("a = " + "[" * 5000 + "]" * 5000)


def odd_paths():
    return [
        *os.listdir(), "folder/", "folder/*.csv", "*.csv", "folder/one.csv", "", ".", "..", "/",
        "/dev/null", "/dev/zero", "/dev/full", "/dev/stdin", "/proc/self/mem", "x" * 300 + ".csv",
        "no/such/folder/x.csv", "runs.csv/inside.csv", "new.csv", "new.html",
        "new.parquet", "[.csv", "~root/x.csv", "m.mechtrace", "runs.csv",
    ]  # fmt: skip


def contents():
    """Inode and bytes of every file, by its name."""
    here = Path()
    return {
        str(path): (os.lstat(path).st_ino, path.read_bytes())
        for path in here.rglob("*")
        if stat.S_ISREG(os.lstat(path).st_mode)
    }


def inodes(word):
    """Inodes of the files that an input names."""
    names = [word, *glob.glob(word), *glob.glob(f"{word}/*")] if word else []
    return {os.stat(name).st_ino for name in names if os.path.exists(name)}


@pytest.mark.parametrize("seed", cases(PATHS))
def test_odd_paths(folder, command, seed):
    draw = random.Random(seed)
    # most of the time one thing is odd, so that the others are reached
    usual = {"MODEL": "m.mechtrace", "DATA": "runs.csv", "OUT": "new.csv", "ANY": "runs.csv"}
    words = list(draw.choice(COMMANDS))
    places = {i: word for i, word in enumerate(words) if word in usual}
    odd = set(draw.sample(sorted(places), min(len(places), draw.choice([1, 1, 2]))))
    for i, word in places.items():
        # devices are only read: as an output of a superuser a bug would replace them
        safe = [path for path in odd_paths() if word != "OUT" or not path.startswith("/")]
        words[i] = draw.choice(safe) if i in odd else usual[word]
    read = set().union(*(inodes(words[i]) for i, word in places.items() if word != "OUT"))
    before = contents()
    with guarded():
        code, out, err = command(*words)
    assert code in (0, 2), (words, out, err)
    if code == 2:
        assert len(err.strip().splitlines()) == 1, (words, err)
        assert err.startswith("mechtrace: "), (words, err)
    assert "\x1b" not in out + err, words
    after = contents()
    changed = [name for name, was in before.items() if after[name][1] != was[1]]
    assert not changed or code == 0, (words, changed)
    assert not {before[name][0] for name in changed} & read, (words, changed)
    assert not [name for name in after if name.startswith(".")], words
