"""Fixtures of the tests of inference."""

from __future__ import annotations

import pytest

from mechtrace.linalg import block_tridiagonal


@pytest.fixture(params=["step by step", "banded", "banded in pieces"])
def way(request, monkeypatch):
    """How chains are eliminated: many at a time, few, and few in pieces of three steps."""
    monkeypatch.setattr(block_tridiagonal, "MANY", 0 if request.param == "step by step" else 10**9)
    if request.param == "banded in pieces":
        monkeypatch.setattr(block_tridiagonal, "PIECE", 3)
        monkeypatch.setattr(block_tridiagonal, "BLOCK", 3)
