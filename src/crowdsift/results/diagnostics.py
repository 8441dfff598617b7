"""Diagnostics of a fit beyond those of its method."""

from __future__ import annotations

from math import ceil, log
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.models.diagnostics import Diagnostic, Kind
from crowdsift.numeric.likelihoods import sigmoid
from crowdsift.results.sign import THIN, Agreement, gold_needed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from crowdsift.models import Model
    from crowdsift.models.sign import SignSupport

_NAMED = 5
_TYPICAL = 1.25  # reliability of a worker before any vote


def island_diagnostics(n_components: int, n_contexts: int = 1) -> list[Diagnostic]:
    """That the items fall apart into groups, more than there are contexts, which are apart."""
    if n_components <= n_contexts:
        return []
    message = (
        f"the items fall into {n_components} groups without a comparison between them; "
        "scores and ranks are comparable only within a group (column component)"
    )
    return [Diagnostic(Kind.ISLANDS, message)]


def no_information_diagnostic(workers: int) -> Diagnostic:
    """That no item is in two votes, so that no vote can be compared with another."""
    return Diagnostic(
        Kind.INFORMATION,
        "no item is in two votes: every score only repeats its vote, and nothing can be learned "
        f"about the workers. {advice_to_repeat_pairs(workers)}",
    )


def advice_to_repeat_pairs(workers: int) -> str:
    """How many pairs, judged again by another worker, would be informative about workers.

    Two typical workers agree on a pair with probability q = E[p² + (1 - p)²], p = σ(βd) and
    d ~ N(0, 2); two who click at random on every second one. A pair distinguishes
    the two by the Kullback-Leibler divergence of q from one half, on average; 3 nats are taken as
    enough. A pair judged by two workers is evidence about both.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    p = sigmoid(_TYPICAL * np.sqrt(2.0) * nodes)
    q = float((p**2 + (1.0 - p) ** 2) @ weights / weights.sum())
    nats = q * log(2.0 * q) + (1.0 - q) * log(2.0 * (1.0 - q))
    pairs = ceil(3.0 / nats)
    return (
        f"About {pairs:,} pairs judged again by another worker would show whether workers agree "
        f"at all, about {ceil(pairs * workers / 2):,} ({pairs} for every worker) who is reliable "
        "(crowdsift next --reask)"
    )


def one_way_diagnostics(
    labels: NDArray[np.object_], flags: NDArray[np.object_]
) -> list[Diagnostic]:
    """Which items only won, and which only lost.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.results.diagnostics import one_way_diagnostics
    >>> flags = np.array(["only won", ""], object)
    >>> print(*one_way_diagnostics(np.array(["a", "b"], object), flags))
    1 item only won: a; the votes set no upper limit to its score, only the prior does
    """
    diagnostics = []
    for flag, side in (("only won", "upper"), ("only lost", "lower")):
        found = labels[flags == flag]
        if len(found):
            many = len(found) > 1
            message = (
                f"{len(found):,} item{'s' if many else ''} {flag}: {_listed(found)}; the votes set "
                f"no {side} limit to {'their scores' if many else 'its score'}, only the prior does"
            )
            diagnostics.append(Diagnostic(Kind.ONE_WAY, message))
    return diagnostics


def sign_diagnostics(sign: SignSupport, order_right: float) -> tuple[list[Diagnostic], int | None]:
    """Warn where the workers do not settle the sign; return how many gold pairs settle it, too."""
    if sign.log_odds >= THIN:
        return [], None
    needed = gold_needed(order_right)
    cure = (
        "the order itself is too uncertain for gold pairs to settle it: more votes first"
        if needed is None
        else f"{needed} gold pair{'s' if needed > 1 else ''} of known order (--gold, gold=) would "
        "settle it"
    )
    message = (
        f"which end of the scores is up is not settled: of the informative workers "
        f"{sign.positive:.1f} speak for this sign and {sign.negative:.1f} against it, so that it "
        f"is right with {_share(sign.probability)}; {cure}"
    )
    return [Diagnostic(Kind.SIGN, message)], needed


def gold_diagnostics(model: Model, found: Agreement) -> list[Diagnostic]:
    """Warn where gold contradicts the scores; `found` is about scores found without each pair."""
    total = found.agree + found.disagree
    if total == 0:
        message = "no gold pair lies within one component, so gold cannot settle the sign"
        if model.takes_gold:
            message = "no gold pair lies within one component of the votes, so none can be checked"
        return [Diagnostic(Kind.GOLD, message)]
    if found.opposed and not model.free_sign:
        message = (
            f"{found.disagree} of {total} gold pairs contradict the scores, and {model.name} "
            "cannot turn them: it takes every worker as honest; use sift"
        )
        return [Diagnostic(Kind.GOLD, message)]
    if 3 * found.disagree > total:
        contradict = f"{found.disagree} of {total} gold pairs contradict the scores"
        without = " that were found without them" if model.free_sign else ""
        return [Diagnostic(Kind.GOLD, contradict + without)]
    return []


def _share(p: float) -> str:
    return "less than 1 %" if p < 0.01 else f"{100 * p:.0f} %"


def _listed(labels: Sequence[Any] | NDArray[np.object_]) -> str:
    shown = [_text(label) for label in labels[:_NAMED]]
    if len(labels) > _NAMED:
        return f"{', '.join(shown)} and {len(labels) - _NAMED:,} more (column flag)"
    return ", ".join(shown)


def _text(label: Any) -> str:
    text = " ".join(_parts(label))
    text = " ".join(text.split())
    return text if len(text) <= 48 else text[:47] + "…"


def _parts(label: Any) -> list[str]:
    """The texts of a label: the values of its contexts, if it has any, then the item."""
    if not isinstance(label, tuple):
        return [str(label)]
    return [text for part in label for text in _parts(part)]
