"""Learn a reward model and the reliability of workers in turn: a small network on embeddings.

Every pair of answers is judged once, so that only the embeddings connect the votes. The network
minimises -log E σ(β d), where d is the difference of its scores and β the reliability of a worker,
averaged over the posterior of β. Then the reliability of every worker is estimated given the scores.
The same network trained on raw votes is shown for comparison. Run with ``python examples/reward_workers.py``.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

GRID = torch.linspace(-4.0, 4.0, 41)  # reliabilities: below 0 are those who answer the opposite
ROUNDS, STEPS = 5, 50


class Votes(NamedTuple):
    """Embeddings of the preferred and of the other answer, and who voted."""

    chosen: Tensor
    rejected: Tensor
    worker: Tensor


def quality(embedding: Tensor) -> Tensor:
    """Return what the careful see: not linear in the embedding."""
    return torch.tanh(1.5 * embedding[:, 0]) + 0.8 * embedding[:, 1] * embedding[:, 2]


def simulate(seed: int, votes: int = 2000, workers: int = 40, size: int = 6) -> Votes:
    """30 % of the workers answer the opposite, 10 % click at random."""
    draw = torch.Generator().manual_seed(seed)
    one, two = (torch.randn(votes, size, generator=draw) for _ in range(2))
    worker = torch.randint(workers, (votes,), generator=draw)
    beta = torch.full((workers,), 2.5)
    beta[: 3 * workers // 10], beta[-workers // 10 :] = -2.5, 0.0
    p = torch.sigmoid(beta[worker] * (quality(one) - quality(two)))
    won = (torch.rand(votes, generator=draw) < p)[:, None]
    return Votes(torch.where(won, one, two), torch.where(won, two, one), worker)


def network(size: int, seed: int) -> nn.Module:
    """Two layers; scores are the single output."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(size, 32), nn.Tanh(), nn.Linear(32, 1))


def differences(model: nn.Module, votes: Votes) -> Tensor:
    """D of every vote, scores of all answers having standard deviation 1."""
    one, two = model(votes.chosen)[:, 0], model(votes.rejected)[:, 0]
    difference: Tensor = (one - two) / torch.cat([one, two]).std()
    return difference


def train(model: nn.Module, votes: Votes, posterior: Tensor) -> None:
    """Take steps on -log Σ_β q_s(β) σ(β d), where q has a row per worker."""
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=1e-3)
    log_q = torch.log(posterior[votes.worker] + 1e-12)
    for _ in range(STEPS):
        optimiser.zero_grad()
        d = differences(model, votes)[:, None]
        loss = -torch.logsumexp(log_q + nn.functional.logsigmoid(GRID * d), dim=1).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()


def workers_given(model: nn.Module, votes: Votes, workers: int) -> Tensor:
    """q_s(β) ∝ π(β) Π σ(β d), and π the mean of q: what the crowd is like."""
    with torch.no_grad():
        logs = nn.functional.logsigmoid(GRID * differences(model, votes)[:, None])
        likelihood = torch.zeros(workers, len(GRID)).index_add_(0, votes.worker, logs)
        prior = torch.full((len(GRID),), 1.0 / len(GRID))
        for _ in range(20):
            q = torch.softmax(likelihood + torch.log(prior), dim=1)
            prior = (q.sum(dim=0) + 5.0 / len(GRID)) / (workers + 5.0)
    return q


def accuracy(model: nn.Module, seed: int = 99) -> float:
    """How often the model orders two new answers as quality does."""
    draw = torch.Generator().manual_seed(seed)
    one, two = (torch.randn(2000, 6, generator=draw) for _ in range(2))
    with torch.no_grad():
        better = model(one)[:, 0] > model(two)[:, 0]
    return float((better == (quality(one) > quality(two))).float().mean())


def main(seed: int = 0) -> tuple[float, float, Tensor]:
    """Accuracy on raw votes and with workers, and the mean reliability of every worker."""
    votes = simulate(seed)
    workers = int(votes.worker.max()) + 1
    trusted = torch.zeros(workers, len(GRID))
    trusted[:, int((GRID - 1.0).abs().argmin())] = 1.0  # every vote counts alike
    raw, model = network(6, seed), network(6, seed)
    for _ in range(ROUNDS):
        train(raw, votes, trusted)
    posterior = trusted
    for _ in range(ROUNDS):
        train(model, votes, posterior)
        posterior = workers_given(model, votes, workers)
    reliability = posterior @ GRID
    print(f"raw votes: {accuracy(raw):.3f} of new pairs right")
    print(
        f"with workers: {accuracy(model):.3f}; {int((reliability < -0.5).sum())} of {workers} "
        "workers answer the opposite"
    )
    return accuracy(raw), accuracy(model), reliability


if __name__ == "__main__":
    main()
