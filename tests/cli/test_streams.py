"""Streams that are closed, full or read by nobody; names that would act on a terminal."""

from __future__ import annotations

import errno
import io
import os
import shutil
import signal
import subprocess
import sys
import warnings

import pytest

from mechtrace._runtime import terminal
from mechtrace._runtime.progress import PlainLines, remark, reporter
from mechtrace.cli.main import _signals_as_ctrl_c
from mechtrace.errors import DataError, DataWarning, visible

PYTHON = f"'{sys.executable}' -m mechtrace"


@pytest.fixture(scope="module")
def model(trained, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.mechtrace"
    trained.save(path)
    return path


def shell(words, model, folder, **more):
    text = f"{PYTHON} {words.format(model=model)}"
    return subprocess.run(
        text, shell=True, capture_output=True, text=True, timeout=120, cwd=folder, **more
    )


CLOSED = {
    "info {model} 2>&-": (0, ""),
    "info {model} --json a.json >&-": (0, ""),
    "info {model} <&- >&- 2>&-": (0, ""),
    "info {model} --json - >&-": (2, "mechtrace: --json -: standard output is closed; name a f"),
    "info none 2>&-": (2, ""),
}


@pytest.mark.parametrize("words", CLOSED)
def test_closed_streams(model, tmp_path, words):
    code, said = CLOSED[words]
    done = shell(words, model, tmp_path)
    assert done.returncode == code
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == bool(said)
    if "a.json" in words:  # no message went into the file that took the number of stdout
        assert (tmp_path / "a.json").read_text().startswith('{\n "')


def test_a_warning_that_is_an_error_is_one_sentence(model, command, monkeypatch):
    def warn(path):
        warnings.warn("few rows.", DataWarning, stacklevel=2)

    monkeypatch.setattr("mechtrace.estimator.load", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        code, out, err = command("info", model)
    assert (code, out) == (2, "")
    assert err == "mechtrace: few rows; this is a warning that PYTHONWARNINGS makes an error.\n"


@pytest.mark.parametrize("words", ["info {model}", "info {model} --json -"])
def test_nobody_reads(model, tmp_path, words):
    reading, writing = os.pipe()
    os.close(reading)
    text = f"{PYTHON} {words.format(model=model)}"
    done = subprocess.run(
        text, shell=True, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=120
    )
    os.close(writing)
    assert "Traceback" not in done.stderr
    assert "rror" not in done.stderr
    assert done.returncode == (141 if "json" in words else 0)


class Full(io.StringIO):
    """A stream on a full disk, or on a terminal that is gone."""

    def __init__(self, number):
        super().__init__()
        self.number = number

    def write(self, text):
        raise OSError(self.number, os.strerror(self.number))


def test_messages_that_cannot_be_written_do_not_stop_work(monkeypatch):
    for number in (errno.EPIPE, errno.EIO, errno.ENOSPC):
        monkeypatch.setattr(sys, "stderr", Full(number))
        remark("said")
        failure = terminal.take_failure()
        assert (failure is None) == (number != errno.ENOSPC)
        lines = PlainLines(sys.stderr)
        lines._unsaid = _progress()
        lines.close()
    monkeypatch.setattr(sys, "stderr", None)
    remark("said")
    with reporter() as listener:
        listener(_progress())


def _progress():
    from mechtrace.stage1.trainer import Progress

    return Progress(
        step=1, steps=2, loss=1.0, elbo=None, best_elbo=None, lr=0.1, transitions_per_second=1.0,
        seconds=1.0, seconds_left=1.0, evaluated=False,
    )  # fmt: skip


def test_a_full_disk_is_said_after_the_work(model, tmp_path, command, monkeypatch):
    monkeypatch.setattr(sys, "stdout", Full(errno.ENOSPC))
    code, _, err = command("info", model, "--json", tmp_path / "a.json")
    assert code == 2
    assert err == f"mechtrace: {os.strerror(errno.ENOSPC)}; check disk space and permissions.\n"
    assert (tmp_path / "a.json").exists()


def test_text_does_nothing_to_a_terminal():
    name = "a\x1b[31m\x07\x9b\r\n\tü\udcff"
    assert visible(name) == "a\\x1b[31m\\x07\\x9b\\r\\n\\tü\\udcff"
    assert visible(name, lines=True) == "a\\x1b[31m\\x07\\x9b\\r\n\tü\\udcff"
    error = DataError("wrong", where=name, fix=f"rename {name}")
    assert str(error).isprintable()


def test_messages_and_errors_show_control_characters(model, world, tmp_path, command):
    folder = tmp_path / "a\x1b]0;title\x07b"
    folder.mkdir()
    panel = world.transition("simple", series=1, seed=1).panel
    panel.to_csv(folder / "n\x1b[2J.csv")
    code, out, err = command("recover", model, folder, "--out", folder / "alpha.npz")
    assert (code, err) == (0, "")
    assert "n\\x1b[2J.csv" in out
    assert "a\\x1b]0;title\\x07b" in out
    assert out.replace("\n", "").isprintable()
    code, out, err = command("recover", model, folder / "none\x1b", "--out", tmp_path / "a.csv")
    assert (code, out) == (2, "")
    assert "none\\x1b: there is no such file" in err


def test_what_an_encoding_lacks_is_written_as_an_escape(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    terminal.say("α and a")
    assert raw.getvalue() == b"\\u03b1 and a\n"


@pytest.mark.parametrize("place", ["file", "folder"])
def test_a_name_that_is_not_utf8_is_one_sentence(model, world, tmp_path, command, place):
    folder = tmp_path / (os.fsdecode(b"d\xff") if place == "folder" else "d")
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system takes only UTF-8")
    name = os.fsdecode(b"n\xff.csv") if place == "file" else "n.csv"
    world.transition("simple", series=1, seed=1).panel.to_csv(folder / name)
    out = tmp_path / "r.html"
    for data in (folder, folder / name):
        code, _, err = command("report", model, data, "--out", out)
        assert code == 2
        assert err.endswith(": the name is not UTF-8; rename the file, or its folder.\n")
        assert not out.exists()


def test_outputs_and_models_may_have_names_that_are_not_utf8(model, world, tmp_path, command):
    odd = os.fsdecode(b"\xff")
    shutil.copy(model, tmp_path / f"m{odd}")
    world.transition("simple", series=1, seed=1).panel.to_csv(tmp_path / "n.csv")
    page = tmp_path / f"{odd}.html"
    code, out, err = command("report", tmp_path / f"m{odd}", tmp_path / "n.csv", "--out", page)
    assert (code, err) == (0, "")
    assert "\\udcff.html: open it" in out
    assert "m\\udcff" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("ignored", [True, False])
def test_sighup_is_a_request_to_stop_except_after_nohup(ignored):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
    try:
        with _signals_as_ctrl_c():
            if ignored:
                os.kill(os.getpid(), signal.SIGHUP)
            else:
                with pytest.raises(KeyboardInterrupt):
                    os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == (signal.SIG_IGN if ignored else signal.SIG_DFL)
    finally:
        signal.signal(signal.SIGHUP, before)
