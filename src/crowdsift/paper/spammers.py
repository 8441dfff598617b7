"""Spammers of five kinds added to real votes, from a few to nine times the workers."""

from collections.abc import Sequence

from crowdsift.lab.spam import KINDS
from crowdsift.paper.base import DEFAULT, EIGHT, METRICS, TITLES, Page, RealExperiment, Record, Setting
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

# The number of spammers, in percent of the workers.
PERCENTS = (10, 20, 40, 60, 80, 100, 150, 233, 400, 900)
_QUICK: dict[str, dict[str, tuple[int, ...]]] = {
    "passage": dict.fromkeys(KINDS, (20, 80, 233)),
    "faceage_subset": {"random": (40,), "combined": (40,)},
}
_SIZE = {"passage": 1.0, "faceage_subset": 9.0}
_NAMES = ("data", "kind", "percent")
_FAR = 0.01  # distance from the published figure, which has no standard error


class Spammers(RealExperiment):
    """Accuracy of the methods with growing numbers of spammers."""

    name = "spammers"
    title = "Spammers added to real votes"

    def settings(self) -> list[Setting]:
        """Return settings with the smaller data set first, seed by seed, few spammers first."""
        return [
            {"data": data, "kind": kind, "percent": percent, "seed": seed}
            for data in self.sets
            for seed in self.seeds
            for percent in PERCENTS
            for kind in KINDS
            if not self.options.quick or percent in _QUICK[data].get(kind, ())
        ]

    def cost(self, setting: Setting) -> float:
        return float(_SIZE[setting["data"]] * (1.0 + setting["percent"] / 100.0))

    def run(self, setting: Setting, methods: Sequence[str]) -> list[Record]:
        from crowdsift.lab.spam import add_spammers

        votes = self.data(setting["data"]).votes
        spammed = add_spammers(votes, setting["kind"], setting["percent"], setting["seed"])
        return [self.record(setting, spammed, name) for name in methods]

    def page(self, records: list[Record]) -> Page:
        found = cells(records)
        published = Published("spammers", ("dataset", "kind", "added_percent"), self.options.data)
        parts = [_INTRODUCTION if published.there else MISSING]
        figures = []
        for data in dict.fromkeys(key[0] for key in found):
            mine = {key: cell for key, cell in found.items() if key[0] == data}
            parts.append(f"{TITLES[data]}. {seeds_text(mine)}")
            for metric in METRICS:
                figure = _figure(data, metric, found)
                figures.append(figure)
                parts.append(figure_link(figure.name, f"{metric}, {TITLES[data]}"))
            for kind in KINDS:
                chosen = {k: v for k, v in found.items() if k[:2] == (data, kind)}
                if chosen:
                    parts += [f"### {TITLES[data]}, {kind}\n", _table(chosen, published)]
        return Page("\n".join(parts), figures, {"means": mean_rows(found, _NAMES, published.figure)})

    def standings(self, records: list[Record]) -> dict[str, Standing]:
        found = cells(records)
        result = {}
        for data in self.sets:
            chosen = {k: v for k, v in found.items() if k[0] == data}
            result[TITLES[data]] = standing(chosen)
            result[f"{TITLES[data]}, up to sign"] = standing(chosen, "accuracy_up_to_sign")
        return result


_INTRODUCTION = (
    "Mean accuracy; in brackets the published figure and ours minus it, ‡ where it is more than .01 away. As in the "
    "paper the figures of methods that model workers are up to the sign of all scores, those of bt, rank-centrality "
    "and barp as returned (both are in the CSV). The largest accuracy of a row is bold. The votes do not record sides: "
    "every pair gets one fixed random side, so that side spammers agree with each other. The paper's FaceAge is the "
    "full file, so its figures are not beside those of the subset.\n"
)


def _table(found: dict[Key, dict[str, Cell]], published: Published) -> str:
    methods = [DEFAULT, *reversed(EIGHT)]
    rows = []
    for key, known in found.items():
        means = {m: known[m].mean(like_published(m, "accuracy")) for m in methods if m in known}
        top = max(means.values())
        row = [f"{key[2]} %"]
        for method in methods:
            if method not in means:
                row.append("")
                continue
            theirs = published.mean(key, method)
            far = theirs is not None and abs(means[method] - theirs) > _FAR
            row.append(beside(means[method], theirs, far, means[method] >= top))
        rows.append(row)
    return markdown_table(["added", *methods], rows, texts=0)


def _figure(data: str, metric: str, found: dict[Key, dict[str, Cell]]) -> Figure:
    panels = []
    for kind in KINDS:
        chosen = {k: v for k, v in found.items() if k[:2] == (data, kind)}
        lines = []
        for method in (*EIGHT, DEFAULT):
            points = [(k[2], c[method]) for k, c in chosen.items() if method in c]
            lines.append(mean_line(method, points, like_published(method, metric)))
        up = metric.replace("_", " ")
        panels.append(Panel(kind, "spammers added, %", up, lines, logarithmic=True))
    return Figure(f"spammers-{data}-{metric}", panels)
