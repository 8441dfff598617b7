"""Connected components of the graph of comparisons, on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.engines.torch.votes import VoteTensors

__all__ = ["components"]

_PART = 1 << 26


def components(votes: VoteTensors) -> NDArray[np.uint32]:
    """Lowest label wins along every comparison, and labels follow labels, until nothing moves."""
    label = torch.arange(votes.n_items, dtype=torch.int32, device=votes.device)
    while True:
        before = label
        for begin in range(0, len(votes), _PART):
            one = votes.first[begin : begin + _PART].to(torch.int64)
            two = votes.second[begin : begin + _PART].to(torch.int64)
            lower = torch.minimum(label[one], label[two])
            label = label.scatter_reduce(0, one, lower, "amin")
            label = label.scatter_reduce(0, two, lower, "amin")
        label = label[label.to(torch.int64)]
        if torch.equal(label, before):
            break
    found = torch.unique(label, return_inverse=True)[1]
    return np.asarray(found.cpu().numpy(), dtype=np.uint32)
