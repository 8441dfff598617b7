"""Votes in several dimensions in NumPy, vote by vote: the specification of the kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdsift.engines.dimensions import DimensionUpdate, Part
from crowdsift.engines.kinds import WeightedPairs
from crowdsift.numeric.likelihoods import sigmoid, smoothing

_MASK = (1 << 64) - 1


def log_sigmoid(z: Any) -> Any:
    return -np.logaddexp(0.0, -z)


def expected(u: Any, v: Any, caution: float) -> tuple[Any, Any, Any]:
    """log σ(t) and its derivative, and minus the second, averaged over t ~ N(u, v)."""
    k = smoothing(v)
    value, slope = log_sigmoid(k * u) / k, sigmoid(-k * u)
    bend = k * slope * (1.0 - slope)
    xi = np.maximum(np.sqrt(u**2 + v), 1e-4)
    return value, slope, (1.0 - caution) * bend + caution * np.tanh(xi / 2.0) / (2.0 * xi)


def mixed(first: int, second: int, place: int, salt: int) -> int:
    """A hash of a vote."""
    h = (first * 0x9E3779B97F4A7C15) & _MASK
    h ^= (second * 0xC2B2AE3D27D4EB4F) & _MASK
    h ^= (place * 0x165667B19E3779F9) & _MASK
    h ^= salt
    h ^= h >> 29
    h = (h * 0xBF58476D1CE4E5B9) & _MASK
    return h ^ (h >> 32)


class ReferenceDimensions:
    """See the protocol."""

    def __init__(self, comparisons: Any) -> None:
        self.count, self.n_gold = comparisons.n_items, comparisons.n_gold
        self.s = comparisons.worker_codes().astype(np.int64)
        self.first, self.second = (each.astype(np.int64) for each in (comparisons.first, comparisons.second))
        self.y, self.n = (each.astype(float) for each in (comparisons.outcome, comparisons.weight))
        self.gold = self.s >= comparisons.n_workers - self.n_gold
        self.place = np.arange(len(self.y)) - comparisons.offsets[self.s]

    def _hash(self, salt: int) -> Any:
        votes = zip(self.first.tolist(), self.second.tolist(), self.place.tolist(), strict=True)
        return [mixed(*vote, salt) for vote in votes]

    def _weights(self, part: int) -> Any:
        """The weight of every vote in the part."""
        if part == Part.ALL:
            return self.n
        chance = np.array([h % 7 for h in self._hash(0)])
        out = np.where(self.gold, 0.0, self.n // 7 + (chance < self.n % 7))
        return np.minimum(out, self.n) if part == Part.LEFT_OUT else np.maximum(self.n - out, 0.0)

    def _differences(self, x: Any, C: Any, E: int) -> tuple[Any, Any]:
        """d with the side behind it, and E[d dᵀ]."""
        K, D = x.shape
        i, j = self.first, self.second
        d = x[i] - x[j]
        if C.ndim == 3:
            S = C[i] + C[j]
        else:
            B = C.reshape(K, D, K, D)
            S = B[i, :, i] + B[j, :, j] - B[i, :, j] - B[j, :, i]
        if E > D:
            d = np.concatenate([d, np.where(self.gold, 0.0, 1.0)[:, None]], axis=1)
            S = np.pad(S, ((0, 0), (0, 1), (0, 1)))
        return d, S

    def _terms(self, width: Any, ties: bool, n: Any) -> tuple[Any, Any]:
        """(weight, sign, offset) of the logistic terms, and constants."""
        delta = np.where(self.gold, 0.0, width[self.s])
        tied = ties & (self.y == 0.5) & (delta > 0.0)
        offset = np.where(tied, delta, -delta)
        up, down = np.where(tied, n, n * self.y), np.where(tied, n, n * (1.0 - self.y))
        room = np.where(tied, delta, 1.0)
        constant = np.where(tied, n * np.log(-np.expm1(-2.0 * room)), 0.0)
        return ((up, 1.0, offset), (down, -1.0, offset)), constant

    def update(
        self,
        positions: Any,
        covariance: Any,
        crowd: Any,
        weights: Any,
        second: Any,
        width: Any,
        ties: bool,
        part: int,
        caution: float,
    ) -> DimensionUpdate:
        (K, D), (S, E), s = positions.shape, weights.shape, self.s
        d, spread = self._differences(positions, covariance, E)
        T = d[:, :, None] * d[:, None, :] + spread
        terms, constant = self._terms(width, ties, self._weights(part))
        for _ in range(2):
            z, square = (weights[s] * d).sum(1), (second[s] * T).sum((1, 2))
            c, linear, w = constant.copy(), np.zeros(len(s)), np.zeros(len(s))
            for m, sign, o in terms:
                value, slope, bend = expected(sign * z + o, np.maximum(square - z**2, 0.0), caution)
                tangent = sign * slope + bend * z
                c += m * (value - tangent * z + bend * square / 2)
                linear += m * tangent
                w += m * bend
            A, b = np.zeros((S, E, E)), np.zeros((S, E))
            np.add.at(A, s, w[:, None, None] * T)
            np.add.at(b, s, linear[:, None] * d)
            weights, second, shares, population, evidence = self._workers(A, b, crowd, D)
        flow = linear[:, None] * weights[s, :D]
        if E > D:
            flow -= np.where(self.gold, 0.0, w)[:, None] * second[s, :D, D]
        rhs = np.zeros((K, D))
        np.add.at(rhs, self.first, flow)
        np.add.at(rhs, self.second, -flow)
        system = Blocks(self.first, self.second, w[:, None, None] * second[s, :D, :D], K)
        return DimensionUpdate(weights, second, shares, population, float(c.sum() + evidence), rhs, system)

    def _workers(self, A: Any, b: Any, crowd: Any, D: int) -> tuple[Any, ...]:
        """Moments of the weights under every class, and under all."""
        S, E = b.shape
        flip = np.where(np.arange(E) < D, -1.0, 1.0)
        weights, second, shares = np.zeros((S, E)), np.zeros((S, E, E)), np.zeros((S, 4))
        sums, evidence = [np.zeros(4), np.zeros(E), np.zeros((E, E))], 0.0
        everything, side = np.arange(E), np.arange(D, E)
        classes = [
            (everything, crowd.mean, crowd.precision),
            (everything, crowd.mean * flip, crowd.precision),
            (side, crowd.mean[D:], crowd.precision[D:, D:]),
        ]
        if E > D:
            classes.append((side, np.zeros(1), np.array([[crowd.one_sided]])))
        for s in range(S):
            own, log_shares = classes, crowd.log_shares
            if s >= S - self.n_gold:
                own = [(np.arange(D), np.zeros(D), crowd.gold * np.eye(D))]
                log_shares = np.zeros(1)
            logs, moments = [], []
            for free, mean, P in own:
                H, h = P + A[s][np.ix_(free, free)], P @ mean + b[s, free]
                m, V = np.zeros(E), np.zeros((E, E))
                inverse = np.linalg.inv(H) if len(free) else H
                m[free], V[np.ix_(free, free)] = inverse @ h, inverse
                logs.append(
                    0.5 * (np.linalg.slogdet(P)[1] - np.linalg.slogdet(H)[1] + h @ inverse @ h - mean @ P @ mean)
                )
                moments.append((m, V + np.outer(m, m)))
            weighted = np.array(logs) + log_shares[: len(logs)]
            top = weighted.max()
            q = np.exp(weighted - top)
            evidence += top + np.log(q.sum())
            q = q / q.sum()
            shares[s, : len(q)] = q
            for share, (m, M) in zip(q, moments, strict=True):
                weights[s] += share * m
                second[s] += share * M
            if s < S - self.n_gold:
                sums[0] += shares[s]
                for share, turn, (m, M) in zip(q, (np.ones(E), flip), moments, strict=False):
                    sums[1] += share * turn * m
                    sums[2] += share * np.outer(turn, turn) * M
        return weights, second, shares, np.concatenate([each.ravel() for each in sums]), evidence

    def _slopes(self, z: Any, width: Any, ties: bool, n: Any, k: Any) -> tuple[Any, Any, Any]:
        """log p of every vote, its derivative in z, and minus its second."""
        terms, value = self._terms(width, ties, n)
        first, bend = np.zeros_like(z), np.zeros_like(z)
        for m, sign, o in terms:
            u = k * (sign * z + o)
            value = value + m * log_sigmoid(u)
            first += m * sign * k * sigmoid(-u)
            bend += m * k**2 * sigmoid(u) * sigmoid(-u)
        return value, first, bend

    def residuals(self, positions: Any, weights: Any, width: Any, taken: Any, ties: bool, part: int) -> Residuals:
        d, _ = self._differences(positions, np.zeros((*positions.shape, positions.shape[1])), weights.shape[1])
        n = np.where(self.gold | (taken[self.s] == 0.0), 0.0, self._weights(part))
        _, r, _ = self._slopes((weights[self.s] * d).sum(1), width, ties, n, 1.0)
        return Residuals(self, r)

    def log_probability(
        self, positions: Any, covariance: Any, weights: Any, second: Any, width: Any, ties: bool, part: int
    ) -> tuple[float, float]:
        d, spread = self._differences(positions, covariance, weights.shape[1])
        n = np.where(self.gold, 0.0, self._weights(part))
        z = (weights[self.s] * d).sum(1)
        square = (second[self.s] * (d[:, :, None] * d[:, None, :] + spread)).sum((1, 2))
        k = smoothing(np.maximum(square - z**2, 0.0))
        value, _, _ = self._slopes(z, width, ties, n, k)
        delta = width[self.s]
        tied = ties & (self.y == 0.5) & (delta > 0.0)
        rest = 1.0 - sigmoid(k * (z - delta)) - sigmoid(-k * (z + delta))
        value = np.where(tied, n * np.log(np.maximum(rest, 1e-300)), value)
        return float(value[n > 0.0].sum()), float(n.sum())

    def class_evidence(self, positions: Any, covariance: Any, crowd: Any, weights: Any, width: Any, ties: bool) -> Any:
        D, (S, E) = positions.shape[1], weights.shape
        flip = np.where(np.arange(E) < D, -1.0, 1.0)
        one_sided = np.zeros((E, E))
        one_sided[-1, -1] = crowd.one_sided
        classes = [
            (0, crowd.mean * flip, crowd.precision),
            (D, crowd.mean, crowd.precision),
            (0, crowd.mean, crowd.precision),
            (D, np.zeros(E), one_sided),
        ]
        found = np.zeros((S, 4 if E > D else 3))
        for s in range(S):
            for column, (begin, mean, P) in enumerate(classes[: found.shape[1]]):
                found[s, column] = self._laplace(
                    s, positions, covariance, width, ties, weights[s].copy(), begin, mean, P
                )
        return found

    def response(
        self, positions: Any, crowd: Any, weights: Any, shares: Any, width: Any, ties: bool, whole: bool
    ) -> Any:
        """The matrix over positions, μ, gold and one worker at a time, then eliminated."""
        (K, D), (S, E) = positions.shape, weights.shape
        d, _ = self._differences(positions, np.zeros((K, D, D)), E)
        z = (weights[self.s] * d).sum(1)
        _, slope, bend = self._slopes(z, width, ties, self.n, 1.0)
        N = K * D + E + D
        out = np.zeros((N, N))
        for s in range(S):
            gold, a = s >= S - self.n_gold, weights[s]
            joint = np.zeros((N + E, N + E))
            P = np.zeros((E, E)) if gold else crowd.precision
            for i in np.flatnonzero(self.s == s):
                e = np.zeros((D, N + E))  # z = Σ (e x)·a + ...: derivatives of the difference
                at = np.arange(D)
                e[at, self.first[i] * D + at], e[at, self.second[i] * D + at] = 1.0, -1.0
                own = np.zeros((E, N + E))
                own[np.arange(E), N + np.arange(E)] = 1.0
                gradient = a[:D] @ e + d[i] @ own
                joint += bend[i] * np.outer(gradient, gradient)
                joint -= slope[i] * (e.T @ own[:D] + own[:D].T @ e)
            if gold:
                place = np.r_[: K * D, N : N + D]
                to = np.r_[: K * D, K * D + E : N]
                out[np.ix_(to, to)] += joint[np.ix_(place, place)]
                out[K * D + E :, K * D + E :] += crowd.gold * np.eye(D)
                continue
            flip = np.where((np.arange(E) < D) & (shares[s, 1] > shares[s, 0]), -1.0, 1.0)
            sure, mu = shares[s, :2].sum(), slice(K * D, K * D + E)
            F = np.diag(flip)
            items = joint[:N, :N].copy()
            joint[mu, mu] += F @ P @ F
            joint[N:, N:] += P
            joint[mu, N:] -= F @ P
            joint[N:, mu] -= P @ F
            open_ = joint[:N, N:] @ np.linalg.inv(joint[N:, N:]) @ joint[N:, :N]
            out += items + sure * (joint[:N, :N] - items - open_)
        if not whole:
            at = np.arange(K)
            return out[: K * D, : K * D].reshape(K, D, K, D)[at, :, at].reshape(K * D, D)
        return out

    def _laplace(
        self, s: int, positions: Any, covariance: Any, width: Any, ties: bool, a: Any, begin: int, mean: Any, P: Any
    ) -> float:
        """log ∫ N(a; mean, P⁻¹) p(votes of s | a) da about the mode, the first weights being 0."""
        free, D, mine = np.arange(begin, len(a)), positions.shape[1], self.s == s
        d, spread = self._differences(positions, covariance, len(a))
        a[:begin] = 0.0
        P = P[np.ix_(free, free)]

        def at(a: Any) -> tuple[Any, Any, Any]:
            v = np.einsum("i,nij,j->n", a[:D], spread[:, :D, :D], a[:D])
            value, first, bend = self._slopes(d @ a, width, ties, self.n, smoothing(v))
            off, e = a[free] - mean[free], d[mine][:, free]
            return (
                value[mine].sum() - 0.5 * off @ P @ off,
                e.T @ first[mine] - P @ off,
                P + (e * bend[mine, None]).T @ e,
            )

        value, gradient, H = at(a)
        for _ in range(30):
            if not len(free):
                break
            step, gain = np.linalg.solve(H, gradient), 1.0
            while gain > 1e-6:
                there = a.copy()
                there[free] += gain * step
                if (found := at(there))[0] > value:
                    break
                gain *= 0.5
            else:
                break
            done = found[0] - value < 1e-7
            a, (value, gradient, H) = there, found
            if done:
                break
        return float(value + 0.5 * (np.linalg.slogdet(P)[1] - np.linalg.slogdet(H)[1]))


class Blocks:
    """Σ B_n (e_i - e_j)(e_i - e_j)ᵀ."""

    def __init__(self, first: Any, second: Any, blocks: Any, count: int) -> None:
        self.first, self.second, self.blocks, self.count = first, second, blocks, count

    def multiply(self, v: Any) -> Any:
        flow = np.einsum("nij,nj->ni", self.blocks, v[self.first] - v[self.second])
        out = np.zeros_like(v)
        np.add.at(out, self.first, flow)
        np.add.at(out, self.second, -flow)
        return out

    def diagonal(self) -> Any:
        out = np.zeros((self.count, *self.blocks.shape[1:]))
        np.add.at(out, self.first, self.blocks)
        np.add.at(out, self.second, self.blocks)
        return out

    def pairs(self) -> WeightedPairs:
        low, high = np.minimum(self.first, self.second), np.maximum(self.first, self.second)
        return WeightedPairs(low.astype(np.uint32), high.astype(np.uint32), self.blocks)


class Residuals:
    """Σ_s (u uᵀ - Σ r² e eᵀ/n), with signs turned in all columns but the first."""

    def __init__(self, of: ReferenceDimensions, r: Any) -> None:
        self.of, self.r = of, r

    def multiply(self, v: Any) -> Any:
        of, out = self.of, np.zeros_like(v)
        signs = of._hash(0x5851F42D4C957F2D)
        n = np.maximum(of.n, 1.0)
        for c in range(v.shape[1]):
            e = v[of.first, c] - v[of.second, c]
            r, copies = self.r, n
            if c:
                turned = np.array([h >> (c - 1) & 1 for h in signs], bool)
                r, copies = np.where(turned, -self.r, self.r) / np.sqrt(n), np.ones_like(n)
            total = np.bincount(of.s, r * e, of.s.max(initial=0) + 1)[of.s]
            flow = r * (total - r / copies * e)
            np.add.at(out[:, c], of.first, flow)
            np.add.at(out[:, c], of.second, -flow)
        return out

    def diagonal(self) -> Any:
        of, square = self.of, self.r**2 / np.maximum(self.of.n, 1.0)
        return np.bincount(of.first, square, of.count) + np.bincount(of.second, square, of.count)
