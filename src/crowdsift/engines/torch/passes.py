"""Which code makes the passes over votes and types: Triton kernels on a GPU, else plain torch."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

from crowdsift.engines.torch.moments import PlainPasses

if TYPE_CHECKING:
    from torch import Tensor

    from crowdsift.engines.torch.moments import Cavities, Moments
    from crowdsift.engines.torch.rows import SiteRows
    from crowdsift.engines.torch.types import TypeState

__all__ = ["Passes", "grid_passes", "has_triton"]


class Passes(Protocol):
    """Two sweeps over votes and types."""

    def parts(self) -> list[slice]:
        """The rows, some at a time."""

    def add_messages(self, part: slice, at: Cavities) -> None:
        """n·log Z of every row and type, to the row's worker."""

    def messages(self) -> Tensor:
        """Sums of all rows, a row a worker."""

    def moments(self, part: slice, at: Cavities, q: Tensor, given: Tensor | None) -> Moments:
        """Moments under the types' posterior; those of the side under `given`, of regular ones."""


def grid_passes(rows: SiteRows, types: TypeState) -> Passes:
    """The passes over these rows."""
    if rows.device.type == "cuda" and has_triton():
        from crowdsift.engines.torch.triton_grid import TritonPasses

        return TritonPasses(rows, types)
    return PlainPasses(rows, types)


@cache
def has_triton() -> bool:
    """Whether there is Triton, which compiles the kernels."""
    return find_spec("triton") is not None
