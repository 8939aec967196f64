"""What is done to inputs to break them: values that fields cannot have, and damage to files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

HEADER = 120  # bytes at the start of a file that are damaged as its header
DAMAGES = ("cut off", "start missing", "bits flipped", "header changed", "part missing", "part overwritten")


def fields(values: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All values of nested sections, the sections too, each with the keys that lead to it."""
    for key, value in values.items():
        yield (*above, key), value
        if isinstance(value, dict):
            yield from fields(value, (*above, key))


def changed(content: str, keys: tuple[str, ...], value: Any) -> str:
    """JSON with another value of one field."""
    whole = section = json.loads(content)
    for key in keys[:-1]:
        section = section[key]
    section[keys[-1]] = value
    return json.dumps(whole)


def damaged(data: bytes, how: str, random: np.random.Generator) -> bytes:
    """A file with one of `DAMAGES`."""
    result, size = bytearray(data), len(data)
    start = int(random.integers(size))
    part = slice(start, start + int(random.integers(1, size // 2)))
    if how == "cut off":
        del result[start:]
    elif how == "start missing":
        del result[: random.integers(1, 2000)]
    elif how == "bits flipped":
        for place in random.integers(size, size=random.integers(1, 8)):
            result[place] ^= 1 << int(random.integers(8))
    elif how == "header changed":
        for place in random.integers(HEADER, size=random.integers(1, 4)):
            result[place] = random.choice([0, 255, 127, 128, random.integers(256)])
    elif how == "part missing":
        del result[part]
    elif how == "part overwritten":
        result[part] = random.bytes(len(result[part]))
    return bytes(result)
