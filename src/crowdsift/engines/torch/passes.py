"""Which code makes the passes over votes and types: Triton kernels on a GPU, else plain torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from crowdsift.engines.torch.device import uses_triton
from crowdsift.engines.torch.moments import TorchPasses

if TYPE_CHECKING:
    from torch import Tensor

    from crowdsift.engines.torch.moments import NewSites, SiteState
    from crowdsift.engines.torch.rows import SiteRows
    from crowdsift.engines.torch.types import TypeState

__all__ = ["Passes", "grid_passes"]


class Passes(Protocol):
    """Two sweeps over votes and types."""

    kernels: bool

    def messages(self, state: SiteState, marked: Tensor) -> tuple[Tensor, Tensor]:
        """Σ n·log Z of every worker and type, and Σ n·log Z̃ over the votes of marked workers."""

    def move(
        self, state: SiteState, q: Tensor, given: Tensor | None, marked: Tensor, damping: float,
        clip: bool,
    ) -> NewSites:  # fmt: skip
        """The sites of marked workers, `damping` of the way to those of the moments."""


def grid_passes(rows: SiteRows, types: TypeState, before_gold: int) -> Passes:
    """The passes over these rows; the first `before_gold` workers are not gold."""
    if uses_triton(rows.device):
        from crowdsift.engines.torch.triton_grid import TritonPasses

        return TritonPasses(rows, types, before_gold)
    return TorchPasses(rows, types, before_gold)
