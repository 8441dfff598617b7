"""Effects of the methods' settings: starts, tolerance, priors, alternations."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from crowdsift.fitting import Fit
from crowdsift.models import model
from crowdsift.numeric import Vector
from crowdsift.paper.base import TITLES, Options, Page, RealExperiment, Record, Setting, fitted, judged
from crowdsift.paper.figures import Figure, Line, Panel
from crowdsift.paper.output import figure_link, markdown_table, share
from crowdsift.paper.summary import Cell, Key, cells

_SIGNED = tuple(tenth / 10 for tenth in range(-10, 11, 2))
_POSITIVE = tuple(tenth / 10 for tenth in range(0, 11, 2))
_TOLERANCES = tuple(10.0**-power for power in range(2, 11))

# The hyper-parameter that is varied, with its values, by method.
GRIDS: dict[str, dict[str, tuple[str, tuple[float, ...]]]] = {
    "start": {
        "bora-em": ("start_reliability", _SIGNED),
        "hbtl": ("start_reliability", _SIGNED),
        "htcv": ("start_reliability", _POSITIVE),
        "crowd-bt": ("start_reliability", _POSITIVE),
        "factor-bt": ("start_skill", _POSITIVE),
    },
    "tolerance": {
        "bora-em": ("tolerance", _TOLERANCES),
        "hbtl": ("tolerance", _TOLERANCES),
        "htcv": ("tolerance", _TOLERANCES[:5]),
        "sift": ("tolerance", _TOLERANCES[:6]),
    },
    "reliability_sd": {"bora-em": ("reliability_sd", (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0))},
    "item_ridge": {"bora-em": ("item_ridge", (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0))},
    "alternations": {"bora-em": ("alternations", (1, 2, 3, 5, 10, 20, 50))},
}
_WORDS = {
    "start": "Initial β (γ in factor-bt)",
    "tolerance": "Tolerance",
    "reliability_sd": "σ_β, the prior of reliabilities",
    "item_ridge": "λ_base, the ridge on scores",
    "alternations": "Alternations in an M-step",
}
_MIRRORED = ("bora-em", "hbtl")  # methods whose β may have either sign
_NAMES = ("data", "parameter", "value")


class Ablations(RealExperiment):
    """One hyper-parameter varied at a time, the others at their defaults."""

    name = "ablations"
    title = "Ablations"
    seeded = False
    by_method = True

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._defaults: dict[tuple[str, str], Vector] = {}

    def settings(self) -> list[Setting]:
        """Return every value of every parameter; a quick run has every second one, on Passage."""
        found: list[Setting] = []
        for data in self.sets[:1] if self.options.quick else self.sets:
            for parameter, methods in GRIDS.items():
                values = sorted({v for _, grid in methods.values() for v in grid})
                for value in values[::2] if self.options.quick else values:
                    found.append({"data": data, "parameter": parameter, "value": value})
        return found

    def methods(self, setting: Setting) -> tuple[str, ...]:
        methods = GRIDS[setting["parameter"]]
        return tuple(name for name, (_, grid) in methods.items() if setting["value"] in grid)

    def cost(self, setting: Setting) -> float:
        return len(self.methods(setting)) * (1.0 if setting["data"] == "passage" else 10.0)

    def run(self, setting: Setting, methods: Sequence[str]) -> list[Record]:
        return [self._run(setting, name) for name in methods]

    def _run(self, setting: Setting, name: str) -> Record:
        data, value = setting["data"], setting["value"]
        votes = self.data(data).votes
        parameter = GRIDS[setting["parameter"]][name][0]
        fit, note = _fit(votes, name, **{parameter: value})
        scores = fit.scores_of(votes.items)
        known = self.data(data)
        truth = np.array([known.truth[item] for item in known.votes.items])
        record = judged(setting, name, scores, truth, float(fit.summary["seconds"]), note)
        usual = self._default(data, name)
        varied = scores.std() > 0.0 and usual.std() > 0.0
        record["figures"] |= {
            "mean_log_likelihood": float(fit.summary["mean_log_likelihood"]),
            "iterations": int(fit.summary["iterations"]),
            "converged": bool(fit.converged),
            "correlation_with_default": float(np.corrcoef(scores, usual)[0, 1]) if varied else None,
        }
        if setting["parameter"] == "start" and name in _MIRRORED and value < 0:
            other = _fit(votes, name, **{parameter: -value})[0].scores_of(votes.items)
            record["figures"]["mirror_gap"] = float(abs(scores + other).max())
        return record

    def _default(self, data: str, name: str) -> Vector:
        if (data, name) not in self._defaults:
            votes = self.data(data).votes
            self._defaults[data, name] = _fit(votes, name)[0].scores_of(votes.items)
        return self._defaults[data, name]

    def page(self, records: list[Record]) -> Page:
        found = cells(records)
        names = list(dict.fromkeys(key[0] for key in found))
        parts = [_INTRODUCTION, _mirror(found)]
        figures = []
        for data in names:
            figures.append(_figure(data, found))
            parts.append(figure_link(figures[-1].name, f"Ablations, {TITLES[data]}"))
            for parameter in GRIDS:
                chosen = {k: v for k, v in found.items() if k[:2] == (data, parameter)}
                if chosen:
                    parts += [f"### {TITLES[data]}: {_WORDS[parameter]}\n", _table(chosen)]
        return Page("\n".join(parts), figures)


_INTRODUCTION = (
    "No figures of the paper's ablations are in the reference, so ours stand alone. Accuracy as returned and, after "
    "the stroke, up to the sign of all scores; the mean log-likelihood; the correlation of the scores with those at "
    "the defaults. In all but bora-em the start is also the centre of the prior. The number of alternations moves the "
    "fixed point of bora-em, so that 10 is part of its definition.\n"
)


def _fit(votes: Any, name: str, **values: Any) -> tuple[Fit, str]:
    return fitted(votes, model(name, **values))


def _mirror(found: dict[Key, dict[str, Cell]]) -> str:
    """Return whether β and -β at the start give scores of opposite sign."""
    lines = []
    for method in _MIRRORED:
        gaps = [
            cell[method].mean("mirror_gap")
            for cell in found.values()
            if method in cell and "mirror_gap" in cell[method].values
        ]
        if gaps:
            exact = sum(gap <= 1e-6 for gap in gaps)
            lines.append(
                f"- {method}: in {exact} of {len(gaps)} pairs to 1e-6; the largest |r(β) + r(−β)| is {max(gaps):.1e}"
            )
    return (
        "Symmetry in the sign of β: a start at −β must give the scores of a start at β with the "
        "opposite sign, since (r, β) and (−r, −β) have the same likelihood and the same prior. "
        "Checked score by score:\n\n" + "\n".join(lines) + "\n"
    )


def _table(found: dict[Key, dict[str, Cell]]) -> str:
    methods = list(dict.fromkeys(name for cell in found.values() for name in cell))
    rows = []
    for key, known in found.items():
        row = [f"{key[2]:g}"]
        for method in methods:
            cell = known.get(method)
            if cell is None:
                row.append("")
                continue
            accuracy = f"{share(cell.mean('accuracy'))} / {share(cell.mean('accuracy_up_to_sign'))}"
            correlation = share(cell.mean("correlation_with_default"))
            state = "" if cell.mean("converged") == 1 else ", not converged"
            likelihood = f"{cell.mean('mean_log_likelihood'):.4f}"
            row.append(f"{accuracy}; {likelihood}; {correlation or 'no scores'}{state}")
        rows.append(row)
    return markdown_table(["value", *methods], rows, texts=0)


def _figure(data: str, found: dict[Key, dict[str, Cell]]) -> Figure:
    panels = []
    for parameter in GRIDS:
        chosen = {k: v for k, v in found.items() if k[:2] == (data, parameter)}
        lines = []
        for method in GRIDS[parameter]:
            points = [(k[2], c[method]) for k, c in chosen.items() if method in c]
            if points:
                y = [cell.mean("accuracy") for _, cell in points]
                lines.append(Line(method, [value for value, _ in points], y))
        if lines:
            title = _WORDS[parameter]
            panels.append(Panel(title, parameter, "accuracy", lines, parameter != "start"))
    return Figure(f"ablations-{data}", panels)
