"""One thread inside the block, as many as before outside."""

from __future__ import annotations

import subprocess
import sys

# In a process of its own: another test may have loaded a package that brings its own copy of
# the linear algebra (OpenCV does) after the libraries of numpy and scipy were looked up.
PROGRAM = """
from threadpoolctl import threadpool_info
from mechtrace.blas import one_blas_thread

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
KEEPING = """
import torch
from threadpoolctl import threadpool_info
from mechtrace.blas import keep_to_threads, one_blas_thread

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


def test_linear_algebra_keeps_to_one_thread_inside():
    _run(PROGRAM)


def test_a_process_keeps_to_its_threads():
    _run(KEEPING)


def _run(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
