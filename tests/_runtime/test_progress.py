"""Progress: throttled lines, a live bar on a terminal, JSON logs, the right reporter."""

from __future__ import annotations

import importlib.util
import io
import json
import logging
import re
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from mechtrace._runtime import progress
from mechtrace._runtime.progress import (
    JsonLines,
    Listener,
    LiveBar,
    PlainLines,
    TensorBoard,
    duration,
    handling,
    reporter,
    stages,
    watched,
)
from mechtrace.errors import MissingDependency
from mechtrace.stage1.trainer import Progress
from mechtrace_lab.jobs.progress_display import ProgressDisplay


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def report(step: int, elbo: float | None = -3.21, **other: Any) -> Progress:
    values: dict[str, Any] = {
        "step": step,
        "steps": 100,
        "loss": 1.2345,
        "elbo": elbo,
        "best_elbo": elbo,
        "lr": 1e-3,
        "transitions_per_second": 12345.6,
        "seconds": 3.0,
        "seconds_left": 75.0,
        "evaluated": True,
    }
    return Progress(**(values | other))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that stands still unless it is moved."""
    now = SimpleNamespace(at=1000.0)
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now.at))
    return now


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of known kind and width, whatever the machine says."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")


# --- plain lines -------------------------------------------------------------------------------


def test_plain_lines_show_the_figures(clock: SimpleNamespace) -> None:
    stream = io.StringIO()
    with PlainLines(stream) as listener:
        listener(report(20))
    assert stream.getvalue() == (
        "step 20/100  loss 1.234  held-out ELBO -3.210  12,346 transitions/s  1:15 left\n"
    )


def test_plain_lines_without_an_evaluation(clock: SimpleNamespace) -> None:
    stream = io.StringIO()
    PlainLines(stream)(report(20, elbo=None))
    assert "ELBO" not in stream.getvalue()
    assert "loss 1.234  12,346 transitions/s" in stream.getvalue()


def test_plain_lines_are_throttled_but_the_last_is_always_written(clock: SimpleNamespace) -> None:
    stream = io.StringIO()
    listener = PlainLines(stream, seconds=5.0)
    for step in range(1, 101):
        clock.at += 0.1
        listener(report(step))
    steps = [int(x) for x in re.findall(r"step (\d+)/100", stream.getvalue())]
    assert steps[0] == 1
    assert steps[-1] == 100
    assert len(steps) == 3
    assert 50 <= steps[1] <= 52


def test_plain_lines_come_again_when_it_is_time(clock: SimpleNamespace) -> None:
    stream = io.StringIO()
    listener = PlainLines(stream, seconds=5.0)
    for wait in (0.0, 4.9, 0.2, 4.9, 0.2):
        clock.at += wait
        listener(report(1))
    assert stream.getvalue().count("\n") == 3


# --- a live bar --------------------------------------------------------------------------------


@pytest.mark.usefixtures("wide")
def test_live_bar_shows_the_figures() -> None:
    stream = Terminal()
    with LiveBar(stream) as listener:
        listener(report(10, elbo=None))
        listener(report(60))
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    last = text.rstrip("\n").rsplit("\r", 1)[-1]
    assert "60/100" in last
    assert "loss 1.234" in last
    assert "held-out ELBO -3.210" in last
    assert "12,346 transitions/s" in last
    assert "1:15 left" in last
    assert stream.getvalue().rstrip("\n").endswith("\x1b[?25h")  # the cursor is given back


@pytest.mark.usefixtures("wide")
def test_live_bar_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    stream = Terminal()
    with LiveBar(stream) as listener:
        listener(report(1400, steps=3500))
    assert "1400/3500" in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())


@pytest.mark.usefixtures("wide")
def test_live_bar_without_progress_leaves_no_trace() -> None:
    stream = Terminal()
    with LiveBar(stream):
        pass
    assert stream.getvalue() == ""


@pytest.mark.usefixtures("wide")
def test_live_bar_gives_the_terminal_back_after_an_error() -> None:
    stream = Terminal()

    def run() -> None:
        with LiveBar(stream) as listener:
            listener(report(10))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    assert "\x1b[?25h" in stream.getvalue()


@pytest.mark.usefixtures("wide")
def test_every_bar_looks_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    def last_state(stream: Terminal) -> str:
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
        return [line for line in re.split(r"[\r\n]", plain) if line.strip()][-1]

    fit, items, jobs = Terminal(), Terminal(), Terminal()
    with LiveBar(fit) as listener:
        listener(report(100))
    monkeypatch.setattr(sys, "stderr", items)
    assert list(watched(["a", "b"], "diagnosing")) == ["a", "b"]
    monkeypatch.setattr(sys, "stderr", jobs)
    watch, work = ProgressDisplay(), Mock(kind="hmm", seed=3)
    watch.begin(1, [work])
    watch.started(work)
    watch.training(work, report(100))
    watch.close()
    for stream, what in (
        (fit, "fit 100/100"),
        (items, "diagnosing 2/2"),
        (jobs, "hmm seed 3 100/100"),
    ):
        assert re.sub(" +", " ", last_state(stream)).strip().startswith(f"{what} ━"), what


def test_long_work_is_reported_in_a_pipe_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert list(watched(["a", "b"], "recovering")) == ["a", "b"]
    assert capsys.readouterr().err == ""  # it was quick
    now = iter(range(0, 1000, 4))
    monkeypatch.setattr("mechtrace._runtime.progress.time.monotonic", lambda: next(now))
    assert list(watched([1, 2, 3, 4], "recovering", False, [10, 20, 30, 40])) == [1, 2, 3, 4]
    assert capsys.readouterr().err == "recovering 30/100  19 s left\n"
    assert list(watched([1, 2, 3, 4], "recovering", True)) == [1, 2, 3, 4]
    assert capsys.readouterr().err == ""


def test_reporter_chooses_by_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(reporter(Terminal()), LiveBar)
    assert isinstance(reporter(io.StringIO()), PlainLines)
    errors = io.StringIO()
    monkeypatch.setattr(sys, "stderr", errors)
    listener = reporter()
    listener(report(100))
    assert errors.getvalue().startswith("step 100/100")
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert isinstance(reporter(), LiveBar)


# --- what is logged ----------------------------------------------------------------------------


def test_stages_of_a_fit_are_lines_on_stderr_only_while_they_are_wanted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logger = logging.getLogger("mechtrace.identifiability")
    with stages(shown=True):
        logger.debug("looking for axes")
        logger.info("a result")  # that is not for whoever watches a fit
        other = threading.Thread(target=logger.debug, args=("of another fit",))
        other.start()
        other.join()
    with stages(shown=False):
        logger.debug("not shown")
    logger.debug("afterwards")
    assert capsys.readouterr() == ("", "  looking for axes\n")


def test_overlapping_handlers_leave_the_level_of_the_user_alone() -> None:
    library = logging.getLogger("mechtrace")
    library.setLevel(logging.ERROR)
    try:
        first, second = handling(logging.Handler(10)), handling(logging.Handler(20))
        first.__enter__()
        second.__enter__()
        assert library.level == logging.DEBUG
        first.__exit__(None, None, None)
        assert library.isEnabledFor(logging.INFO)  # the second block goes on
        second.__exit__(None, None, None)
        assert library.level == logging.ERROR
        assert library.handlers == []
    finally:
        library.setLevel(logging.NOTSET)


# --- log files ---------------------------------------------------------------------------------


def test_json_lines_are_valid_and_appended(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with JsonLines(path) as listener:
        listener(report(1, elbo=None))
        assert json.loads(path.read_text()) == asdict(report(1, elbo=None))  # at once on disk
        listener(report(2))
    with JsonLines(str(path)) as listener:  # a resumed run
        listener(report(3))
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [
        asdict(report(1, elbo=None)),
        asdict(report(2)),
        asdict(report(3)),
    ]
    with pytest.raises(ValueError, match="closed"):
        listener(report(4))


@pytest.mark.skipif(
    importlib.util.find_spec("tensorboard") is not None, reason="tensorboard is installed"
)
def test_tensorboard_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(MissingDependency) as caught:
        TensorBoard(tmp_path / "logs")
    assert 'pip install "mechtrace[tensorboard]"' in str(caught.value)
    assert isinstance(caught.value, ImportError)
    assert list(tmp_path.iterdir()) == []


def test_tensorboard_writes_curves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    written: list[tuple[str, float, int]] = []
    closed: list[bool] = []
    folders: list[str] = []

    class SummaryWriter:
        def __init__(self, folder: str) -> None:
            folders.append(folder)

        def add_scalar(self, name: str, value: float, step: int) -> None:
            written.append((name, value, step))

        def close(self) -> None:
            closed.append(True)

    fake = SimpleNamespace(SummaryWriter=SummaryWriter)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", fake)
    with TensorBoard(tmp_path) as listener:
        listener(report(1, elbo=None))
        listener(report(2))
        listener(report(3, evaluated=False))
    assert folders == [str(tmp_path)]
    assert [(name, step) for name, _, step in written] == [
        ("loss", 1), ("lr", 1), ("loss", 2), ("lr", 2), ("held_out_elbo", 2), ("loss", 3),
        ("lr", 3),
    ]  # fmt: skip
    assert ("held_out_elbo", -3.21, 2) in written
    assert closed == [True]


def test_a_plain_listener_does_nothing() -> None:
    with Listener() as listener:
        assert listener(report(1)) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"), (3.2, "3 s"), (59, "59 s"), (60, "1:00"), (75, "1:15"), (599.6, "10:00"),
        (3599, "59:59"), (3599.6, "1:00:00"), (3661, "1:01:01"), (90_000, "25:00:00"),
        (59.7, "1:00"),
    ],
)  # fmt: skip
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
