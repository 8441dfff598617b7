"""The six sweeps over simulated crowds: more workers, comparisons or items, β in two ranges."""

from __future__ import annotations

import math
from collections.abc import Sequence

from crowdsift.experiments.base import (
    DEFAULT,
    EIGHT,
    METRICS,
    Experiment,
    Page,
    Record,
    Setting,
    fitted,
    judged,
)
from crowdsift.experiments.figures import Figure, Line, Panel
from crowdsift.experiments.published import MISSING, Published
from crowdsift.experiments.summary import (
    Cell,
    Key,
    Standing,
    cells,
    like_published,
    mean_rows,
    standing,
)
from crowdsift.experiments.text import beside, figure_link, markdown_table
from crowdsift.models import model

__all__ = ["RANGES", "SWEEPS", "Synthetic", "distinct_settings", "judged_by"]

WHY = ""

#: What is held and what varies, as in the paper: items, workers, comparisons of every point.
SWEEPS: dict[str, tuple[tuple[int, int, int], ...]] = {
    "workers": tuple(
        (200, workers, 25_000)
        for workers in (500, 1000, 2000, 3000, 4000, 5000, 5500, 6000, 8000, 10_000)
    ),
    "comparisons": tuple(
        (100, 500, comparisons)
        for comparisons in (
            *(2000, 2500, 3000, 3500, 4000, 4500, 5000),
            *(10_000, 25_000, 50_000, 100_000),
        )
    ),
    "items": tuple((items, 1000, 20_000) for items in (50, 100, 250, 500, 1000, 2000, 2250, 2500)),
}
#: The ranges of the reliability.
RANGES: dict[str, tuple[float, float]] = {"[-1,1]": (-1.0, 1.0), "[0,1]": (0.0, 1.0)}

_NAMES = ("beta", "sweep", "items", "workers", "comparisons")
_VARIED = {"items": 0, "workers": 1, "comparisons": 2}


def distinct_settings() -> list[tuple[str, int, int, int]]:
    """Range of reliabilities, items, workers and comparisons of every point, sorted.

    Examples
    --------
    >>> from crowdsift.experiments.synthetic import distinct_settings
    >>> len(distinct_settings())
    58
    """
    points = {point for sweep in SWEEPS.values() for point in sweep}
    return sorted((beta, *point) for beta in RANGES for point in points)


