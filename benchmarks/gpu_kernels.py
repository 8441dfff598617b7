"""What `benchmarks.gpu` holds the engine against: exponentials, and the paper's algorithm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

__all__ = ["exponentials", "plain_em"]

_EACH = 64


def exponentials(values: torch.Tensor) -> tuple[int, Callable[[], None]]:
    """How many exponentials a call computes, and the call."""
    import triton

    from benchmarks.gpu_triton import repeated_exponential

    size, block = len(values) // 8, 1024
    out = torch.empty(size, dtype=torch.float32, device=values.device)

    def work() -> None:
        repeated_exponential[(triton.cdiv(size, block),)](values, out, size, B=block, EACH=_EACH)

    return size * _EACH, work


def plain_em(arrays: dict[str, Any], n_items: int, device: str) -> int:
    """Pólya-Gamma EM as the paper states it, dense steps replaced by scatters; iterations."""
    first, second = (torch.tensor(arrays[x].astype("int64"), device=device) for x in ("first", "second"))
    y, n = (torch.tensor(arrays[x], dtype=torch.float64, device=device) for x in ("outcome", "weight"))
    held = torch.tensor(arrays["offsets"], device=device).diff()
    worker = torch.repeat_interleave(torch.arange(len(held), device=device), held)
    r = torch.zeros(n_items, dtype=torch.float64, device=device)
    beta = torch.full((len(held),), 0.8, dtype=torch.float64, device=device)
    total, before = n.sum(), None
    for iteration in range(1, 2_001):
        eta = beta[worker] * (r[first] - r[second])
        small = eta.abs() < 1e-6
        safe = torch.where(small, 1.0, eta)
        omega = n * torch.where(small, 0.25, torch.tanh(safe / 2) / (2 * safe))
        ridge = 1e-2 * omega.sum() / total
        for _ in range(10):
            weight, pull = omega * beta[worker] ** 2, n * (y - 0.5) * beta[worker]
            rhs = torch.zeros_like(r).index_add_(0, first, pull).index_add_(0, second, -pull)
            r = _solve(first, second, weight, ridge, rhs, r)
            r = r - r.mean()
            d = r[first] - r[second]
            top = torch.zeros_like(beta).index_add_(0, worker, n * (y - 0.5) * d)
            beta = top / (torch.zeros_like(beta).index_add_(0, worker, omega * d * d) + 1.0)
        size = r.square().mean().sqrt()
        r, beta = r / size, beta * size
        eta = beta[worker] * (r[first] - r[second])
        log = torch.nn.functional.logsigmoid
        value = float((n * (y * log(eta) + (1 - y) * log(-eta))).sum() / total)
        if before is not None and abs(value - before) <= 1e-6:
            return iteration
        before = value
    return iteration


def _solve(
    first: torch.Tensor,
    second: torch.Tensor,
    weight: torch.Tensor,
    ridge: torch.Tensor,
    rhs: torch.Tensor,
    x: torch.Tensor,
) -> torch.Tensor:
    """Conjugate gradients on the Laplacian, to 1e-6."""

    def product(v: torch.Tensor) -> torch.Tensor:
        flow = weight * (v[first] - v[second])
        return torch.zeros_like(v).index_add_(0, first, flow).index_add_(0, second, -flow) + ridge * v

    residual = rhs - product(x)
    direction, square = residual.clone(), residual @ residual
    goal = 1e-12 * float(rhs @ rhs)
    for _ in range(500):
        if float(square) <= goal:
            break
        image = product(direction)
        length = square / (direction @ image)
        x, residual = x + length * direction, residual - length * image
        following = residual @ residual
        direction, square = residual + following / square * direction, following
    return x
