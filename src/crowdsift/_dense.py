"""Dense matrices of symmetric positive definite systems."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

__all__ = ["inverse_of"]

_BLOCK = 64


def inverse_of(matrix: Matrix) -> tuple[Matrix, float]:
    """The inverse of a positive definite matrix, and the logarithm of its determinant.

    By its Cholesky factor C: C⁻ᵀC⁻¹ takes half the time of an inverse that knows no symmetry.

    Raises
    ------
    numpy.linalg.LinAlgError
        Where the matrix is not positive definite.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift._dense import inverse_of
    >>> inverse, log_determinant = inverse_of(np.diag([2.0, 4.0]))
    >>> np.diag(inverse).round(4).tolist(), round(log_determinant, 4)
    ([0.5, 0.25], 2.0794)
    """
    factor = np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)
    root = _inverse_of_lower(factor)
    inverse: Matrix = root.T @ root
    return inverse, 2.0 * float(np.log(np.diag(factor)).sum())


def _inverse_of_lower(factor: Matrix) -> Matrix:
    """Of [[A, 0], [B, D]]: [[A⁻¹, 0], [-D⁻¹BA⁻¹, D⁻¹]], by halves."""
    n = len(factor)
    if n <= _BLOCK:
        return np.asarray(np.linalg.inv(factor), dtype=np.float64)
    half = n // 2
    out = np.zeros_like(factor)
    out[:half, :half] = _inverse_of_lower(factor[:half, :half])
    out[half:, half:] = _inverse_of_lower(factor[half:, half:])
    out[half:, :half] = -out[half:, half:] @ (factor[half:, :half] @ out[:half, :half])
    return out
