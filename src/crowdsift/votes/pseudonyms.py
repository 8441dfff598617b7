"""Pseudonyms of workers: names computed from the label, and from a secret key if there is one.

A pseudonym is `worker-` and 24 hexadecimal digits of HMAC-SHA-256: two of a billion workers share one with a
probability of 1e-11. Without a key, anybody with a list of labels can compute their pseudonyms and identify workers;
with a key only its owner can.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from crowdsift.errors import InputError, RequestError
from crowdsift.numeric import Codes, Labels
from crowdsift.votes.labels import merge

_DIGITS = 24
_PSEUDONYM = re.compile(rf"worker-[0-9a-f]{{{_DIGITS}}}")
_FEWEST_BYTES = 16  # least length of a key


def is_pseudonym(label: Any) -> bool:
    """Return whether a label has the form of a pseudonym."""
    return isinstance(label, str) and _PSEUDONYM.fullmatch(label) is not None


@dataclass(frozen=True)
class Hiding:
    """How workers are hidden.

    `key`: the secret; empty if there is none, None if it is unknown; `check`: a digest that identifies the key of an
    earlier fit; empty without a key.
    """

    key: bytes | None = b""
    check: str = ""

    @classmethod
    def of(cls, given: Any) -> Hiding | None:
        """Return how to hide workers: not at all, without a key, with the key in a file, or as before."""
        # `given`: True, False or None; the path of a file that holds the key; a `Hiding`, or the result of its
        # `to_json`.
        if given is None or isinstance(given, bool):
            return cls() if given else None
        if isinstance(given, Hiding):
            return given
        if isinstance(given, Mapping) and isinstance(given.get("check"), str):
            return cls(None, given["check"]) if given["check"] else cls()
        if not isinstance(given, str | os.PathLike):
            raise RequestError(f"hide_workers must be True, False or the file of a key, not {given!r:.60}")
        try:
            key = Path(given).read_bytes().strip()
        except OSError as error:
            raise InputError(
                f"the key cannot be read ({error.strerror}); make one with: openssl rand -hex 32", source=str(given)
            ) from None
        if len(key) < _FEWEST_BYTES:
            raise InputError(
                f"a key needs at least {_FEWEST_BYTES} characters, this file has {len(key)}; make "
                "one with: openssl rand -hex 32",
                source=str(given),
            )
        return cls(key, _digest(key, b"\0check")[:16])

    def to_json(self) -> dict[str, str]:
        """Return the record for a saved fit, without the key."""
        return {"check": self.check}

    def pseudonym(self, label: Any) -> str:
        """Return the pseudonym of a worker; a pseudonym stays unchanged."""
        if is_pseudonym(label):
            return str(label)
        if self.key is None:
            raise RequestError(
                "the workers of this fit are hidden with a key, which is needed to hide other labels in the same way: "
                "give its file (--hide-key FILE, hide_workers=FILE), or name workers by their pseudonyms"
            )
        if isinstance(label, float) and label.is_integer():
            label = int(label)  # 7 and 7.0 are one label
        text = repr(label).encode("utf-8", "surrogatepass")
        return f"worker-{_digest(self.key, text)[:_DIGITS]}"

    def pseudonyms(self, labels: Labels) -> tuple[Labels, Codes]:
        """Return the pseudonyms in sorted order, and the new code of every label."""
        # The order of the labels would identify workers to anybody who knows all names.
        names = [self.pseudonym(label) for label in labels.tolist()]
        ordered, (code,) = merge([(names, np.arange(len(names), dtype=np.uint32))])
        return ordered, code

    def or_same(self, other: Hiding | None) -> Hiding:
        """Return the one of two that has the key; raise an error for different keys or a missing one."""
        if other is None or other.check != self.check:
            what = "with this key" if self.check else "without a key"
            raise RequestError(
                f"the workers of the fit are hidden {what}, and another one was given: the same "
                "worker would become two; give the key of the fit"
                if other is not None and self.check
                else f"the workers of the fit are hidden {what}; hide the new votes in the same way"
            )
        return self if self.key is not None else other


def _digest(key: bytes, text: bytes) -> str:
    return hmac.new(key, text, hashlib.sha256).hexdigest()
