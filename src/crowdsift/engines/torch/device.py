"""Which device to use, and what to say where it cannot be."""

from __future__ import annotations

import torch

from crowdsift.errors import RequestError

__all__ = ["chosen_device"]


def chosen_device(name: str | None) -> torch.device:
    """The device of that name; without one a GPU where there is one, else the CPU."""
    if name is None:
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise RequestError(f"no device {name!r}: use cpu, cuda, or cuda:0, cuda:1, ...") from None
    if device.type not in ("cpu", "cuda"):
        raise RequestError(f"the engine runs on cpu and cuda, not on {name!r}")
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise RequestError(
                f"device {name!r} was asked for, but PyTorch {torch.__version__} finds no CUDA "
                "device: the driver may be missing or too old, or this is a build for the CPU; "
                "use device 'cpu' or engine 'cpu'"
            )
        count = torch.cuda.device_count()
        if device.index is not None and device.index >= count:
            raise RequestError(f"device {name!r} was asked for, but there are {count}, from cuda:0")
    return device
