"""Files are complete or untouched; one thread inside the block, as many as before outside."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
import torch

from mechtrace._runtime import process
from mechtrace._runtime.process import atomic_path, output_file, torch_threads
from mechtrace._runtime.progress import JsonLines
from mechtrace.errors import DataError

# In a process of its own: another test may have loaded a package that brings its own copy of
# the linear algebra (OpenCV does) after the libraries of numpy and scipy were looked up.
PROGRAM = """
from threadpoolctl import threadpool_info
from mechtrace._runtime.process import one_blas_thread

def threads():
    return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]

with one_blas_thread():  # loads what it is to limit
    pass
before = threads()
assert before, "no library found"
with one_blas_thread():
    assert set(threads()) == {1}, threads()
assert threads() == before, (threads(), before)
"""
OVERLAPPING = """
from threadpoolctl import threadpool_info, threadpool_limits
from mechtrace._runtime.process import one_blas_thread

def threads():
    return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}

import scipy.linalg
threadpool_limits(2, user_api="blas")
first, second = one_blas_thread(), one_blas_thread()
first.__enter__()
second.__enter__()
first.__exit__(None, None, None)
assert threads() == {1}, "one block is still being run"
second.__exit__(None, None, None)
assert threads() == {2}, threads()
"""
KEEPING = """
import torch
from threadpoolctl import threadpool_info
from mechtrace._runtime.process import keep_to_threads, one_blas_thread

def threads():
    return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}

torch.set_num_threads(3)
keep_to_threads(2)
assert threads() == {2} and torch.get_num_threads() == 2, (threads(), torch.get_num_threads())
with one_blas_thread():
    pass
assert threads() == {2}, threads()
torch.set_num_threads(1)
keep_to_threads(2)
assert torch.get_num_threads() == 1, "it limits, it does not raise"
"""
TWO_THREADS = """
import threading, torch
from mechtrace._runtime.process import torch_threads

torch.set_num_threads(3)
inside, leave, found = threading.Event(), threading.Event(), []

def first():
    with torch_threads(1):
        inside.set()
        leave.wait()
        found.append(torch.get_num_threads())
    found.append(torch.get_num_threads())

def second():
    inside.wait()
    with torch_threads(1):
        leave.set()
        one.join()
        found.append(torch.get_num_threads())
    found.append(torch.get_num_threads())

one, two = threading.Thread(target=first), threading.Thread(target=second)
one.start(); two.start(); one.join(); two.join()
new = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
new.start(); new.join()
assert found == [1, 3, 1, 3, 3], found
assert torch.get_num_threads() == 3
"""


def listing(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


@pytest.mark.parametrize("old", [None, "old"])
def test_success_replaces(tmp_path: Path, old: str | None) -> None:
    path = tmp_path / "model.csv.gz"
    if old:
        path.write_text(old)
    with atomic_path(str(path)) as temporary:
        assert temporary.parent == path.parent  # the same disk, so that the swap is atomic
        assert temporary.suffixes[-2:] == [".csv", ".gz"]
        assert temporary != path
        temporary.write_text("new")
        assert path.read_text() == old if old else not path.exists()
    assert path.read_text() == "new"
    assert listing(tmp_path) == ["model.csv.gz"]


@pytest.mark.parametrize("old", [None, "old"])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("started", [True, False])
def test_an_exception_leaves_the_old_file_and_no_litter(
    tmp_path: Path, old: str | None, error: type[BaseException], started: bool
) -> None:
    path = tmp_path / "model.bin"
    if old:
        path.write_text(old)

    def write() -> None:
        with atomic_path(path) as temporary:
            if started:
                temporary.write_text("half")
            raise error

    with pytest.raises(error):
        write()
    assert listing(tmp_path) == (["model.bin"] if old else [])
    if old:
        assert path.read_text() == old


def test_two_writers_do_not_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with atomic_path(path) as one, atomic_path(path) as two:
        assert one != two
        one.write_text("outer")
        two.write_text("inner")
    assert path.read_text() == "outer"
    assert listing(tmp_path) == ["a.txt"]


def test_bad_places_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    reached: list[Path] = []

    def write(path: Path) -> None:
        with atomic_path(path) as temporary:
            reached.append(temporary)

    with pytest.raises(DataError, match="the folder does not exist; choose a file") as caught:
        write(tmp_path / "none" / "a.txt")
    assert str(tmp_path / "none" / "a.txt") in str(caught.value)
    with pytest.raises(DataError, match="this is a folder"):
        write(tmp_path)
    file = tmp_path / "plain"
    file.write_text("x")
    with pytest.raises(DataError, match="the folder does not exist"):
        write(file / "a.txt")
    assert reached == []
    assert listing(tmp_path) == ["plain"]


def test_writing_nothing_is_an_error_and_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(FileNotFoundError), atomic_path(path):
        pass
    assert path.read_text() == "old"
    assert listing(tmp_path) == ["a.txt"]


def test_linear_algebra_keeps_to_one_thread_inside():
    _run(PROGRAM)


def test_overlapping_blocks_restore_the_threads_of_before():
    _run(OVERLAPPING)


def test_recovery_leaves_the_allocator_of_the_process_alone(trained, world, monkeypatch):
    asked = []
    monkeypatch.setattr(process, "_glibc", lambda: asked.append(True))
    trained.recover(world.transition("simple", series=2).panel)
    assert not asked


def test_only_large_steps_get_several_threads(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(16)), raising=False)
    assert process.training_threads(1e8) == 1
    assert process.training_threads(1e12) == process.MOST_THREADS
    monkeypatch.setattr(process, "_most_threads", 2)  # as keep_to_threads sets it
    assert process.training_threads(1e12) == 2


def _with_threads(count, work):
    with torch_threads(count):
        assert torch.get_num_threads() == count
        work()
        assert torch.get_num_threads() == count


@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
def test_torch_has_its_threads_back_after_the_block(error):
    def fail():
        if error:
            raise error

    before = torch.get_num_threads()
    with pytest.raises(error) if error else nullcontext():
        _with_threads(2, lambda: _with_threads(3, lambda: _with_threads(2, fail)))
    assert torch.get_num_threads() == before


def test_torch_has_its_threads_back_after_blocks_in_two_python_threads():
    """The second begins while the first is inside, and starts with its number, not the usual."""
    _run(TWO_THREADS)


def test_the_last_of_two_fits_gives_the_allocator_back(monkeypatch):
    asked = []

    class Libc:
        def mallopt(self, option, value):
            asked.append((option, value))

        def malloc_trim(self, pad):
            asked.append("trim")

    monkeypatch.setattr(process, "_glibc", Libc)
    first, second = process.keeping_freed_memory(), process.keeping_freed_memory()
    first.__enter__()
    begun = list(asked)
    assert begun
    second.__enter__()
    first.__exit__(None, None, None)
    assert asked == begun, "one block is still being run"
    second.__exit__(None, None, None)
    assert asked[len(begun) :] == [*process._DEFAULTS.items(), "trim"]


def test_a_process_keeps_to_its_threads():
    _run(KEEPING)


def _run(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


WRITER = """
import os, signal, sys, time
from mechtrace._runtime.process import atomic_path

