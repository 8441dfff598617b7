"""The six sweeps over simulated crowds: more workers, comparisons or items, with two ranges of β."""

import math
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from crowdsift.lab.simulation import Simulation
from crowdsift.models import model
from crowdsift.numeric import Vector
from crowdsift.numeric.conjugate_gradient import conjugate_gradient
from crowdsift.numeric.likelihoods import sigmoid
from crowdsift.paper.base import DEFAULT, EIGHT, METRICS, Experiment, Page, Record, Setting, fitted, judged
from crowdsift.paper.figures import Figure, Panel, mean_line
from crowdsift.paper.output import beside, figure_link, markdown_table
from crowdsift.paper.summary import (
    MISSING,
    Cell,
    Key,
    Published,
    Standing,
    cells,
    like_published,
    mean_rows,
    seeds_text,
    standing,
)

# A name among the methods of an experiment; it is not in `crowdsift.models.MODELS`.
ORACLE = "oracle"

_SCORE_VARIANCE = 3.0  # variance of scores that are uniform on [-3, 3], as in simulations
_ORACLE_STEPS = 50
_NEAR = 2.0  # standard errors
_COMPARED = (
    "In brackets the published figure and ours minus it; ‡ marks more than two standard errors of that difference, "
    "ours and theirs taken together. As in the paper, figures of methods that model workers are up to the sign of all"
    " scores; those of bt, rank-centrality and barp are as returned. The largest figure of a row (for β in [-1,1] up "
    "to sign for all) is bold. The oracle knows the true β of every worker and the variance of the scores, so it is "
    "the limit for all. The means of accuracy over all settings:\n"
)
_WHY = (
    "By chance alone about 6 % of differences are beyond two standard errors, since both are estimated from ten "
    "seeds. Settings are not independent: with the same seed all points of a sweep over workers or comparisons have "
    "the same true scores, in both ranges of β, so one draw shows in several rows. With β in [-1,1] and few votes, "
    "bora-em ends in one of two kinds of optimum: a good one, or one with an accuracy near ½ and a smaller "
    "likelihood. The mean then depends on how many seeds end in which, and a normal error does not describe it. In "
    "the same settings bt, rank-centrality and barp have an arbitrary sign. The published figures of the other "
    "likelihood methods are an early stop of Adam without a penalty; ours are the optimum with a penalty of .01, "
    "which differs most if votes are few.\n"
)

# Fixed and varying numbers, as in the paper: items, workers, comparisons of every point.
SWEEPS: dict[str, tuple[tuple[int, int, int], ...]] = {
    "workers": tuple(
        (200, workers, 25_000) for workers in (500, 1000, 2000, 3000, 4000, 5000, 5500, 6000, 8000, 10_000)
    ),
    "comparisons": tuple(
        (100, 500, comparisons)
        for comparisons in (*(2000, 2500, 3000, 3500, 4000, 4500, 5000), *(10_000, 25_000, 50_000, 100_000))
    ),
    "items": tuple((items, 1000, 20_000) for items in (50, 100, 250, 500, 1000, 2000, 2250, 2500)),
}
# The ranges of the reliability.
RANGES: dict[str, tuple[float, float]] = {"[-1,1]": (-1.0, 1.0), "[0,1]": (0.0, 1.0)}

_NAMES = ("beta", "sweep", "items", "workers", "comparisons")
_VARIED = {"items": 0, "workers": 1, "comparisons": 2}


