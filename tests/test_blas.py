"""One thread inside the block, as many as before outside."""

from __future__ import annotations

from threadpoolctl import threadpool_info

from mechtrace.blas import one_blas_thread


def threads() -> list[int]:
    return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]


def test_linear_algebra_keeps_to_one_thread_inside():
    with one_blas_thread():  # loads what it is to limit
        pass
    before = threads()
    assert before
    with one_blas_thread():
        assert set(threads()) == {1}
    assert threads() == before
