"""The demo: a simulated crowd with known spammers, fitted without that knowledge."""

import sys
from pathlib import Path

import numpy as np

from crowdsift.fitting import fit
from crowdsift.lab.evaluation import evaluate
from crowdsift.lab.simulation import Simulation, simulate
from crowdsift.report import terminal as console


def crowd_with_spammers(seed: int = 0) -> Simulation:
    """Return 40 items, 50 honest workers, 20 who click at random and 10 who answer the opposite."""
    rng = np.random.default_rng(seed)
    reliability = np.concatenate([rng.uniform(0.5, 1.5, 50), np.zeros(20), rng.uniform(-1.5, -0.5, 10)])
    return simulate(40, 80, 6000, reliabilities=rng.permutation(reliability), seed=seed)


def demonstrate(out: Path, seed: int = 0) -> None:
    """Simulate, fit, compare with the truth, and write everything to a folder."""
    crowd = crowd_with_spammers(seed)
    crowd.write(out / "truth")
    votes = crowd.comparisons()
    result = fit(votes)
    result.save(out / "fit")
    result.report(out / "report.html", title="A simulated crowd with spammers")
    print(
        "A crowd of 80 voted 6,000 times on 40 items: 50 careful workers, 20 who click at "
        "random,\n10 who answer the opposite. crowdsift does not know who is who.\n"
    )
    console.show_fit(result)
    verdict = result.worker_table["verdict"].astype(str)
    planted = {"careful": crowd.reliability > 0, "random": crowd.reliability == 0, "opposite": crowd.reliability < 0}
    print("\nWhat the verdicts say of the workers that were planted:")
    for kind, members in planted.items():
        names, counts = np.unique(verdict[members], return_counts=True)
        found = ", ".join(f"{count} {name}" for name, count in zip(names, counts, strict=True))
        print(f"  {int(members.sum()):2d} {kind:9s} {found}")
    print()
    truth = dict(zip(crowd.items, crowd.scores, strict=True))
    console.show_evaluation(evaluate(votes, truth))
    print(f"\nWritten: {out}/truth (votes and truth), {out}/fit (items, workers, summary),")
    print(f"{out}/report.html (open it in a browser)")
    own = sys.argv[0] if Path(sys.argv[0]).stem == "crowdsift" else "crowdsift"  # the command as it was called
    print(f"Your own votes: {own} fit votes.csv --out result --report report.html")
