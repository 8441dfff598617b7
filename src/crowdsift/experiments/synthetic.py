"""The six sweeps over simulated crowds: more workers, comparisons or items, β in two ranges."""

from __future__ import annotations

from collections.abc import Sequence

from crowdsift.experiments.base import Experiment, Page, Record, Setting, fitted, judged
from crowdsift.models import model

__all__ = ["RANGES", "SWEEPS", "Synthetic", "distinct_settings"]

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
    "items": tuple(
        (items, 1000, 20_000) for items in (50, 100, 250, 500, 1000, 2000, 2250, 2500)
    ),
}
#: The ranges of the reliability.
RANGES: dict[str, tuple[float, float]] = {"[-1,1]": (-1.0, 1.0), "[0,1]": (0.0, 1.0)}

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
        """Our means beside the published ones."""
        from crowdsift.experiments.synthetic_page import page

        return page(self, records)
