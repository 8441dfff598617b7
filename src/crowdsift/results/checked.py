"""A record that can be checked: how much it hangs on single votes, and how well it fits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from crowdsift.results.copying import Copying, copying
from crowdsift.results.record import FitRecord
from crowdsift.results.rescored import Nearby
from crowdsift.results.robustness import Robustness, robustness
from crowdsift.results.statistics import FitStatistics, fit_statistics

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdsift.votes.comparisons import Comparisons

__all__ = ["CheckedRecord"]


@dataclass(frozen=True, eq=False, repr=False)
class CheckedRecord(FitRecord):
    """A fit with the checks that need its votes, and fits of others; see `crowdsift.Fit`."""

    def _refitter(
        self, *, gold: Any, threads: int | None, warm: bool
    ) -> Callable[[Comparisons], FitRecord]:
        """What fits the same method to other votes, from here where it can if `warm`."""
        raise NotImplementedError

    def robustness(
        self, *, neighbours: bool = False, gold: Any = None, threads: int | None = None
    ) -> Robustness:
        """The fewest votes, and workers, whose removal changes the leader.

        Found by influence and verified by fitting the votes that are left, from where this fit
        ended where the method can; every number is an upper bound: at most so many.

        Parameters
        ----------
        neighbours
            Whether every pair of neighbours is searched, too.
        gold
            Pairs of known order; by default those that this fit was given.
        threads
            How many threads the fits may use.

        Examples
        --------
        >>> import crowdsift
        >>> votes = crowdsift.Comparisons.from_arrays(["a"] * 9 + ["b"] * 6, ["b"] * 9 + ["a"] * 6)
        >>> print(crowdsift.fit(votes, "bt").robustness())
        Without at most 4 of the 15 votes b would be above a
        """
        gold = self.gold if gold is None else gold
        refit = self._refitter(gold=gold, threads=threads, warm=True)
        near = Nearby(self, gold, threads)
        return robustness(self, refit, near, neighbours=neighbours)

    def statistics(
        self, *, halves: int = 0, gold: Any = None, threads: int | None = None
    ) -> FitStatistics:
        """Separation, agreement, misfitting workers and items, intransitive triads.

        Parameters
        ----------
        halves
            How often the workers are halved for the split-half reliability, two fits each.
        gold, threads
            For these fits: pairs of known order, by default those that this fit was given, and
            how many threads.

        Examples
        --------
        >>> import crowdsift
        >>> votes = crowdsift.simulate(items=9, workers=8, comparisons=800, seed=3).comparisons()
        >>> found = crowdsift.fit(votes, "bt").statistics()
        >>> 0.8 < found.separation.reliability < 1
        True
        """
        gold = self.gold if gold is None else gold
        refit = self._refitter(gold=gold, threads=threads, warm=False)
        return fit_statistics(self, refit, halves, int(self.summary["seed"]))

    def copying(self) -> Copying:
        """Workers who answer too much alike to be independent, and those who repeat themselves.

        Agreement on the same pairs of items is compared with what scores and reliabilities
        explain, and with what all workers show beyond that; 99 % sure that nobody is named by
        chance.

        Examples
        --------
        >>> import crowdsift
        >>> drawn = crowdsift.simulate(items=9, workers=8, comparisons=900, seed=3)
        >>> crowdsift.fit(drawn.comparisons()).copying().groups
        ()
        """
        return copying(self)

    def with_robustness(self, **options: Any) -> Self:
        """The fit with the figures of `robustness` in its summary; the options are the same.

        Examples
        --------
        >>> import crowdsift
        >>> votes = crowdsift.Comparisons.from_arrays(["a"] * 9 + ["b"] * 6, ["b"] * 9 + ["a"] * 6)
        >>> crowdsift.fit(votes, "bt").with_robustness().summary["robustness"]["votes"]
        4.0
        """
        found = self.robustness(**options)
        text = {**found.to_json(), "text": str(found)}
        return replace(self, summary={**self.summary, "robustness": text})

    def with_statistics(self, **options: Any) -> Self:
        """The fit with the figures of `statistics` in its summary; the options are the same.

        Examples
        --------
        >>> import crowdsift
        >>> votes = crowdsift.Comparisons.from_arrays(["a"] * 9 + ["b"] * 6, ["b"] * 9 + ["a"] * 6)
        >>> fit = crowdsift.fit(votes, "bt").with_statistics()
        >>> round(fit.summary["statistics"]["alpha"], 3)
        0.006
        """
        found = self.statistics(**options).to_json()
        return replace(self, summary={**self.summary, "statistics": found})
