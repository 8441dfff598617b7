"""The report of a fit: one self-contained HTML file.

`facts` and the functions that it calls compute, `checks` judges the facts, `figures` draws, and `page` fills the
template.
"""

import os
from collections.abc import Callable
from html import escape
from pathlib import Path

from crowdsift.io.files import replace_file, require_file
from crowdsift.numeric.distributions import LEVEL
from crowdsift.results.fit import Fit
from crowdsift.votes.comparisons import Comparisons

__all__ = ["STAGES", "Report", "make_report"]

STAGES = (
    "checking for copied answers",
    "predicting left-out votes",
    "leaving out flagged workers",
    "drawing",
    "writing",
)


class Report:
    """A finished report with the page as `html`; a notebook displays it."""

    def __init__(self, html: str) -> None:
        self.html = html

    def __repr__(self) -> str:
        return f"Report({len(self.html):,} characters)"

    def _repr_html_(self) -> str:
        """Return the page in a frame, so that it cannot affect the notebook."""
        return (
            f'<iframe srcdoc="{escape(self.html)}" sandbox="allow-scripts" title="Report of a fit" '
            'style="width: 100%; height: 800px; border: 1px solid #8888; border-radius: 8px">'
            "</iframe>"
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page; an old file stays until the new one is complete."""
        require_file(path)
        with replace_file(Path(path)) as draft:
            draft.write_text(self.html, encoding="utf-8", newline="\n")


def make_report(
    fit: Fit,
    votes: Comparisons | None = None,
    *,
    title: str | None = None,
    command: str | None = None,
    refit: bool | None = None,
    threads: int | None = None,
    path: str | os.PathLike[str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Make the report of a fit; see `Fit.report`."""
    # `progress` is called with the name of every stage when it begins; see `STAGES`.
    from crowdsift.report.facts import gather
    from crowdsift.report.page import render

    begin = progress or (lambda stage: None)
    facts = gather(fit, votes, refit=refit, threads=threads, begin=begin)
    begin("drawing")
    source = "votes" if facts.votes is None else facts.votes.source
    made = Report(
        render(
            facts,
            title=title or ("Votes" if source in ("votes", "-") else os.path.basename(source)),
            command=command or _python_command(fit, source),
        )
    )
    if path is not None:
        begin("writing")
        made.save(path)
    return made


def _python_command(fit: Fit, source: str) -> str:
    given = ", ".join(f"{name}={value!r}" for name, value in fit.parameters.items())
    votes = "votes" if source in ("votes", "-") else repr(source)
    summary = fit.summary
    options = {
        "by": fit.by,
        "dependent_by": summary.get("dependent_by"),
        "scale": summary.get("scale") if summary.get("scale") != "standard" else None,
        "anchor": summary.get("anchor"),
        "level": fit.level if fit.level != LEVEL else None,
    }
    more = "".join(f", {name}={value!r}" for name, value in options.items() if value)
    return (
        f"import crowdsift\nmodel = crowdsift.model({fit.method!r}, {given})\nfit = crowdsift.fit({votes}, "
        f"model{more}, seed={summary.get('seed', 0)})\n"
        'fit.report("report.html")'
    )