class Synthetic(Experiment):
    """Accuracy as the crowd grows; the truth is known."""

    name = "synthetic"
    title = "Simulated crowds"

    def settings(self) -> list[Setting]:
        """Seed by seed, so that a run that is cut short has seen every point."""
        return [
            {
                "beta": beta,
                "sweep": sweep,
                "items": items,
                "workers": workers,
                "comparisons": comparisons,
                "seed": seed,
            }
            for seed in self.seeds
            for sweep in SWEEPS
            for beta in RANGES
            for items, workers, comparisons in self.points(sweep)
        ]

    def points(self, sweep: str) -> tuple[tuple[int, int, int], ...]:
        """The points of a sweep; of a quick run the ends and the middle."""
        points = SWEEPS[sweep]
        return (points[0], points[len(points) // 2], points[-1]) if self.options.quick else points

    def cost(self, setting: Setting) -> float:
        """Seconds, roughly: the items' linear algebra, the workers, the votes."""
        return float(
            0.5 + setting["items"] / 200 + setting["workers"] / 800 + setting["comparisons"] / 4e4
        )

    def run(self, setting: Setting, methods: Sequence[str]) -> list[Record]:
        """Methods on one simulated crowd."""
        from crowdsift.simulation import simulate

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
            fit, note = fitted(votes, model(name))
            scores = fit.scores_of(drawn.items)
            seconds = float(fit.summary["seconds"])
            records.append(judged(setting, name, scores, drawn.scores, seconds, note))
        return records

    def page(self, records: list[Record]) -> Page:
        """Our means beside the published ones, sweep by sweep."""
        found = cells(records)
        published = Published("synthetic", _NAMES, self.options.data)
        parts = [_agreement(found, published)]
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
        """Each range of reliabilities by itself."""
        found = cells(records)
        return {
            f"β in {beta}": standing({k: v for k, v in found.items() if k[0] == beta}, judged_by)
            for beta in RANGES
        }


def judged_by(key: Key, metric: str = "accuracy") -> str:
    """Up to sign for all methods where half the workers are adversaries, else as returned."""
    return metric if RANGES[key[0]][0] >= 0 else f"{metric}_up_to_sign"


def _agreement(found: dict[Key, dict[str, Cell]], published: Published) -> str:
    """How often the published mean is within two standard errors, method by method."""
    if not published.there:
        return MISSING
    rows, far = [], []
    for method in EIGHT:
        near = total = 0
        gaps = []
        for key, methods in found.items():
            if method not in methods:
                continue
            distance = published.distance(key, method, methods[method])
            if math.isnan(distance):
                continue
            total += 1
            near += abs(distance) <= 2
            ours = methods[method].mean(like_published(method, "accuracy"))
            gaps.append(ours - (published.mean(key, method) or math.nan))
            if method == "bora-em" and abs(distance) > 2:
                far.append(f"β {key[0]}, {_place(key)} ({gaps[-1]:+.4f}, {distance:+.1f} s.e.)")
        if total:
            mean = f"{sum(gaps) / total:+.4f}"
            rows.append([method, f"{near} of {total}", f"{near / total:.0%}", mean])
    text = (
        "Mean accuracy within two standard errors of the published mean (ours and theirs taken "
        "together); the difference is ours minus theirs.\n\n"
    )
    text += markdown_table(["method", "within", "share", "mean difference"], rows)
    if far:
        text += f"\nbora-em is farther away at: {'; '.join(far)}.\n"
    return text + "\n" + WHY


def _place(key: Key) -> str:
    _, sweep, *sizes = key
    return f"{sizes[_VARIED[sweep]]:,} {sweep}"


def _heading(beta: str, sweep: str) -> str:
    fixed = [n for n in ("items", "workers", "comparisons") if n != sweep]
    sizes = dict(zip(("items", "workers", "comparisons"), SWEEPS[sweep][0], strict=True))
    held = " and ".join(f"{sizes[name]:,} {name}" for name in fixed)
    return f"### β in {beta}, varying {sweep} ({held})\n"


def _table(sweep: str, found: dict[Key, dict[str, Cell]], published: Published) -> str:
    methods = [DEFAULT, *reversed(EIGHT)]
    rows = []
    for key, cell in found.items():
        means = {m: cell[m].mean(judged_by(key)) for m in methods if m in cell}
        top = max(means.values(), default=math.nan)
        row = [f"{key[2 + _VARIED[sweep]]:,}"]
        for method in methods:
            if method not in cell:
                row.append("")
                continue
            theirs = published.mean(key, method)
            distance = published.distance(key, method, cell[method])
            ours = cell[method].mean(like_published(method, "accuracy"))
            best = means[method] >= top
            row.append(beside(ours, theirs, abs(distance) > 2, best))
        rows.append(row)
    return markdown_table([sweep, *methods], rows, texts=0)


def _figure(metric: str, found: dict[Key, dict[str, Cell]]) -> Figure:
    panels = []
    for beta in RANGES:
        for sweep in SWEEPS:
            chosen = {k: v for k, v in found.items() if k[:2] == (beta, sweep)}
            lines = []
            for method in (*EIGHT, DEFAULT):
                points = [(k, c[method]) for k, c in chosen.items() if method in c]
                figures = [(c, judged_by(k, metric)) for k, c in points]
                lines.append(
                    Line(
                        method,
                        [k[2 + _VARIED[sweep]] for k, _ in points],
                        [c.mean(name) for c, name in figures],
                        [c.sd(name) if c.seeds > 1 else 0.0 for c, name in figures],
                    )
                )
            title, up = f"β in {beta}", metric.replace("_", " ")
            panels.append(Panel(title, sweep, up, lines, logarithmic=True))
    return Figure(f"synthetic-{metric}", panels)
