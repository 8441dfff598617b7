"""Fits that go on from earlier ones: the same answer, in a fraction of the passes."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

import crowdsift
from crowdsift import Comparisons, InputError, RequestError, cli
from crowdsift.engines import choose_engine
from crowdsift.engines.grid import SidePrior, SitePass
from crowdsift.fitting import refit
from crowdsift.solvers.ep.state import Propagation
from crowdsift.solvers.ep.warm import carried_over, kept_sites
from crowdsift.solvers.ep.workers import WorkerPrior, power_grid, worker_types


def largest_difference(one, two):
    assert sorted(map(str, one.labels)) == sorted(map(str, two.labels))
    return np.abs(one.scores_of(one.labels) - two.scores_of(one.labels)).max()


def source_of(votes):
    """One row a vote, so that some can be held back."""
    worker = votes.worker_codes()
    rows = np.repeat(np.arange(len(votes)), votes.weight.astype(int))
    won = votes.outcome[rows] > 0.5
    first, second = votes.items[votes.first[rows]], votes.items[votes.second[rows]]
    return {
        "winner": np.where(won, first, second),
        "loser": np.where(won, second, first),
        "worker": votes.workers[worker[rows]],
    }


def some(table, rows):
    return {name: list(column[rows]) for name, column in table.items()}


def held_back(n, share, seed):
    new = np.zeros(n, bool)
    new[np.random.default_rng(seed).choice(n, int(share * n), replace=False)] = True
    return new


def file_table(path):
    with path.open() as file:
        rows = list(csv.DictReader(file))
    names = ("winner", "loser", "worker")
    return {name: np.array([row[name] for row in rows], dtype=object) for name in names}


@pytest.fixture(autouse=True)
def _always_resumed(monkeypatch):
    # An update of few votes fits all of them from the start: these tests ask what a resumed one gives.
    monkeypatch.setattr(refit, "_MIN_RESUMED", 0)


@pytest.fixture(scope="module")
def crowd():
    votes = crowdsift.simulate(items=40, workers=60, comparisons=2000, seed=4).comparisons()
    return source_of(votes)


@pytest.fixture(scope="module")
def cold(crowd):
    return crowdsift.fit(some(crowd, slice(None)))


@pytest.mark.parametrize(("share", "of_the_passes"), [(0.01, 0.5), (0.2, 1.0)])
def test_the_answer_is_the_cold_one(crowd, cold, share, of_the_passes):
    new = held_back(len(crowd["winner"]), share, 1)
    warm = crowdsift.fit(some(crowd, ~new)).update(some(crowd, new))
    assert warm.converged
    assert largest_difference(cold, warm) < 1e-3
    assert warm.summary["passes"] < of_the_passes * cold.summary["passes"]
    assert warm.summary["evidence"] == pytest.approx(cold.summary["evidence"], abs=0.05)
    assert warm.summary["measure"].startswith("largest change of a standardised score")
    for name, near in (("reliability", 0.01), ("lower", 0.02), ("upper", 0.02)):
        np.testing.assert_allclose(warm.worker_table[name], cold.worker_table[name], atol=near)


def test_new_items_and_workers(crowd, cold):
    late = set(crowd["winner"][:2]) | {crowd["worker"][5], crowd["worker"][900]}
    new = np.array([not late.isdisjoint(row) for row in zip(*crowd.values(), strict=True)])
    early = crowdsift.fit(some(crowd, ~new))
    assert early.summary["items"] < cold.summary["items"]
    assert early.summary["workers"] < cold.summary["workers"]
    assert largest_difference(cold, early.update(some(crowd, new))) < 1e-3


def test_passage(data_dir):
    table = file_table(data_dir / "passage.csv")
    new = held_back(len(table["winner"]), 0.01, 2)
    whole = crowdsift.fit(some(table, slice(None)))
    warm = crowdsift.fit(some(table, ~new)).update(some(table, new))
    assert largest_difference(whole, warm) < 1e-3
    assert warm.summary["passes"] <= 0.25 * whole.summary["passes"]


def test_a_quarter_of_the_passes_on_faceage(data_dir, tmp_path):
    """In memory and from the folder: the same sites, so the same bytes."""
    table = file_table(data_dir / "faceage_subset.csv")
    new = held_back(len(table["winner"]), 0.01 / 1.01, 7)
    whole = crowdsift.fit(some(table, slice(None)))
    early = crowdsift.fit(some(table, ~new))
    warm = early.update(some(table, new))
    assert warm.converged
    assert largest_difference(whole, warm) < 1e-3
    assert warm.summary["passes"] <= 0.25 * whole.summary["passes"]
    early.save(tmp_path)
    again = crowdsift.fit(some(table, slice(None)), start=tmp_path)
    assert again.summary["passes"] == warm.summary["passes"]
    np.testing.assert_array_equal(again.scores_of(warm.labels), warm.scores_of(warm.labels))


def test_gold_goes_on(crowd):
    better, worse = crowd["winner"][:1], crowd["loser"][:1]
    gold = {"winner": list(better), "loser": list(worse)}
    new = held_back(len(crowd["winner"]), 0.01, 3)
    whole = crowdsift.fit(some(crowd, slice(None)), gold=gold)
    warm = crowdsift.fit(some(crowd, ~new), gold=gold).update(some(crowd, new), gold=gold)
    assert largest_difference(whole, warm) < 1e-3


@pytest.mark.parametrize("lies", [False, True])
def test_reliabilities_are_the_cold_ones_where_the_scale_drifts(lies):
    """Few items and many votes of each worker; `lies`: gold turns the sign of the cold run."""
    drawn = crowdsift.simulate(6, 10, 600, reliability=(0.7, 2.0), seed=5004)
    votes = source_of(drawn.comparisons())
    gold = None
    if lies:
        votes["winner"], votes["loser"] = votes["loser"], votes["winner"]
        order = np.asarray(drawn.items)[np.argsort(-np.asarray(drawn.scores))].tolist()
        gold = {"winner": order[:3], "loser": order[::-1][:3]}
    new = held_back(len(votes["winner"]), 0.05, 1)
    whole = crowdsift.fit(some(votes, slice(None)), gold=gold)
    warm = crowdsift.fit(some(votes, ~new), gold=gold).update(some(votes, new))
    assert largest_difference(whole, warm) < 1e-3
    for name in ("reliability", "lower", "upper"):
        np.testing.assert_allclose(warm.worker_table[name], whole.worker_table[name], rtol=5e-3)


def test_contexts_go_on():
    votes = source_of(crowdsift.simulate(items=12, workers=20, comparisons=900, seed=2).comparisons())
    votes["topic"] = np.array(["x", "y"], dtype=object)[np.arange(len(votes["winner"])) % 2]
    new = held_back(len(votes["winner"]), 0.02, 1)
    whole = crowdsift.fit(some(votes, slice(None)), by="topic")
    warm = crowdsift.fit(some(votes, ~new), by="topic").update(some(votes, new))
    assert largest_difference(whole, warm) < 1e-3


def test_ties_that_come_later_start_anew(crowd, cold):
    tie = {"left": ["i1"], "right": ["i2"], "winner": ["tie"], "worker": ["w1"]}
    whole = crowdsift.read(some(crowd, slice(None))).extended(crowdsift.read(tie))
    warm = cold.update(tie)
    assert "tie_width" in warm.worker_table
    np.testing.assert_array_equal(warm.item_table["score"], crowdsift.fit(whole).item_table["score"])


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("sides", [False, True])
def test_engines_hand_out_and_take_back_sites(ties, sides):
    rng = np.random.default_rng(0)
    n = 300
    first, second = rng.integers(0, 9, n), rng.integers(0, 9, n)
    second = np.where(second == first, (first + 1) % 9, second)
    votes = Comparisons.from_codes(
        first.astype(np.uint32),
        second.astype(np.uint32),
        items=np.array([f"i{k}" for k in range(9)], dtype=object),
        workers=np.array([f"w{k}" for k in range(7)], dtype=object),
        worker=rng.integers(0, 7, n).astype(np.uint32),
        outcome=rng.choice([0.0, 0.5, 1.0] if ties else [0.0, 1.0], n).astype(np.float32),
        weight=np.ones(n, np.float32),
        sides_known=sides,
    )
    types = worker_types(ties=ties, sides=sides)
    prior = WorkerPrior.start(power_grid(21), 1.0, 0.5, types)
    means, moving = rng.normal(size=9), np.arange(7) % 2 == 0
    how = {"damping": 1.0, "clip": False, "side": SidePrior()}
    result = []
    for name in ("cpu", "reference"):
        engine = choose_engine(name, votes, 2)
        sites = engine.grid.sites(types, 2.0)
        sites.update(SitePass(prior.levels, prior.masses, means, **how))
        kept = kept_sites(sites)
        assert len(kept.worker) == sites.n_votes
        sites.update(SitePass(prior.levels, prior.masses, means, workers=moving, **how))
        after = kept_sites(sites)
        still = ~moving[after.worker]
        np.testing.assert_array_equal(after.nu[still], kept.nu[still])
        assert (after.nu[~still] != kept.nu[~still]).any()
        twin = engine.grid.sites(types, 2.0)
        twin.set_vote_sites(carried_over(after, twin.vote_sites(), types), len(prior.levels))
        np.testing.assert_allclose(twin.system(twin.pair_sums()).rhs, sites.system(sites.pair_sums()).rhs, atol=1e-5)
        for one, two in zip(sites.vote_sites(), twin.vote_sites(), strict=True):
            np.testing.assert_array_equal(one, two)
        order = np.lexsort((after.kind, after.loser, after.winner, after.worker))
        result.append([values[order] for values in after[:8]])
    for one, two in zip(*result, strict=True):
        np.testing.assert_allclose(one, two, atol=2e-4)


def test_sites_of_unknown_codes_are_left_out(cold):
    n_items, n_workers = len(cold.labels), len(cold.worker_table["worker"]) + 1
    item, worker = np.arange(n_items), np.arange(n_workers)
    item[3] = worker[4] = -1
    found = cold.sites.recoded(item, worker, n_workers)
    gone = (cold.sites.worker == 4) | (cold.sites.winner == 3) | (cold.sites.loser == 3)
    assert 0 < gone.sum() == len(cold.sites.worker) - len(found.worker)
    assert np.isnan(found.low[4])


def test_without_sites_it_starts_from_the_scores(crowd, cold, tmp_path):
    new = held_back(len(crowd["winner"]), 0.01, 1)
    crowdsift.fit(some(crowd, ~new)).save(tmp_path)
    (tmp_path / "sites.parquet").unlink()
    warm = crowdsift.fit(some(crowd, slice(None)), start=tmp_path)
    assert warm.summary["measure"] == cold.summary["measure"]
    assert largest_difference(cold, warm) < 1e-3


def test_saved_sites_come_back(cold, tmp_path):
    cold.save(tmp_path / "one")
    loaded = crowdsift.load(tmp_path / "one")
    for one, two in zip(cold.sites, loaded.sites, strict=True):
        assert one.dtype == two.dtype
        np.testing.assert_array_equal(one, two)
    loaded.save(tmp_path / "two")
    for name in ("sites.parquet", "population.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_sites_of_another_fit_in_the_folder_are_not_used(cold, tmp_path):
    cold.save(tmp_path)
    replace(cold, sites=None).save(tmp_path)  # as beyond the largest number of votes
    assert not (tmp_path / "sites.parquet").exists()
    assert crowdsift.load(tmp_path).sites is None


def test_starts_that_are_refused(crowd, cold, tmp_path):
    votes = some(crowd, slice(None))
    with pytest.raises(RequestError, match=r"made by version 0\.0"):
        crowdsift.fit(votes, start=replace(cold, summary={**cold.summary, "version": "0.0"}))
    with pytest.raises(RequestError, match="these are other data"):
        crowdsift.fit({"winner": ["x"] * 2000, "loser": ["y"] * 2000, "worker": ["z"] * 2000}, start=cold)
    with pytest.raises(RequestError, match="a fit of bt"):
        crowdsift.fit(votes, start=crowdsift.fit(votes, method="bt"))
    with pytest.raises(RequestError, match="bora-em"):
        crowdsift.fit(votes, method="bora-em", start=cold)
    with pytest.raises(RequestError, match="a fit or the folder"):
        crowdsift.fit(votes, start=3)
    with pytest.raises(InputError, match=r"no summary\.json"):
        crowdsift.fit(votes, start=tmp_path)
    with pytest.raises(RequestError, match="votes of this fit were not kept"):
        replace(cold, votes=None).update(votes)


def test_damaged_files_are_named(crowd, cold, tmp_path):
    votes = some(crowd, slice(None))
    cold.save(tmp_path)
    content = (tmp_path / "sites.parquet").read_bytes()
    (tmp_path / "sites.parquet").write_bytes(content[:-20])
    with pytest.raises(InputError, match=r"sites\.parquet.*damaged"):
        crowdsift.fit(votes, start=tmp_path)
    (tmp_path / "sites.parquet").write_bytes(content)
    whole = (tmp_path / "population.json").read_text()
    (tmp_path / "population.json").write_text(whole.replace("1", "2", 1))
    with pytest.raises(InputError, match=r"population\.json.*checksum"):
        crowdsift.fit(votes, start=tmp_path)
    replace(cold, population={**cold.population, "masses": [1.0]}).save(tmp_path)
    with pytest.raises(RequestError, match="population of the earlier fit is damaged"):
        crowdsift.fit(votes, start=tmp_path)


def test_command_line(crowd, cold, tmp_path, capsys, monkeypatch):
    def main(arguments):
        monkeypatch.setattr("sys.argv", ["crowdsift", *arguments])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        return stopped.value.code

    new = held_back(len(crowd["winner"]), 0.01, 1)
    files = {"early.csv": ~new, "all.csv": np.ones_like(new)}
    for name, rows in files.items():
        with (tmp_path / name).open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(crowd)
            writer.writerows(zip(*some(crowd, rows).values(), strict=True))
    folder = str(tmp_path / "fit")
    assert main(["fit", str(tmp_path / "early.csv"), "--out", folder, "--json"]) == 0
    capsys.readouterr()
    assert main(["fit", str(tmp_path / "all.csv"), "--start", folder, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["summary"]["passes"] < 0.5 * cold.summary["passes"]
    assert main(["fit", str(tmp_path / "all.csv"), "--start", str(tmp_path / "nothing")]) == 1
    assert "summary.json" in capsys.readouterr().err


def test_of_two_starts_that_agree_the_one_nearer_its_end_goes_on(monkeypatch):
    """Eight iterations of the first start are not thrown away for two of the second."""
    completed = []
    real = Propagation.complete
    monkeypatch.setattr(Propagation, "complete", lambda each: (completed.append(each), real(each)))
    votes = crowdsift.simulate(items=155, workers=80, comparisons=3000, seed=3).comparisons()
    fit = crowdsift.fit(votes, threads=1)
    assert [each.name for each in completed] == ["flat"]
    alone = crowdsift.fit(votes, crowdsift.Sift(starts=("flat",)), threads=1)
    np.testing.assert_allclose(fit.scores_of(alone.labels), alone.items["score"], atol=1e-4)
    assert fit.summary["evidence"] == pytest.approx(alone.summary["evidence"], abs=0.01)
