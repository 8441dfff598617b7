"""Factors and inverses of dense symmetric positive definite matrices."""

from contextlib import nullcontext
from itertools import pairwise

import numpy as np

from crowdsift.numeric import Vector
from crowdsift.numeric.threads import dense_algebra

Matrix = Vector

_BLOCK = 32  # most rows of a triangle that is inverted as a full matrix
_TRIANGLE = 64  # the same for products
_STRIP = 60  # least rows of a triangle that are multiplied at a time
_LARGE = 800


def inverse_root(matrix: Matrix) -> tuple[Matrix, float]:
    """Return R with RᵀR the inverse of a positive definite matrix, and the log of its determinant."""
    # R is the inverse of the Cholesky factor, lower triangular. With RᵀR it takes half the time of a general inverse,
    # and rows of noise times R are draws with the inverse as covariance. Only the lower triangle of the matrix is read.
    # Threads of BLAS wait for each other by spinning: they do not help for a small matrix, and are expensive if a core
    # is busy.
    with dense_algebra() if len(matrix) >= _LARGE else nullcontext():
        factor = np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)
        root = np.zeros_like(factor)
        _invert_lower(factor, root)
        return root, 2.0 * float(np.log(np.diag(factor)).sum())


def inverse_of_root(root: Matrix, out: Matrix | None = None) -> Matrix:
    """Return RᵀR for a lower triangular R, in two thirds of the time of a full product."""
    # The result is written into `out` if it is given.
    out = np.empty_like(root) if out is None else out
    with dense_algebra() if len(root) >= _LARGE else nullcontext():
        _multiply_lower(root, out)
    return out


def _multiply_lower(root: Matrix, out: Matrix) -> None:
    """Compute [[AᵀA + BᵀB, BᵀD], [DᵀB, DᵀD]] for [[A, 0], [B, D]], recursively by halves."""
    n = len(root)
    if n <= _TRIANGLE:
        np.matmul(root.T, root, out=out)
        return
    half = n // 2
    below, last = root[half:, :half], root[half:, half:]
    _multiply_lower(root[:half, :half], out[:half, :half])
    _multiply_lower(last, out[half:, half:])
    out[:half, :half] += below.T @ below
    np.matmul(last.T, below, out=out[half:, :half])
    out[:half, half:] = out[half:, :half].T


def _invert_lower(factor: Matrix, out: Matrix) -> None:
    """Compute [[A⁻¹, 0], [-D⁻¹BA⁻¹, D⁻¹]] for [[A, 0], [B, D]], recursively by halves, into zeros."""
    n = len(factor)
    if n <= _BLOCK:
        out[...] = np.linalg.inv(factor)
        return
    half = n // 2
    first, last = out[:half, :half], out[half:, half:]
    _invert_lower(factor[:half, :half], first)
    _invert_lower(factor[half:, half:], last)
    below, between = factor[half:, :half], np.empty((n - half, half))
    for begin, end in _strips(half):  # above the strip are zeros
        np.matmul(below[:, begin:], first[begin:, begin:end], out=between[:, begin:end])
    np.negative(between, out=between)
    for begin, end in _strips(n - half):  # to the right of the strip are zeros
        np.matmul(last[begin:end, :end], between[:end], out=out[half + begin : half + end, :half])


def _strips(n: int) -> list[tuple[int, int]]:
    """Return where to cut a triangular matrix of n rows into strips, so that products skip most of its zeros."""
    count = min(max(n // _STRIP, 1), 4)
    cuts = [n * k // count for k in range(count + 1)]
    return list(pairwise(cuts))
