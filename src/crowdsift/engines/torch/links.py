"""The likelihoods of `tests/reference_engine/links.py` on tensors, with their derivatives."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

Link = Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]
Likelihood = Callable[[Tensor, Tensor, Tensor, Tensor], "Derivatives"]


class Derivatives(NamedTuple):
    """A log-likelihood and its derivatives in d (difference) and t (the worker's parameters)."""

    value: Tensor
    d: Tensor
    dd: Tensor
    t: Tensor
    dt: Tensor
    tt: Tensor


def logistic(eta: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return y·log σ(η) + (1 - y)·log σ(-η), and its derivatives in η."""
    p, q = torch.sigmoid(eta), torch.sigmoid(-eta)
    small = torch.log1p(torch.exp(-eta.abs()))
    value = -y * (torch.clamp(-eta, min=0.0) + small) - (1.0 - y) * (eta.clamp(min=0.0) + small)
    return value, y * q - (1.0 - y) * p, -p * q


def _probit(z: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return y·log Φ(z) + (1 - y)·log Φ(-z), and its derivatives in z."""
    (log_up, up), (log_down, down) = _normal_tail(z), _normal_tail(-z)
    first = y * up - (1.0 - y) * down
    second = -y * up * (z + up) - (1.0 - y) * down * (down - z)
    return y * log_up + (1.0 - y) * log_down, first, second


def _normal_tail(z: Tensor) -> tuple[Tensor, Tensor]:
    """Return log Φ(z) and φ(z)/Φ(z), by the scaled complementary error function, which does not underflow."""
    tail = torch.special.erfcx(-z.clamp(max=0.0) / math.sqrt(2.0))
    below = torch.log(0.5 * tail) - 0.5 * z**2
    above = torch.log1p(-0.5 * torch.special.erfc(z.clamp(min=0.0) / math.sqrt(2.0)))
    log_cdf = torch.where(z > 0.0, above, below)
    density = torch.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi)
    ratio = torch.where(z > 0.0, density / torch.exp(above), math.sqrt(2.0 / math.pi) / tail)
    return log_cdf, ratio


def _scaled(link: Link, scale: float) -> Likelihood:
    """Return ℓ = link(scale·t·d)."""

    def likelihood(d: Tensor, theta: Tensor, x: Tensor, y: Tensor) -> Derivatives:
        t = theta[:, 0]
        value, first, second = link(scale * t * d, y)
        first, second = scale * first, scale**2 * second
        mixed = first + second * t * d
        return Derivatives(
            value, first * t, second * t**2, (first * d)[:, None], mixed[:, None], (second * d**2)[:, None, None]
        )

    return likelihood


def _shifted_logit(d: Tensor, theta: Tensor, x: Tensor, y: Tensor) -> Derivatives:
    """Return P = σ(d + t·x)."""
    value, first, second = logistic(d + (theta * x).sum(dim=1), y)
    outer = x[:, :, None] * x[:, None, :]
    return Derivatives(value, first, second, first[:, None] * x, second[:, None] * x, second[:, None, None] * outer)


def _flipped_logit(d: Tensor, theta: Tensor, x: Tensor, y: Tensor) -> Derivatives:
    """Return P = t·σ(d) + (1 - t)·σ(-d)."""
    t, up, down = theta[:, 0], torch.sigmoid(d), torch.sigmoid(-d)
    bump = up * down
    return _of_probability(
        y,
        t * up + (1 - t) * down,
        t * down + (1 - t) * up,
        Derivatives(
            d,
            (2 * t - 1) * bump,
            (2 * t - 1) * bump * (down - up),
            (up - down)[:, None],
            (2 * bump)[:, None],
            torch.zeros_like(d)[:, None, None],
        ),
    )


def _led_logit(d: Tensor, theta: Tensor, x: Tensor, y: Tensor) -> Derivatives:
    """Return P = σ(t₀)·σ(d) + σ(-t₀)·σ(t₁·x)."""
    skill, lapse = torch.sigmoid(theta[:, 0]), torch.sigmoid(-theta[:, 0])
    lead = (theta[:, 1:] * x).sum(dim=1)
    up, down, left, right = (torch.sigmoid(z) for z in (d, -d, lead, -lead))
    bump, skill1, left1 = up * down, skill * lapse, left * right
    skill2, left2 = skill1 * (lapse - skill), left1 * (right - left)
    tt = torch.empty((len(d), theta.shape[1], theta.shape[1]), dtype=d.dtype, device=d.device)
    tt[:, 0, 0] = skill2 * (up - left)
    tt[:, 0, 1:] = tt[:, 1:, 0] = -(skill1 * left1)[:, None] * x
    tt[:, 1:, 1:] = (lapse * left2)[:, None, None] * x[:, :, None] * x[:, None, :]
    t = torch.cat([(skill1 * (up - left))[:, None], (lapse * left1)[:, None] * x], dim=1)
    dt = torch.cat([(skill1 * bump)[:, None], torch.zeros_like(x)], dim=1)
    return _of_probability(
        y,
        skill * up + lapse * left,
        skill * down + lapse * right,
        Derivatives(d, skill * bump, skill * bump * (down - up), t, dt, tt),
    )


def _of_probability(y: Tensor, p: Tensor, q: Tensor, of: Derivatives) -> Derivatives:
    """Return y·log P + (1 - y)·log Q, Q = 1 - P, from the derivatives of P, by the chain rule."""
    first = y / p - (1 - y) / q
    second = -y / p**2 - (1 - y) / q**2
    return Derivatives(
        value=y * torch.log(p) + (1 - y) * torch.log(q),
        d=first * of.d,
        dd=first * of.dd + second * of.d**2,
        t=first[:, None] * of.t,
        dt=first[:, None] * of.dt + (second * of.d)[:, None] * of.t,
        tt=first[:, None, None] * of.tt + second[:, None, None] * of.t[:, :, None] * of.t[:, None, :],
    )


LIKELIHOODS: dict[str, Likelihood] = {
    "scaled-logit": _scaled(logistic, 1.0),
    "scaled-probit": _scaled(_probit, 1.0 / math.sqrt(2.0)),
    "shifted-logit": _shifted_logit,
    "flipped-logit": _flipped_logit,
    "led-logit": _led_logit,
}