class Synthetic(Experiment):
    """Accuracy as the crowd grows; the truth is known."""

    name = "synthetic"
    title = "Simulated crowds"

    def settings(self) -> list[Setting]:
        """Return settings seed by seed, so that an interrupted run has seen every point."""
        return [
            {"beta": beta, "sweep": sweep, "items": items, "workers": workers, "comparisons": comparisons, "seed": seed}
            for seed in self.seeds
            for sweep in SWEEPS
            for beta in RANGES
            for items, workers, comparisons in self.points(sweep)
        ]

    def points(self, sweep: str) -> tuple[tuple[int, int, int], ...]:
        """Return the points of a sweep; a quick run has three, up to the middle."""
        points = SWEEPS[sweep]
        if self.options.quick:
            return points[0], points[len(points) // 4], points[len(points) // 2]
        return points

    def methods(self, setting: Setting) -> tuple[str, ...]:
        """Return all methods, and the oracle that knows every reliability."""
        return (*EIGHT, DEFAULT, ORACLE)

    def cost(self, setting: Setting) -> float:
        """Return seconds, roughly: the items' linear algebra, the workers, the votes."""
        return float(0.5 + setting["items"] / 200 + setting["workers"] / 800 + setting["comparisons"] / 4e4)

    def run(self, setting: Setting, methods: Sequence[str]) -> list[Record]:
        from crowdsift.lab.simulation import simulate

        drawn = simulate(
            setting["items"],
            setting["workers"],
            setting["comparisons"],
            reliability=RANGES[setting["beta"]],
            seed=setting["seed"],
        )
        votes = drawn.comparisons()
        records = []
        for name in methods:
            if name == ORACLE:
                started = time.perf_counter()
                scores = oracle_scores(drawn)
                seconds = time.perf_counter() - started
                records.append(judged(setting, name, scores, drawn.scores, seconds, ""))
                continue
            fit, note = fitted(votes, model(name))
            scores = fit.scores_of(drawn.items)
            seconds = float(fit.summary["seconds"])
            records.append(judged(setting, name, scores, drawn.scores, seconds, note))
        return records

    def page(self, records: list[Record]) -> Page:
        found = cells(records)
        published = Published("synthetic", _NAMES, self.options.data)
        parts = [seeds_text(found), _agreement(found, published)]
        for metric in METRICS:
            parts.append(figure_link(f"synthetic-{metric}", f"{metric}, six sweeps"))
        for sweep in SWEEPS:
            for beta in RANGES:
                chosen = {k: v for k, v in found.items() if k[:2] == (beta, sweep)}
                if chosen:
                    parts += [_heading(beta, sweep), _table(sweep, chosen, published)]
        return Page(
            "\n".join(parts),
            [_figure(metric, found) for metric in METRICS],
            {"means": mean_rows(found, _NAMES, published.figure)},
        )

    def standings(self, records: list[Record]) -> dict[str, Standing]:
        found = cells(records)
        return {
            f"β in {beta}": standing({k: v for k, v in found.items() if k[0] == beta}, judged_by) for beta in RANGES
        }


def judged_by(key: Key, metric: str = "accuracy") -> str:
    """Return the name of the figure to compare: up to sign if half the workers are adversaries."""
    return metric if RANGES[key[0]][0] >= 0 else f"{metric}_up_to_sign"


def _agreement(found: dict[Key, dict[str, Cell]], published: Published) -> str:
    """Return how often the published mean is within two standard errors, by method."""
    if not published.there:
        return MISSING
    rows = []
    for method in EIGHT:
        known = [(key, cell[method]) for key, cell in found.items() if method in cell]
        distances = [published.distance(key, method, cell) for key, cell in known]
        distances = [z for z in distances if not math.isnan(z)]
        gaps = [_gap(key, method, cell, published) for key, cell in known]
        if not distances:
            continue
        near = sum(abs(z) <= _NEAR for z in distances)
        typical = math.sqrt(math.fsum(z * z for z in distances) / len(distances))
        mean = math.fsum(gaps) / len(gaps)
        within = [f"{near} of {len(distances)}", f"{near / len(distances):.0%}"]
        rows.append([method, *within, f"{typical:.1f}", f"{mean:+.4f}"])
    head = ["method", "within", "share", "root mean square distance, s.e.", "mean difference"]
    return "\n".join([_COMPARED, markdown_table(head, rows), _far(found, published), _WHY])


def _gap(key: Key, method: str, cell: Cell, published: Published) -> float:
    return cell.mean(like_published(method, "accuracy")) - (published.mean(key, method) or math.nan)


def _far(found: dict[Key, dict[str, Cell]], published: Published) -> str:
    """Return where bora-em is farther from the published mean, and whether other methods are as well."""
    lines, alike = [], 0
    for key, methods in found.items():
        cell = methods.get("bora-em", Cell({}))
        distance = published.distance(key, "bora-em", cell)
        if not abs(distance) > _NEAR:
            continue
        gap, others = _gap(key, "bora-em", cell, published), _other_gap(key, methods, published)
        alike += gap * others > 0
        seeds = cell.values["accuracy_up_to_sign"]
        lost = sum(value < 0.6 for value in seeds)
        note = f"; {lost} of its {len(seeds)} seeds are below .6" if lost else ""
        lines.append(
            f"- β in {key[0]}, {key[2 + _VARIED[key[1]]]:,} {key[1]}: {gap:+.4f}, {distance:+.1f} standard errors; the "
            f"other methods {others:+.4f} (median){note}"
        )
    if not lines:
        return ""
    return (
        "bora-em is farther away in:\n\n" + "\n".join(lines) + f"\n\nIn {alike} of these "
        f"{len(lines)} settings the other methods differ from their published figures in the same "
        "direction: what differs there is the crowds that were drawn, more than the method.\n"
    )


def _other_gap(key: Key, methods: dict[str, Cell], published: Published) -> float:
    """Return the median difference of the other methods; with β in [-1, 1], of those whose sign is chosen."""
    turned = judged_by(key) != "accuracy"
    gaps = [
        _gap(key, name, cell, published)
        for name, cell in methods.items()
        if name not in ("bora-em", DEFAULT) and (not turned or like_published(name, "accuracy") != "accuracy")
    ]
    gaps = sorted(gap for gap in gaps if not math.isnan(gap))
    middle = len(gaps) // 2
    return math.nan if not gaps else (gaps[middle] + gaps[-1 - middle]) / 2


def _heading(beta: str, sweep: str) -> str:
    fixed = [n for n in ("items", "workers", "comparisons") if n != sweep]
    sizes = dict(zip(("items", "workers", "comparisons"), SWEEPS[sweep][0], strict=True))
    held = " and ".join(f"{sizes[name]:,} {name}" for name in fixed)
    return f"### β in {beta}, varying {sweep} ({held})\n"


def _table(sweep: str, found: dict[Key, dict[str, Cell]], published: Published) -> str:
    methods = [DEFAULT, *reversed(EIGHT), ORACLE]
    rows = []
    for key, cell in found.items():
        means = {m: cell[m].mean(judged_by(key)) for m in methods if m in cell}
        top = max((mean for m, mean in means.items() if m != ORACLE), default=math.nan)
        row = [f"{key[2 + _VARIED[sweep]]:,}"]
        for method in methods:
            if method not in cell:
                row.append("")
                continue
            theirs = published.mean(key, method)
            distance = published.distance(key, method, cell[method])
            ours = cell[method].mean(like_published(method, "accuracy"))
            best = means[method] >= top and method != ORACLE
            row.append(beside(ours, theirs, abs(distance) > _NEAR, best))
        rows.append(row)
    return markdown_table([sweep, *methods], rows, texts=0)


def _figure(metric: str, found: dict[Key, dict[str, Cell]]) -> Figure:
    panels = []
    for beta in RANGES:
        for sweep in SWEEPS:
            chosen = {k: v for k, v in found.items() if k[:2] == (beta, sweep)}
            lines = []
            for method in (ORACLE, *EIGHT, DEFAULT):
                points = [(k[2 + _VARIED[sweep]], c[method]) for k, c in chosen.items() if method in c]
                lines.append(mean_line(method, points, judged_by((beta,), metric)))
            title, up = f"β in {beta}", metric.replace("_", " ")
            panels.append(Panel(title, sweep, up, lines, logarithmic=True))
    return Figure(f"synthetic-{metric}", panels)


def oracle_scores(drawn: Simulation) -> Vector:
    """Return the most probable scores, given every worker's true β and the scores' variance."""
    # Newton's method maximises Σ log σ(±β_s (r_first - r_second)) - Σ r²/6, which is concave.
    count = len(drawn.scores)
    first, second = drawn.first.astype(np.intp), drawn.second.astype(np.intp)
    slope = drawn.reliability[drawn.worker]
    pairs, pair = np.unique(first * count + second, return_inverse=True)
    one, two = np.divmod(pairs, count)
    scores = np.zeros(count)
    for _ in range(_ORACLE_STEPS):
        chance = sigmoid(slope * (scores[first] - scores[second]))
        residual = slope * (drawn.outcome - chance)
        gradient = np.bincount(first, residual, count) - np.bincount(second, residual, count) - scores / _SCORE_VARIANCE
        weight = np.bincount(pair, slope**2 * chance * (1.0 - chance), len(pairs))
        step = _solved(one, two, np.asarray(weight, np.float64), gradient)
        scores += step
        if np.abs(step).max() < 1e-9:
            break
    return scores


def _solved(one: NDArray[np.intp], two: NDArray[np.intp], weight: Vector, rhs: Vector) -> Vector:
    """Solve the system whose matrix is the Laplacian of weighted pairs plus the prior."""
    count = len(rhs)

    def multiply(x: Vector) -> Vector:
        flow = weight * (x[one] - x[two])
        return np.bincount(one, flow, count) - np.bincount(two, flow, count) + x / _SCORE_VARIANCE

    ends = np.bincount(one, weight, count) + np.bincount(two, weight, count)
    diagonal = np.asarray(ends + 1.0 / _SCORE_VARIANCE, np.float64)
    return conjugate_gradient(multiply, rhs, diagonal, tolerance=1e-10).x
