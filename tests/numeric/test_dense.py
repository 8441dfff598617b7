"""Dense algebra against NumPy's own."""

from __future__ import annotations

import numpy as np
import pytest

from crowdsift.numeric.dense import inverse_of_root, inverse_root


@pytest.mark.parametrize("n", [1, 7, 64, 65, 200])
def test_the_inverse_of_a_laplacian(n):
    rng = np.random.default_rng(n)
    first, second = np.triu_indices(n, 1)
    kept = rng.random(len(first)) < 0.3
    first, second, weight = first[kept], second[kept], rng.gamma(1.0, size=kept.sum())
    incidence = np.zeros((len(first), n))
    incidence[np.arange(len(first)), first], incidence[np.arange(len(first)), second] = 1.0, -1.0
    expected = incidence.T @ (weight[:, None] * incidence) + np.eye(n)
    root, log_determinant = inverse_root(expected)
    np.testing.assert_allclose(root.T @ root @ expected, np.eye(n), atol=1e-10)
    np.testing.assert_allclose(inverse_of_root(root), root.T @ root, rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(inverse_root(np.tril(expected))[0], root)  # all that is read
    assert log_determinant == pytest.approx(np.linalg.slogdet(expected)[1])


def test_what_is_not_definite_is_refused():
    with pytest.raises(np.linalg.LinAlgError):
        inverse_root(np.diag([1.0, -1.0]))
