"""Workers end soon after the process that started them was killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = """
import os, sys, time
from pathlib import Path

HERE = Path(sys.argv[-1])


def work(number, folder=HERE):
    (folder / f"{number}.pid").write_text(str(os.getpid()))
    time.sleep(600)


if __name__ == "__main__":
    from mechtrace_lab.jobs import parallel_map

    list(parallel_map(work, [(1,), (2,)], workers=2))
"""
JOBS = """
from mechtrace_lab.jobs import Job, collect, runner


class Sleep(Job):
    kind, seed = "sleep", 0

    def __init__(self, number):
        self.seed = number

    def about(self):
        return {"seed": self.seed}

    def run(self, folder, listeners=()):
        work(self.seed)

    def describe(self, row):
        return ""


if __name__ == "__main__":
    collect([Sleep(1), Sleep(2)], HERE, [], workers=2, fresh=True, live=False)
"""


def alive(pid: int) -> bool:
    """Tell whether a process runs; one that nobody waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("program", ["pool", "jobs", "jobs of a fork server"])
def test_workers_end_when_their_parent_is_killed(tmp_path, program):
    script = tmp_path / "program.py"
    text = PROGRAM if program == "pool" else PROGRAM.split("if __name__")[0] + JOBS
    if "server" in program:
        text = text.replace("    collect(", "    runner.START = 'forkserver'\n    collect(")
    script.write_text(text, encoding="utf-8")
    parent = subprocess.Popen([sys.executable, script, tmp_path], env=dict(os.environ))
    files = [tmp_path / "1.pid", tmp_path / "2.pid"]
    try:
        deadline = time.monotonic() + 120
        while not all(file.exists() and file.stat().st_size for file in files):
            assert parent.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        workers = [int(file.read_text()) for file in files]
        assert all(map(alive, workers))
    finally:
        parent.kill()
        parent.wait()
    deadline = time.monotonic() + 5
    while any(map(alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = [pid for pid in workers if alive(pid)]
    for pid in left:
        os.kill(pid, 9)
    assert not left
