"""Many small matrices against numpy."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mechtrace.linalg import batched


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 7), st.integers(1, 5) | st.just(batched.FEW + 1))
def test_inverses_and_products_equal_numpy(seed, m, many):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((many, m, m))
    a = root @ root.swapaxes(1, 2) + 0.1 * np.eye(m)
    before = a.copy()
    found, factors = batched.inverse(a.transpose(1, 2, 0))
    log_det = batched.log_determinant(factors)
    np.testing.assert_array_equal(a, before)  # the input is left alone
    np.testing.assert_allclose(found.transpose(2, 0, 1), np.linalg.inv(a), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(log_det, np.linalg.slogdet(a)[1], rtol=1e-9, atol=1e-9)
    b, x = rng.standard_normal((many, m, 3)), rng.standard_normal((many, m))
    product = batched.product(a.transpose(1, 2, 0), b.transpose(1, 2, 0))
    np.testing.assert_allclose(product.transpose(2, 0, 1), a @ b, rtol=1e-10, atol=1e-10)
    applied = batched.apply(a.transpose(1, 2, 0), x.T)
    np.testing.assert_allclose(applied.T, (a @ x[..., None])[..., 0], rtol=1e-10, atol=1e-10)
