"""What all streaming states have in common: rows that can be taken out or reset one at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeVar

from torch import Tensor

S = TypeVar("S")


def select_rows(state: S, rows: Sequence[int]) -> S:
    """A copy of the given rows of a state: a dataclass of tensors with a leading batch dimension."""

    def pick(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value[list(rows)].clone()
        return select_rows(value, rows) if dataclasses.is_dataclass(value) else value

    return dataclasses.replace(state, **{f.name: pick(getattr(state, f.name)) for f in dataclasses.fields(state)})


def reset_rows(state: Any, rows: Sequence[int]) -> None:
    """Makes the given rows fresh streams, in place; the others go on.

    All rows step together: what is pending when a row is reset is silence in the new stream. A field of the state
    becomes zeros, or what its metadata names as `empty`; with `keep` it stays as it is.
    """
    for f in dataclasses.fields(state):
        value = getattr(state, f.name)
        if f.metadata.get("keep"):
            continue
        if isinstance(value, Tensor):
            value[list(rows)] = f.metadata.get("empty", 0)
        elif dataclasses.is_dataclass(value):
            reset_rows(value, rows)
