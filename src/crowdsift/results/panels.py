"""Panels of judges besides a trusted one: the table of their biases, figures and sentences."""

from math import ceil
from typing import Any

import numpy as np

from crowdsift.models.diagnostics import Kind
from crowdsift.numeric import Vector
from crowdsift.numeric.distributions import half_width
from crowdsift.results.build import FitBuilder
from crowdsift.results.fit import Fit
from crowdsift.results.scales import level_text
from crowdsift.results.tables import Table
from crowdsift.results.words import count, interval_text, label, many
from crowdsift.votes.panels import OTHERS

_SHOWN = 5  # items named in a sentence
_MOST_VOTES = 1e6  # numbers of votes above this are shown as "very many"


def panel_table(fitted: FitBuilder) -> Table | None:
    """Return the bias of every panel for every item, in logits, the best item first."""
    found = fitted.estimate.panels
    if found is None:
        return None
    tail = 0.5 - 0.5 * fitted.level
    lower, middle, upper = np.quantile(found.bias, [tail, 0.5, 1.0 - tail], axis=0)
    order, panels = fitted.order, len(found.names)
    columns = (middle, lower, upper)
    return Table(
        {
            "panel": np.repeat(np.array(found.names, object), len(order)),
            "item": np.tile(fitted.votes.items[order], panels),
            **{
                name: values[:, order].ravel() for name, values in zip(("bias", "lower", "upper"), columns, strict=True)
            },
        }
    )


def panel_summary(fitted: FitBuilder) -> dict[str, Any]:
    """Return how far panels are from the trusted one, what their votes are worth, and how many more would help."""
    found, panels, votes = fitted.estimate.panels, fitted.votes.panels, fitted.votes  # without gold
    assert panels is not None
    known = {
        "column": panels.column,
        "values": list(panels.trusted),
        "votes": float(votes.loads[panels.is_trusted(votes)].sum()),
    }
    table = panel_table(fitted)
    if found is None or table is None:  # in several dimensions panels have no biases
        return {"trusted": {**known, "panels": []}}
    tail = 0.5 - 0.5 * fitted.level
    size = np.sqrt(np.mean(found.bias**2, axis=2))  # over items, of every draw
    ends = np.quantile(size, [tail, 0.5, 1.0 - tail], axis=0)
    differs = (table["lower"] > 0.0) | (table["upper"] < 0.0)
    about = [
        {
            "panel": name,
            "deviation": float(ends[1, number]),
            "lower": float(ends[0, number]),
            "upper": float(ends[2, number]),
            "items": [label(x) for x in table["item"][differs & (table["panel"] == name)]],
        }
        for number, name in enumerate(found.names)
    ]
    return {
        "trusted": {**known, "worth": found.worth, "to_settle": _to_settle(fitted, found.information), "panels": about}
    }


def _to_settle(fitted: FitBuilder, information: float) -> float | None:
    """Return how many trusted votes on the leader and its rivals would make it clearly first."""
    # None if no number would: the best two have the same score, or items are not connected.
    scores = fitted.estimate.scores
    if int(fitted.component.max()) or len(scores) < 2:
        return None
    leader, rivals = fitted.order[0], fitted.order[1:]
    lead: Vector = scores[leader] - scores[rivals]
    variance = fitted.estimate.difference_variance(np.full(len(rivals), leader), rivals)
    if variance is None or information <= 0.0 or lead.min() <= 0.0:
        return None
    wanted = (half_width(fitted.level) / lead) ** 2
    missing = np.maximum(wanted - 1.0 / np.maximum(variance, 1e-300), 0.0)
    return float(missing.sum() / information)


def panel_sentences(fit: Fit) -> list[str]:
    """Return sentences on what a trusted panel implies for a fit; none without one, or if nothing was learned."""
    about, biases = fit.summary.get("trusted"), fit.panel_biases
    if not about or biases is None or any(each.kind is Kind.INFORMATION for each in fit.diagnostics):
        return []
    name, level = f"{about['column']}={' or '.join(about['values'])}", level_text(fit.level)
    lines = [f"Scores are those of {name} ({many(about['votes'], 'vote')})."]
    if [each["panel"] for each in about["panels"]] == [OTHERS]:
        lines.append(f"Every other {about['column']} has one judge, so all of them are taken as one panel, {OTHERS}.")
    for each in about["panels"]:
        own = biases["panel"] == each["panel"]
        bias = dict(zip(map(label, biases["item"][own]), biases["bias"][own], strict=True))
        most = sorted(each["items"], key=lambda item: -abs(bias[item]))
        named = ", ".join(f"{item} ({bias[item]:+.2f})" for item in most[:_SHOWN])
        more = f" and {count(len(most) - _SHOWN)} more" if len(most) > _SHOWN else ""
        lines.append(
            f"{about['column']}={each['panel']} is off by {each['deviation']:.2f} logits per item "
            f"({level} interval {interval_text(each['lower'], each['upper'])}), "
            + (f"clearly for {named}{more}." if named else "but clearly for no single item.")
        )
    worth = f"{count(round(about['worth']))}" if about["worth"] >= 1.0 else "hardly any"
    lines.append(f"All other votes are worth {worth} independent votes of {name}.")
    needed = about["to_settle"]
    if needed is not None and needed > 0.0:
        number = f"About {count(ceil(needed))}" if needed < _MOST_VOTES else "Very many"
        lines.append(
            f"{number} more votes of {name}, on pairs of {label(fit.labels[0])} and its rivals, "
            f"would settle first place at {level}, if scores stay as they are."
        )
    return lines
