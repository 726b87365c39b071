"""Shared fixtures: small worlds and models that train in a second or two."""

from __future__ import annotations

import sys

import pytest
import torch

import mechtrace as mt

torch.set_num_threads(1)  # two test workers share two cores

SMALL = {"hidden": 16, "steps": 240, "batch": 12, "lr": 1e-2, "evaluations": 4}


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
    return mt.Trace(latents=4, **SMALL).fit(panel, progress=False)


@pytest.fixture
def command(monkeypatch, capsys):
    """Call the command line in this process; returns exit code, stdout and stderr."""
    from mechtrace.cli import main

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
