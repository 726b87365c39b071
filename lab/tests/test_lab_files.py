"""Commands of the lab, too, replace no file that they read."""

from __future__ import annotations

import pytest

OVER = {
    "compare, its folder": "compare data --out data",
    "compare, JSON": "compare data --out out --json data/runs.csv",
    "compare, new recordings": "compare data --new new --out out --json new/n.csv",
    "motion": "motion data --out data/walk/02_01.bvh",
    "motion, JSON": "motion data --out a.csv --json data/walk/02_01.bvh",
    "datasets": "datasets cmu --folder data --json data/walk/02_01.bvh",
    "bench gait": "bench gait --data data --json data/walk/02_01.bvh",
    "bench vehicles": "bench vehicles --data data --json data/walk/02_01.bvh",
    "bench turn": "bench turn --data data --json data/walk/02_01.bvh",
    "reproduce": "reproduce all --json data/walk/02_01.bvh",
}


@pytest.mark.parametrize("case", OVER)
def test_no_output_replaces_a_file_that_is_read(tmp_path, command, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MECHTRACE_DATA", str(tmp_path))
    files = ("data/runs.csv", "data/comparison.csv", "data/walk/02_01.bvh", "new/n.csv")
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"precious {name}")
    code, _, err = command(*OVER[case].split())
    assert code == 2
    assert err.endswith(": is read too; name another file.\n")
    assert [(tmp_path / name).read_text() for name in files] == [f"precious {n}" for n in files]
