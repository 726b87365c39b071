"""Shared fixtures: small worlds and models that train in a second or two."""

from __future__ import annotations

import sys

import pytest
import torch
from hypothesis import settings

import mechtrace as mt

torch.set_num_threads(1)  # two test workers share two cores

# the same cases on every run: who looks for new ones takes --hypothesis-profile=random
settings.register_profile("random")
settings.register_profile("same", derandomize=True)
settings.load_profile("same")

#: Without the alignment, which takes most of such a fit.
SMALL = {
    "lags": 2, "hidden": 16, "steps": 240, "batch": 12, "lr": 1e-2, "evaluations": 4,
    "align": False,
}  # fmt: skip


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    """Escape names that are not UTF-8 in captured output, which pytest-xdist cannot send."""
    report = yield
    report.sections = [
        (title, text.encode("utf-8", "backslashreplace").decode())
        for title, text in report.sections
    ]
    return report


@pytest.fixture(autouse=True)
def close_figures():
    """Leave no figure to the next test, which may count them."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(scope="session")
def world():
    return mt.worlds.make("paper", regimes=3, latents=4, channels=6, length=20)


@pytest.fixture(scope="session")
def panel(world):
    return world.simulate(12).panel


@pytest.fixture
def small():
    return {"latents": 4, **SMALL}


@pytest.fixture(scope="session")
def trained(panel):
    return mt.Trace(latents=4, **SMALL | {"align": True}).fit(panel, progress=False)


@pytest.fixture
def command(monkeypatch, capsys):
    """Call the command line in this process; returns exit code, stdout and stderr."""
    from mechtrace.cli.main import main

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["mechtrace", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def check_draws_into():
    """Check that a plotting function draws into the axes it is given, and nowhere else."""
    import numpy as np
    from matplotlib import pyplot
    from matplotlib.figure import Figure

    def check(draw):
        figure = Figure(figsize=(16, 6), layout="constrained")
        left, right = figure.subplots(1, 2)
        axes = np.ravel(draw(left))
        figure.draw_without_rendering()
        assert not pyplot.get_fignums()
        assert not right.has_data()
        assert all(ax.figure is figure for ax in axes)
        assert axes[0] is left or (len(axes) > 1 and not left.axison)

    return check
