"""Workers and their types on a device: points of the grid, messages, posteriors over types."""

from copy import copy
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from crowdsift.engines.grid import WorkerPriors, WorkerTypes
from crowdsift.engines.torch.triton_counts import CountRoom, TypeMatrices
from crowdsift.engines.torch.triton_types import Posterior, posterior, refined
from crowdsift.engines.torch.vectors import to_device
from crowdsift.numeric import Vector

# NARROW, SPAN and SLACK of `engines.dense`.
CONSTANTS = 1.0, 7.0, 0.15


def adaptive_levels(low: Tensor, high: Tensor, half: int) -> Tensor:
    """Return the levels between the ends, a row per worker."""
    place = torch.arange(half, dtype=torch.float64, device=low.device) / max(half - 1, 1)
    return low[:, None] + (high - low)[:, None] * place[None, :]


def interpolated(common: Tensor, priors: Tensor, own: Tensor) -> Tensor:
    """Return priors (workers x widths x types) on adaptive grids of workers; the mass at 0 stays."""
    half = len(common)
    density = priors / signed_widths(common)
    place, share = _places(common, own)
    widths = _gradient(own)[:, None, :]

    def at(side: Tensor) -> Tensor:
        shape = (*side.shape[:2], half)
        one = torch.gather(side, 2, place[:, None, :].expand(shape))
        two = torch.gather(side, 2, (place + 1)[:, None, :].expand(shape))
        return ((1.0 - share)[:, None, :] * one + share[:, None, :] * two) * widths

    up, down = at(density[:, :, half + 1 :]), at(density[:, :, :half].flip(2))
    return torch.cat([down.flip(2), priors[:, :, half : half + 1], up], dim=2)


def _neighbours(prior: Tensor, n_regular: int, size: int) -> tuple[Tensor, Tensor]:
    """Return the prior of the next type up and of the next type down, 0 beyond the ends of a grid."""
    grid = prior[:, :n_regular].reshape(len(prior), -1, size)
    none, rest = torch.zeros_like(grid[..., :1]), torch.zeros_like(prior[:, n_regular:])
    up, down = torch.cat([grid[..., 1:], none], dim=-1), torch.cat([none, grid[..., :-1]], dim=-1)
    return torch.cat([up.flatten(1), rest], dim=1), torch.cat([down.flatten(1), rest], dim=1)


def _gradient(x: Tensor) -> Tensor:
    """Return central differences along rows, one-sided at the ends."""
    if x.shape[-1] < 2:
        return torch.ones_like(x)
    inner = 0.5 * (x[..., 2:] - x[..., :-2])
    first, last = x[..., 1:2] - x[..., :1], x[..., -1:] - x[..., -2:-1]
    return torch.cat([first, inner, last], dim=-1)


def signed_widths(common: Tensor) -> Tensor:
    """Return widths of the cells of the signed grid."""
    return _gradient(torch.cat([-common.flip(0), torch.zeros_like(common[:1]), common]))


