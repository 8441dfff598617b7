"""Arrays in the safetensors format: the length of a JSON header, the header, the numbers."""

from __future__ import annotations

import json
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


def safetensors_bytes(tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> bytes:
    """The content of a file with these arrays, and a few texts beside them.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.io.safetensors import read_safetensors, safetensors_bytes
    >>> read_safetensors(safetensors_bytes({"w": np.ones(2, np.float32)}, {"made by": "me"}))
    ({'w': array([1., 1.], dtype=float32)}, {'made by': 'me'})
    """
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    parts, at = [], 0
    for name, tensor in tensors.items():
        kind = next(kind for kind, dtype in _KINDS.items() if dtype == tensor.dtype)
        part = np.ascontiguousarray(tensor, _KINDS[kind]).tobytes()
        shape = list(tensor.shape)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + len(part)]}
        parts.append(part)
        at += len(part)
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # the numbers begin at a multiple of eight
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def read_safetensors(content: bytes) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """The arrays and texts of such a file; ValueError where it is damaged."""
    length = int.from_bytes(content[:8], "little")
    if not 0 < length <= len(content) - 8:
        raise ValueError("not a safetensors file")
    header = json.loads(content[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, about in header.items():
        begin, end = (8 + length + int(offset) for offset in about["data_offsets"])
        if not begin <= end <= len(content):
            raise ValueError("the safetensors file is cut short")
        values = np.frombuffer(content[begin:end], _KINDS[about["dtype"]])
        tensors[name] = values.reshape(about["shape"]).copy()
    return tensors, metadata
