"""Arrays in the safetensors format: the length of a JSON header, the header, the numbers.

The metadata hold a checksum of everything else, so that no damage goes unnoticed.
"""

from __future__ import annotations

import hashlib
import json
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["read_safetensors", "safetensors_bytes"]

_KINDS: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "I64": np.dtype("<i8"),
}
_METADATA, _CHECKSUM = "__metadata__", "sha256"
MAX_HEADER = 100_000_000  # bytes, as the format has it


def safetensors_bytes(tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> bytes:
    """Return the content of a file with these arrays, and a few texts beside them.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.io.safetensors import read_safetensors, safetensors_bytes
    >>> read_safetensors(safetensors_bytes({"w": np.ones(2, np.float32)}, {"made by": "me"}))
    ({'w': array([1., 1.], dtype=float32)}, {'made by': 'me'})
    """
    header: dict[str, Any] = {_METADATA: dict(metadata)}
    parts, at = [], 0
    for name, tensor in tensors.items():
        kind = next(kind for kind, dtype in _KINDS.items() if dtype == tensor.dtype)
        part = np.ascontiguousarray(tensor, _KINDS[kind]).tobytes()
        shape = list(tensor.shape)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + len(part)]}
        parts.append(part)
        at += len(part)
    header[_METADATA][_CHECKSUM] = _checksum(header, b"".join(parts))
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # the numbers begin at a multiple of eight
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def read_safetensors(content: bytes) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Return the arrays and texts of such a file; raise ValueError if it is damaged."""
    length = int.from_bytes(content[:8], "little")
    if not 0 < length <= min(len(content) - 8, MAX_HEADER):
        raise ValueError("not a safetensors file")
    numbers = content[8 + length :]
    try:
        header = json.loads(content[8 : 8 + length])
        texts = header[_METADATA]
        if texts.pop(_CHECKSUM) != _checksum(header, numbers):
            raise ValueError("the content was changed after it was written: another checksum")
        del header[_METADATA]
        if not all(isinstance(text, str) for text in texts.values()):
            raise ValueError("the metadata are not texts")
        tensors, at = {}, 0
        for name, about in header.items():
            kind, shape = _KINDS[about["dtype"]], tuple(about["shape"])
            if not all(type(size) is int and size >= 0 for size in shape):
                raise ValueError(f"{name} has the shape {shape}")
            end = at + prod(shape) * kind.itemsize
            if about["data_offsets"] != [at, end] or end > len(numbers):
                raise ValueError(f"{name} is not where its shape puts it")
            tensors[name] = np.frombuffer(numbers[at:end], kind).reshape(shape).copy()
            at = end
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"its header cannot be used ({error!r:.80})") from None
    if at != len(numbers):
        raise ValueError("there is more in the file than its header names")
    return tensors, texts


def _checksum(header: Mapping[str, Any], numbers: bytes) -> str:
    """Return the SHA-256 of the header, its checksum not among the metadata, and the numbers."""
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.sha256(text + b"\0" + numbers).hexdigest()