def _places(common: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    """Return the common level below each adaptive one, and the fraction of the distance to the next."""
    place = torch.searchsorted(common, own.contiguous(), right=True) - 1
    place = place.clamp(0, len(common) - 2)
    step = common[place + 1] - common[place]
    return place, ((own - common[place]) / step).clamp(0.0, 1.0)


_MAX_RECORDED_NUMBERS = 8_000_000  # most numbers of workers and types for which counts are recorded


class Points(NamedTuple):
    """Tie widths, side biases of side-only types, and which types are regular, one entry per type."""

    width: Tensor
    side_only: Tensor
    regular: Tensor


class TypeState:
    """The grid of types, ends of workers' adaptive grids (NaN: none), messages of the last pass.

    Tensors are replaced, never changed.
    """

    def __init__(
        self,
        shape: WorkerTypes,
        n_workers: int,
        n_gold: int,
        device: torch.device,
        rooms: dict[object, CountRoom] | None = None,
    ) -> None:
        self.shape, self._n, self.before_gold = shape, n_workers, n_workers - n_gold
        self._device = device
        self._levels: Vector | None = None
        self.levels: Tensor = torch.zeros(0, dtype=torch.float64, device=device)
        self.messages: Tensor = torch.zeros((0, 0), dtype=torch.float64, device=device)
        none = torch.full((n_workers,), torch.nan, dtype=torch.float64, device=device)
        self.low, self.high = none, none
        self._single: tuple[Tensor, tuple[Tensor, ...]] | None = None
        self._cells: tuple[Tensor, Tensor] | None = None
        self._tops: Tensor | None = None  # the largest message of every worker
        self._matrices: TypeMatrices | None = None
        self._rooms: dict[object, CountRoom] = {} if rooms is None else rooms

    def copy(self) -> Self:
        """Return a copy that shares tensors."""
        return copy(self)

    def suspend(self) -> None:
        self.set_messages(self.messages[:0])

    def set_levels(self, levels: Vector) -> None:
        """Set the common grid of a pass."""
        if self._levels is None or not np.array_equal(levels, self._levels):
            self._levels, self.levels = np.array(levels), self._numbers(levels)

    def set_ends(self, low: Tensor, high: Tensor) -> None:
        """Set the ends of the adaptive grids."""
        self.low, self.high, self._matrices = low, high, None

    def points(self) -> Points:
        """Return widths and side biases of the types."""
        widths, side_only, side_only_widths, _ = self.shape
        size = 2 * len(self.levels) + 1
        regular = np.arange(self.n_types()) < self.n_regular()
        columns = (
            np.concatenate([np.repeat(widths, size), side_only_widths]),
            np.concatenate([np.zeros(self.n_regular()), side_only]),
            regular.astype(np.float64),
        )
        return Points(*(self._numbers(column) for column in columns))

    def single_points(self) -> tuple[Tensor, ...]:
        """Return the inputs of kernels: levels, place of every type on the grid, widths, biases, regular types."""
        if self._single is None or self._single[0] is not self.levels:
            half, device = len(self.levels), self._device
            place = torch.arange(-half, half + 1, dtype=torch.int32, device=device)
            none = torch.zeros(len(self.shape.side_only), dtype=torch.int32, device=device)
            place = torch.cat([place.repeat(len(self.shape.widths)), none])
            columns = (x.to(torch.float32) for x in self.points())
            self._single = self.levels, (self.levels.to(torch.float32), place, *columns)
        return self._single[1]

    def n_types(self) -> int:
        return self.n_regular() + len(self.shape.side_only)

    def reliability_only(self) -> bool:
        """Return whether a type is a reliability and nothing else."""
        return len(self.shape.widths) == 1 and not len(self.shape.side_only)

    def positive_levels(self, workers: Tensor) -> Tensor:
        """Return the positive levels of some workers, one row each."""
        low, high = self.low.index_select(0, workers), self.high.index_select(0, workers)
        own = adaptive_levels(low, high, len(self.levels))
        return torch.where(torch.isfinite(low)[:, None], own, self.levels[None, :])

    def reliabilities(self, workers: Tensor) -> Tensor:
        """Return the signed grids of some workers, one row each."""
        up = self.positive_levels(workers)
        return torch.cat([-up.flip(1), torch.zeros_like(up[:, :1]), up], dim=1)

    def posterior(
        self, prior: Vector, own: WorkerPriors | None, among: Tensor | None = None, rows: slice = slice(None)
    ) -> tuple[Tensor, Tensor]:
        """Return the posterior q_s(t), and log Σ_t prior_t exp(message_st); `among` marks the types to include."""
        messages = self.messages[rows]
        priors = self._priors(prior, own, among, rows)
        top = torch.where(priors > 0.0, messages, -torch.inf).amax(dim=1, keepdim=True)
        joint = priors * torch.exp(torch.clamp(messages - top, max=0.0))
        total = joint.sum(dim=1, keepdim=True)
        return joint / total, (torch.log(total) + top)[:, 0]

    def common_posterior(self, family: Tensor | None, prior: Vector) -> Posterior:
        """Return the posterior of all workers under one prior; add `family` to their messages."""
        found = posterior(self, family, self._numbers(prior))
        self._tops = found.tops
        return found

    def tops(self) -> Tensor:
        """Return the largest message of every worker."""
        if self._tops is None:
            self._tops = self.messages.amax(dim=1)
        return self._tops

    def cells(self) -> Tensor:
        """Return widths of the cells of 0 and of the positive levels."""
        if self._cells is None or self._cells[0] is not self.levels:
            self._cells = self.levels, signed_widths(self.levels)[len(self.levels) :].contiguous()
        return self._cells[1]

    def set_messages(self, messages: Tensor) -> None:
        """Replace the messages, and clear everything computed from the previous ones."""
        self.messages, self._tops, self._matrices = messages, None, None

    def counts(self, prior: Vector, workers: Tensor, own: Tensor | None = None) -> Tensor:
        """Return the expected number of workers of each type among those marked 1; `own` has a prior per worker."""
        # Masses of adaptive grids go to their neighbours on the common grid: the prior is interpolated to a worker's
        # grid, which is linear, and so is the distribution of its posterior, up to a factor.
        if own is None:
            return self._held_matrices().counts(self._numbers(prior), workers)
        same, above, below = self._held_matrices().whole()
        up, down = _neighbours(own, self.n_regular(), self._size())
        joint = same * own + above * up + below * down
        total = joint.sum(dim=1)
        return joint.T @ torch.where(total > 0.0, workers / total, 0.0)

    def recorded_counts(self, prior: Vector, workers: Tensor) -> Vector | None:
        """Return the counts from a recorded graph; None if there are too many workers for one."""
        count, n_types = self.messages.shape
        if count * n_types > _MAX_RECORDED_NUMBERS:
            return None
        if self._kind() not in self._rooms:
            size, shape = self._size(), (count, n_types)
            self._rooms[self._kind()] = CountRoom(shape, self.n_regular(), size, workers)
            self._matrices = None
        return self._held_matrices().recorded_counts(prior)

    def _kind(self) -> object:
        return (self.n_types(), self.n_regular(), len(self.levels))

    def _held_matrices(self) -> TypeMatrices:
        if self._matrices is None:
            self._matrices = TypeMatrices(self, self.tops(), self._rooms.get(self._kind()))
        return self._matrices

    def refine(self) -> int:
        """Give workers with narrow likelihoods adaptive grids; return how many grids changed."""
        if len(self.levels) < 2:  # one level has no cell width to compare with
            return 0
        return int(refined(self, self.tops(), CONSTANTS))

    def gold_margin(self, marked: Tensor) -> float:
        """Return the log-odds that marked gold has the largest reliability, against the smallest."""
        if self.before_gold == self._n:
            return 0.0
        gold = self.messages[self.before_gold :][marked[self.before_gold :]]
        return float((gold[:, self._size() - 1] - gold[:, 0]).sum())

    def rescale(self, factor: float) -> None:
        """Multiply the adaptive grids by the factor."""
        self.set_ends(self.low * factor, self.high * factor)

    def _priors(self, prior: Vector, own: WorkerPriors | None, among: Tensor | None, rows: slice) -> Tensor:
        """Return the prior of some workers on their adaptive grids, one row each."""
        numbers = torch.arange(self._n, device=self._device)[rows]
        if own is None:
            priors = self._numbers(prior).expand(len(numbers), -1)
        else:
            masses = self._numbers(own.masses)
            gold = self._numbers(prior).expand(self._n - self.before_gold, -1)
            priors = torch.cat([masses, gold])[rows]
        if among is not None:
            priors = priors * among
        special = torch.isfinite(self.low[rows])
        gold_rows = numbers >= self.before_gold
        if not bool((special | gold_rows).any()):
            return priors
        priors = priors.clone()
        places = torch.nonzero(special)[:, 0]
        if len(places):
            regular = self.n_regular()
            part = priors.index_select(0, places)[:, :regular]
            part = part.reshape(len(places), -1, self._size())
            new = interpolated(self.levels, part, self.positive_levels(numbers[places]))
            priors[places, :regular] = new.reshape(len(places), -1)
        priors[gold_rows] = 0.0
        priors[gold_rows, self._size() - 1] = 1.0
        return priors

    def _size(self) -> int:
        return 2 * len(self.levels) + 1

    def n_regular(self) -> int:
        return len(self.shape.widths) * self._size()

    def _numbers(self, values: object) -> Tensor:
        return to_device(values, self._device)
