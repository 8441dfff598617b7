"""Every method on an engine of shards gives the scores of the engine that they are made of.

`python -m benchmarks.shards` prints the whole table, slow methods included.
"""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.shards import SHARDS, differences, exacting, real_votes, sparse_votes

from crowdsift.engines import cpu
from crowdsift.engines.grid import RELIABILITY_ONLY
from crowdsift.engines.sharded import sharded_engine
from crowdsift.models import MODELS
from crowdsift.solvers.ep.items import Factorisation

QUICK = [
    *(("passage", method) for method in MODELS if method != "sift"),
    *(("llmfao", method) for method in MODELS if method != "sift"),
    *(("faceage_subset", method) for method in ("bt", "rank-centrality", "barp", "bora-map")),
]
# Every method in all numbers of shards on llmfao, in two of them where a fit takes longer.
FEW = {"passage": (2, 5), "faceage_subset": (1, 3)}


@pytest.mark.parametrize(("name", "method"), QUICK)
def test_scores_are_those_of_one_engine(name, method, data_dir):
    shards = FEW.get(name, SHARDS)
    found = differences(method, real_votes(name, data_dir), shards)
    assert max(found) <= 1e-8, dict(zip(shards, found, strict=True))


@pytest.mark.parametrize("name", ["passage", "llmfao", "faceage_subset"])
def test_sift_in_shards(name, data_dir):
    """Sites are in single precision: scores agree to 1e-6."""
    assert max(differences("sift", real_votes(name, data_dir), (2,) if name == "faceage_subset" else (2, 5))) <= 1e-6


def test_sift_in_shards_where_variances_are_by_belief_propagation():
    """Most pairs are compared in several shards; an edge for each would make loops."""
    votes = sparse_votes()
    model = exacting("sift", votes)
    whole = cpu.engine(votes, 1)
    estimate = model.estimate(whole)
    assert estimate.rule.converged
    for shards in SHARDS:
        engine = sharded_engine(votes, lambda part, shared: cpu.engine(part, 1, shared), shards)
        laplacian = engine.slopes.curvature(estimate.scores, np.ones(votes.n_workers)).laplacian
        sites = engine.grid.sites(RELIABILITY_ONLY, 2.0)
        assert Factorisation(engine).variances(sites, laplacian, exact=True) is None
        found = model.estimate(engine)
        np.testing.assert_allclose(found.scores, estimate.scores, atol=1e-6)
        np.testing.assert_allclose(found.score_sd, estimate.score_sd, atol=1e-5)
        assert found.evidence == pytest.approx(estimate.evidence, abs=0.01)
