"""How a fit shows itself in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.report.columns import value_range
from crowdsift.report.page import bar, environment
from crowdsift.report.population import VERDICTS
from crowdsift.results.scales import level_text
from crowdsift.results.words import count, item_label, many, shortened

if TYPE_CHECKING:
    from crowdsift.results.record import FitRecord

__all__ = ["fit_html"]

_ROWS = 10
_LONGEST = 60


def fit_html(fit: FitRecord) -> str:
    """The head of the leaderboard and how the fit went, as a fragment of HTML.

    Examples
    --------
    >>> import crowdsift
    >>> from crowdsift.report.notebook import fit_html
    >>> fit = crowdsift.fit(crowdsift.Comparisons.from_arrays(["<b>"], ["c"]), "bt")
    >>> "&lt;b&gt;" in fit_html(fit)
    True
    """
    table, verdict = fit.shown_items, fit.worker_table["verdict"].astype(str)
    counts = [(word, int((verdict == word).sum())) for word in VERDICTS]
    shown = min(table.height, _ROWS)
    scale = value_range(*(table[name][:shown] for name in ("score", "lower", "upper")))
    return (
        environment()
        .get_template("fit.html")
        .render(
            method=fit.method,
            summary=fit.summary,
            level=level_text(fit.level),
            verdicts=[entry for entry in counts if entry[1]],
            rows=[_row(fit, i, scale) for i in range(shown)],
            more=table.height - shown,
            count=count,
            many=many,
        )
    )


def _row(fit: FitRecord, i: int, scale: list[float]) -> dict[str, Any]:
    table = fit.shown_items
    score, low, high = (float(table[name][i]) for name in ("score", "lower", "upper"))
    known = bool(np.isfinite([low, high]).all())
    return {
        "rank": int(table["rank"][i]),
        "name": shortened(item_label(fit.labels[i], fit.summary.get("by")), _LONGEST),
        "score": score,
        "at": bar(score, low, high, scale) if known else [],
        "interval": f"{low:.2f} to {high:.2f}",
        "votes": float(table["comparisons"][i]),
    }