with atomic_path(sys.argv[1]) as temporary:
    temporary.write_text("half")
    print("written", flush=True)
    time.sleep(600)
"""


def write(path: Path, text: str = "new") -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(text)


@contextmanager
def writer(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that is writing a file."""
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as found:
        try:
            assert found.stdout is not None
            assert found.stdout.readline() == "written\n"
            yield found
        finally:
            found.kill()


@pytest.mark.parametrize("name", ["alpha.csv", "a" * 250 + ".csv", "ü" * 120 + ".csv.gz"])
def test_what_a_killed_writer_leaves_is_removed_by_the_next(tmp_path: Path, name: str) -> None:
    path, other = tmp_path / name, tmp_path / f"other-{name[-8:]}"
    with writer(path) as killed:
        (left,) = listing(tmp_path)
        assert left.startswith(".mechtrace-tmp.")
        assert left.endswith(name[-8:])
        write(other)
        write(path)  # the first is still at work
        assert left in listing(tmp_path)
        killed.kill()
    write(other)  # not its own
    assert left in listing(tmp_path)
    write(path)
    assert listing(tmp_path) == sorted([name, other.name])


def test_only_files_of_dead_processes_of_this_machine_are_removed(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    machine = process._machine()
    elsewhere = f"{int(machine, 16) ^ 1:06x}"
    foreign = [
        f".mechtrace-tmp.{dead.pid}-{elsewhere}-01234567.a.csv",
        f".mechtrace-tmp.{os.getpid()}-{machine}-01234567.a.csv",
        f".mechtrace-tmp.{dead.pid}-{machine}-01234567.b.csv",
        f".mechtrace-tmp.{dead.pid}-{machine}-mine.a.csv",
        f".mechtrace-tmp.1{'0' * 30}-{machine}-01234567.a.csv",
        ".01234567.a.csv",
    ]
    stale = f".mechtrace-tmp.{dead.pid}-{machine}-01234567.a.csv"
    for name in [*foreign, stale]:
        (tmp_path / name).write_text("")
    write(tmp_path / "a.csv")
    assert listing(tmp_path) == sorted([*foreign, "a.csv"])


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_a_replaced_file_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a.csv"
    path.write_text("old")
    path.chmod(mode)
    with atomic_path(path) as temporary:
        temporary.write_text("new")
        assert temporary.stat().st_mode & 0o077 == 0
    assert path.stat().st_mode & 0o777 == mode
    assert path.read_text() == "new"


def test_a_new_file_has_the_mode_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write(tmp_path / "a.csv")
    finally:
        os.umask(before)
    assert (tmp_path / "a.csv").stat().st_mode & 0o777 == 0o640


def test_a_symbolic_link_stays_one_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    path, file = tmp_path / "a.csv", tmp_path / "far" / "b.csv"
    file.write_text("old")
    (tmp_path / "between").symlink_to(Path("far") / "b.csv")
    path.symlink_to("between")
    write(path)
    assert path.is_symlink()
    assert file.read_text() == "new"
    assert listing(file.parent) == ["b.csv"]


def test_links_to_nowhere_pipes_and_devices_are_refused(tmp_path: Path) -> None:
    (tmp_path / "nowhere").symlink_to(tmp_path / "none")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    os.mkfifo(tmp_path / "pipe")
    before = listing(tmp_path)
    for name in ("nowhere", "loop"):
        with pytest.raises(DataError, match=f"{name}: this symbolic link leads to no file; "):
            write(tmp_path / name)
    refused = "this is a pipe or a device; choose an "
    with pytest.raises(DataError, match=f"pipe: {refused}"):
        write(tmp_path / "pipe")
    with pytest.raises(DataError, match=f"pipe: {refused}"):
        JsonLines(tmp_path / "pipe")
    assert listing(tmp_path) == before
    # only asked: a superuser's bug would replace the device
    for device in ("/dev/null", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
        with pytest.raises(DataError, match=f"{device}: {refused}"):
            output_file(Path(device))
