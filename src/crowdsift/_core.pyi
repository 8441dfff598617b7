import numpy as np
from numpy.typing import NDArray

_U32 = NDArray[np.uint32]
_I64 = NDArray[np.int64]
_F32 = NDArray[np.float32]
_F64 = NDArray[np.float64]
_Solved = tuple[_F64, int, float, bool]
_Priors = tuple[_F64, _F64, _F64] | None

def spill_to(folder: str) -> None: ...
def evict() -> int: ...
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
def tally(
    first: _U32,
    second: _U32,
    outcome: _F32,
    weight: _F32,
    offsets: _I64,
    rank: _U32,
    threads: int,
) -> tuple[_F64, _F64, _F64, NDArray[np.uint8]]: ...
def judged_by_one(first: _U32, second: _U32, offsets: _I64, n_items: int) -> NDArray[np.uint8]: ...

class Laplacian:
    def multiply(self, v: _F64, shift: float = 0.0) -> _F64: ...
    def diagonal(self) -> _F64: ...
    def pairs(self) -> tuple[_U32, _U32, _F64]: ...
    def solve(
        self, rhs: _F64, start: _F64, shift: float, tolerance: float, most: int
    ) -> _Solved: ...
    def solve_rows(
        self, rhs: _F32, start: _F32, shift: float, tolerance: float, most: int
    ) -> _F32: ...
    def pair_distances(self, rows: _F32) -> _F64: ...

class SlopeHessian:
    def multiply(self, v: _F64, shift: float = 0.0) -> _F64: ...
    def diagonal(self) -> _F64: ...
    def solve(
        self, rhs: _F64, start: _F64, shift: float, tolerance: float, most: int
    ) -> _Solved: ...

class EStep:
    def regress(self, scores: _F64, ridge: float) -> tuple[_F64, Laplacian, _F64]: ...

class Reduced:
    def multiply(self, v: _F64) -> _F64: ...
    def diagonal(self) -> _F64: ...
    def solve(
        self, rhs: _F64, start: _F64, shift: float, tolerance: float, most: int
    ) -> _Solved: ...

class Schur:
    def reduced(self, inverse: _F64) -> Reduced: ...
    def laplacian(self) -> Laplacian: ...

class Factoriser:
    def __init__(self, low: _U32, high: _U32, n_items: int, most: float) -> None: ...
    @property
    def possible(self) -> bool: ...
    @property
    def work(self) -> float: ...
    @property
    def refused(self) -> float: ...
    def __call__(self, weight: _F64) -> tuple[_F64, _F64, float, bool]: ...

class CovariatePasses:
    def __init__(
        self,
        starts: NDArray[np.int64],
        C: _F64,
        weight: _F64,
        side: _F64,
        tied: NDArray[np.uint8],
        threads: int,
    ) -> None: ...
    def messages(
        self,
        beta: _F64,
        width: _F64,
        only: _F64,
        regular: NDArray[np.uint8],
        m: _F64,
        v: _F64,
        gamma: _F64,
        wanted: NDArray[np.uint8],
    ) -> tuple[_F64, _F64, _F64]: ...
    def moments(
        self,
        beta: _F64,
        width: _F64,
        only: _F64,
        regular: NDArray[np.uint8],
        m: _F64,
        V: _F64,
        shift: _F64,
        q: _F64,
        least: float,
    ) -> tuple[_F64, _F64]: ...

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
    def tally(self, rank: _F64) -> tuple[_F64, _F64, _F64, _F64, _F64, _F64, _F64]: ...
    def margin_flow(self, x: _F64, prior: float) -> _F64: ...
    def log_likelihood(self, scores: _F64, slopes: _F64) -> float: ...
    def common_slope(
        self, scores: _F64, slope: float, resolution: float
    ) -> tuple[float, _F64, SlopeHessian]: ...
    def own_slopes(
        self,
        scores: _F64,
        start: _F64,
        mean: float,
        precision: float,
        last_step: float,
        resolution: float,
    ) -> tuple[float, _F64, _F64, _F64, SlopeHessian]: ...
    def curvature(self, scores: _F64, slopes: _F64) -> tuple[float, _F64, _F64, Laplacian]: ...
    def e_step(
        self, scores: _F64, slopes: _F64, resolution: float
    ) -> tuple[EStep, float, float, Laplacian, _F64]: ...
    def derivatives(
        self, likelihood: str, scores: _F64, theta: _F64
    ) -> tuple[float, _F64, _F64, _F64, Schur]: ...
    def fit_workers(
        self,
        likelihood: str,
        scores: _F64,
        theta: _F64,
        centre: _F64,
        penalty: float,
        low: float,
        high: float,
        tolerance: float,
    ) -> _F64: ...
    def sites(
        self,
        widths: list[float],
        side_only: list[float],
        side_only_widths: list[float],
        sides: bool,
        n_gold: int,
        variance: float,
    ) -> GridSites: ...
    def set_shared(self, low: _U32, high: _U32, owner: NDArray[np.bool_]) -> None: ...
    def correlate(self, centred: bool, v: _F64) -> _F64: ...
    def correlation_degrees(self, centred: bool) -> _F64: ...
    def update_dimensions(
        self, positions: _F64, covariance: _F64, mean: _F64, precision: _F64, log_shares: _F64,
        one_sided: float, gold: float, weights: _F64, second: _F64, width: _F64, n_gold: int,
        ties: bool, part: int,
    ) -> tuple[_F64, _F64, _F64, _F64, float, _F64, ItemBlocks]: ...  # fmt: skip
    def dimension_residuals(
        self, positions: _F64, weights: _F64, width: _F64, taken: _F64, n_gold: int, ties: bool,
        part: int,
    ) -> Residuals: ...  # fmt: skip
    def dimension_loss(
        self, positions: _F64, covariance: _F64, weights: _F64, second: _F64, width: _F64,
        n_gold: int, ties: bool, part: int,
    ) -> tuple[float, float]: ...  # fmt: skip
    def dimension_classes(
        self, positions: _F64, covariance: _F64, mean: _F64, precision: _F64, log_shares: _F64,
        one_sided: float, gold: float, weights: _F64, width: _F64, n_gold: int, ties: bool,
    ) -> _F64: ...  # fmt: skip
    def dimension_response(
        self, positions: _F64, covariance: _F64, mean: _F64, precision: _F64, log_shares: _F64,
        one_sided: float, gold: float, weights: _F64, shares: _F64, width: _F64, n_gold: int,
        ties: bool,
    ) -> _F64: ...  # fmt: skip

