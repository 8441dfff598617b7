import numpy as np
from numpy.typing import NDArray

_U32 = NDArray[np.uint32]
_I64 = NDArray[np.int64]
_F32 = NDArray[np.float32]
_F64 = NDArray[np.float64]

def find_fault(
    first: _U32,
    second: _U32,
    worker: _U32 | None,
    outcome: _F32 | None,
    weight: _F32 | None,
    n_items: int,
    n_workers: int,
) -> tuple[int, int]: ...
def collapse(
    first: _U32,
    second: _U32,
    worker: _U32 | None,
    outcome: _F32 | None,
    weight: _F32 | None,
    context: _U32 | None,
    n_items: int,
    n_workers: int,
    oriented: bool,
    threads: int,
) -> tuple[_U32, _U32, _F32, _F32, _U32, _U32, _I64]: ...
def pool_pairs(
    first: _U32, second: _U32, outcome: _F32, weight: _F32, n_items: int
) -> tuple[_U32, _U32, _F32, _F32]: ...
def components(first: _U32, second: _U32, n_items: int) -> _U32: ...

class Core:
    def __init__(
        self,
        first: _U32,
        second: _U32,
        outcome: _F32,
        weight: _F32,
        offsets: _I64,
        features: _F32 | None,
        n_items: int,
        threads: int,
    ) -> None: ...
    @property
    def n_pairs(self) -> int: ...
    def expect(self, scores: _F64, slopes: _F64) -> tuple[float, float]: ...
    def item_system(self, slopes: _F64) -> _F64: ...
    def regress_workers(self, scores: _F64, ridge: float) -> tuple[_F64, _F64]: ...
    def score_derivatives(self, scores: _F64, slopes: _F64) -> tuple[float, _F64]: ...
    def slope_information(self, scores: _F64, slopes: _F64) -> _F64: ...
    def agreement(self, scores: _F64) -> tuple[_F64, _F64]: ...
    def derivatives(
        self, likelihood: str, scores: _F64, theta: _F64
    ) -> tuple[float, _F64, _F64, _F64, _F64]: ...
    def fit_workers(
        self,
        likelihood: str,
        scores: _F64,
        theta: _F64,
        centre: _F64,
        penalty: float,
        low: float,
        high: float,
    ) -> tuple[_F64, int]: ...
    def couple(self, v: _F64) -> _F64: ...
    def spread(self, u: _F64) -> _F64: ...
    def reduced(self, v: _F64, inverse: _F64) -> _F64: ...
    def item_curvature(self) -> None: ...
    def margin_flow(self, x: _F64, prior: float) -> _F64: ...
    def multiply(self, x: _F64, shift: float) -> _F64: ...
    def diagonal(self) -> _F64: ...
    def weighted_pairs(self) -> tuple[_U32, _U32, _F32]: ...
    def solve(
        self, rhs: _F64, start: _F64, shift: float, tolerance: float, most: int
    ) -> tuple[_F64, int, float, bool]: ...
