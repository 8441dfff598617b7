"""Numerical features of a text: hashed character n-grams, and measures of readability.

Both depend on the text alone, need no download, and are equal on every machine.
"""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from crowdsift.numeric import Vector

_LENGTHS = (2, 3, 4, 5)  # lengths of n-grams, with spaces at the ends of the text
_BASE, _MIX = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9  # odd multipliers of 64 bits
_WORD, _SENTENCE, _VOWELS = (re.compile(r"[^\W\d_]+"), re.compile(r"[.!?]+"), re.compile(r"[aeiouy]+"))
READABILITY = (
    "letters a word",
    "syllables a word",
    "share of long words",
    "words a sentence",
    "commas a sentence",
    "distinct words",
    "log words",
)


def ngram_counts(texts: Sequence[str], size: int) -> NDArray[np.float32]:
    """Return signed hashes of character n-grams, one row per text: Σ ±(1 + log count) in `size` columns.

    The hash of an n-gram gives its column and its sign, so n-grams that share a column cancel in the mean (Weinberger
    et al. 2009).
    """
    result = np.zeros((len(texts), size), np.float32)
    for row, text in enumerate(texts):
        found, times = np.unique(_hashes(text), return_counts=True)
        sign = 1.0 - 2.0 * ((found >> np.uint64(62)) & np.uint64(1)).astype(np.float64)
        place = (found % np.uint64(size)).astype(np.int64)
        result[row] = np.bincount(place, sign * (1.0 + np.log(times)), size)
    return result


def readability(texts: Sequence[str]) -> Vector:
    """Return length of words and sentences, and other measures of difficulty; see `READABILITY`."""
    return np.array([_readability(text) for text in texts]).reshape(-1, len(READABILITY))


def _readability(text: str) -> list[float]:
    words = _WORD.findall(text.lower())
    count, sentences = max(len(words), 1), max(len(_SENTENCE.findall(text)), 1)
    syllables = sum(max(len(_VOWELS.findall(word.removesuffix("e"))), 1) for word in words)
    return [
        sum(map(len, words)) / count,
        syllables / count,
        sum(len(word) > 6 for word in words) / count,
        len(words) / sentences,
        text.count(",") / sentences,
        len(set(words)) / count,
        float(np.log1p(len(words))),
    ]


def _hashes(text: str) -> NDArray[np.uint64]:
    """Return hashes of all n-grams of the text in lower case, with white space as single spaces."""
    plain = f" {' '.join(text.lower().split())} "
    codes = np.frombuffer(plain.encode("utf-32-le", "replace"), np.uint32).astype(np.uint64)
    parts = []
    for n in _LENGTHS:
        if len(codes) < n:
            break
        value = np.full(len(codes) - n + 1, n, np.uint64)
        for shift in range(n):
            value = (value ^ codes[shift : len(codes) - n + 1 + shift]) * np.uint64(_BASE)
            value ^= value >> np.uint64(29)
        value *= np.uint64(_MIX)
        parts.append(value ^ (value >> np.uint64(32)))
    return np.concatenate(parts)