class ItemBlocks:
    def multiply(self, v: _F64) -> _F64: ...
    def diagonal(self) -> _F64: ...
    def pairs(self) -> tuple[_U32, _U32, _F64]: ...

class Residuals:
    def multiply(self, v: _F64) -> _F64: ...
    def diagonal(self) -> _F64: ...

class GridSites:
    @property
    def n_votes(self) -> int: ...
    @property
    def n_pairs(self) -> int: ...
    @property
    def pairs_held(self) -> int: ...
    def update(
        self,
        levels: _F64,
        prior: _F64,
        means: _F64,
        damping: float,
        clip: bool,
        side_mean: float,
        side_variance: float,
        own: _Priors = None,
        workers: NDArray[np.uint8] | None = None,
    ) -> tuple[_F64, float, float, float, _F64, _F64, _F64]: ...
    def type_counts(self, prior: _F64) -> _F64: ...
    def posteriors(
        self, prior: _F64, begin: int, end: int, own: _Priors = None
    ) -> tuple[_F64, _F64]: ...
    def marginals(
        self, prior: _F64, begin: int, end: int, chosen: int, own: _Priors = None
    ) -> tuple[_F64, _F64, _F64, _F64, _I64]: ...
    def quantiles(self, points: _F64, masses: _F64, levels: _F64, atom: _F64) -> _F64: ...
    def refine(self) -> int: ...
    def pair_sums(self) -> _F64: ...
    def system(self, shared: _F64, pair_effect: float = 0.0) -> tuple[Laplacian, _F64, float]: ...
    def pair_posteriors(self, means: _F64) -> tuple[_U32, _U32, _F64, _F64, float, float]: ...
    def set_pair_variances(
        self, variances: _F64 | None = None, shared: _F64 | None = None
    ) -> None: ...
    def propagate(
        self, precision: _F64, settled: _F64, fresh: bool, last: bool
    ) -> tuple[_F64, int, int, float, _F64, _F64]: ...
    def transform(self, scale: float, flip: bool, clip: bool, grids: bool) -> None: ...
    def copy(self) -> GridSites: ...
    def suspend(self) -> None: ...
    def vote_sites(
        self,
    ) -> tuple[_I64, _U32, _U32, NDArray[np.int8], _F32, _F32, _F32, _F32, _F64, _F64]: ...
    def set_vote_sites(
        self,
        tau: _F32,
        nu: _F32,
        side_tau: _F32,
        side_nu: _F32,
        low: _F64,
        high: _F64,
        half: int,
    ) -> None: ...
    def pair_likelihood(
        self,
        differences: _F64,
        variances: _F64,
        reliability: _F64,
        width: _F64,
        side: _F64,
        side_variance: _F64,
    ) -> float: ...
