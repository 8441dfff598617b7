"""The table of real data sets: every method on Passage and FaceAge, against their truth."""

from collections.abc import Sequence

from crowdsift.paper.base import DEFAULT, EIGHT, METRICS, TITLES, Page, RealExperiment, Record, Setting
from crowdsift.paper.output import beside, markdown_table, notes, share
from crowdsift.paper.summary import Published, Standing, cells, mean_rows, standing

_NAMES = ("data", "penalty")
_FAR = 0.01  # distance from the published figure, which has no standard error


class Real(RealExperiment):
    """Accuracy, weighted accuracy, τ and seconds of all methods."""

    name = "real"
    title = "Real votes"
    seeded = False
    tunable = True
    by_method = True
    more = ("faceage",)

    def settings(self) -> list[Setting]:
        ways = ("default", "left-out") if self.options.tune else ("default",)
        return [{"data": name, "penalty": way} for name in self.sets for way in ways]

    def methods(self, setting: Setting) -> tuple[str, ...]:
        """Return all methods; our default has no penalty to choose."""
        return (*EIGHT, DEFAULT) if setting["penalty"] == "default" else EIGHT

    def cost(self, setting: Setting) -> float:
        """Return the cost: the larger set takes longer, and tuning tries many penalties."""
        size = {"passage": 1.0, "faceage_subset": 10.0, "faceage": 40.0}[setting["data"]]
        return size * (1.0 if setting["penalty"] == "default" else 30.0)

    def run(self, setting: Setting, methods: Sequence[str]) -> list[Record]:
        votes = self.data(setting["data"]).votes
        tune = setting["penalty"] == "left-out"
        return [self.record(setting, votes, name, tune) for name in methods]

    def page(self, records: list[Record]) -> Page:
        found = cells(records)
        published = Published("real", ("dataset",), self.options.data)
        run = {(*r["setting"].values(), r["method"]): r for r in records}
        parts = [_INTRODUCTION]
        for (data, penalty), methods in found.items():
            rows = []
            top = max(cell.mean("accuracy") for cell in methods.values())
            for method, cell in methods.items():
                row = [method]
                for metric in METRICS:
                    theirs = published.mean((data,), method, metric)
                    far = theirs is not None and abs(cell.mean(metric) - theirs) > _FAR
                    best = metric == "accuracy" and cell.mean(metric) >= top
                    row.append(beside(cell.mean(metric), theirs, far, best))
                row.append(share(cell.mean("accuracy_up_to_sign")))
                row.append(share(cell.mean("kendall_tau_up_to_sign")))
                rows.append([*row, f"{run[data, penalty, method]['seconds']:.2f}"])
            given = {method: run[data, penalty, method]["note"] for method in methods}
            parts += [f"### {_title(data, penalty)}\n", markdown_table(_HEAD, rows), notes(given)]
        tables = {"means": mean_rows(found, _NAMES, lambda k, m, n: published.figure(k[:1], m, n))}
        return Page("\n".join(parts), [], tables)

    def standings(self, records: list[Record]) -> dict[str, Standing]:
        found = cells(records)
        result = {}
        for key in found:
            if key[1] == "default":
                result[_title(*key)] = standing({key: found[key]})
            else:
                both = {**found[key], DEFAULT: found[key[0], "default"][DEFAULT]}
                result[_title(*key)] = standing({key: both})
        return result


_INTRODUCTION = (
    "In brackets the published figure and ours minus it; ‡ where the accuracy, weighted accuracy or τ is more than .01 "
    "away. The paper's FaceAge is the full file of 250,249 votes; the subset of 48,627 has a fifth of them. Its "
    "figures are lower for every method, so the published ones are not shown. ± is up to the sign of all scores. "
    "Seconds of one thread. Both sets do not record sides, so factor-bt runs without them.\n"
)
_HEAD = ["method", "accuracy", "weighted accuracy", "τ", "accuracy ±", "τ ±", "seconds"]


def _title(data: str, penalty: str) -> str:
    return TITLES[data] + ("" if penalty == "default" else ", penalties chosen by left-out votes")
