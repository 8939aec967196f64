"""The sizes of a network, as its configuration file has them: which values are possible, alone and with each other."""

from __future__ import annotations

import json
import math
import reprlib
import sys
import types
from collections.abc import Mapping
from dataclasses import field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from asr.errors import ModelError

C = TypeVar("C")

_KINDS = {int: "a whole number", float: "a number", str: "text"}


def bounded(default: Any, low: float, high: float = math.inf, *, above: bool = False) -> Any:
    """A dataclass field whose value (or each of its values) lies in [low, high], or in (low, high] where `above`."""
    return field(default=default, metadata={"low": low, "high": high, "above": above})


def out_of_range(value: float, limits: Mapping[str, Any]) -> str | None:
    """What is wrong with a number, given its field's metadata (`bounded`); None: nothing."""
    low, high, above = limits.get("low", -math.inf), limits.get("high", math.inf), limits.get("above", False)
    if not (low < value if above else low <= value) or not value <= high:
        most = "" if high == math.inf else f" and at most {high:g}"
        return f"must be {'above' if above else 'at least'} {low:g}{most}, not {reprlib.repr(value)}"
    return None if abs(value) <= sys.float_info.max else "must be finite"


def check_heads(d_model: int, heads: int) -> None:
    """ValueError for a width that does not divide into heads."""
    if d_model % heads:
        raise ValueError(f"d_model: {d_model} must be a multiple of heads, {heads}")


def check_rotary(rotary_dim: int, d_model: int, heads: int) -> None:
    """ValueError for a rotary encoding that is wider than a head, or of half a pair."""
    check_heads(d_model, heads)
    if rotary_dim % 2 or rotary_dim > d_model // heads:
        raise ValueError(f"rotary_dim: must be even and at most d_model / heads = {d_model // heads}, not {rotary_dim}")


def read_json(path: Path) -> dict[str, Any]:
    """The sections of a JSON file.

    Raises:
        ModelError: it is no such file.
        OSError: it cannot be read.
    """
    try:
        content = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: not JSON ({error})") from error
    if not isinstance(content, dict):
        raise ModelError(f"{path}: must hold keys with values, not {reprlib.repr(content)}")
    return content


def read_sizes(kind: type[C], values: Any, path: Path, section: str = "") -> C:
    """A configuration (a dataclass) from a part of a JSON file; what is not named has its default.

    Raises:
        ModelError: a key is unknown, or a value is of another type, out of range, or does not fit the others.
    """
    inside = f"{section}." if section else ""
    if not isinstance(values, dict):
        raise ModelError(f"{path}: {section}: must be a section of keys, not {reprlib.repr(values)}")
    hints, known = get_type_hints(kind), {item.name: item for item in fields(kind)}
    if unknown := [key for key in values if key not in known]:
        raise ModelError(f"{path}: {inside}{unknown[0]}: no such key; known are {', '.join(known)}")
    given = {key: _read(value, hints[key], known[key].metadata, path, inside + key) for key, value in values.items()}
    try:
        return kind(**given)
    except ValueError as error:
        raise ModelError(f"{path}: {inside}{error}") from error


def _read(value: Any, wanted: Any, limits: Mapping[str, Any], path: Path, name: str) -> Any:
    if get_origin(wanted) in (Union, types.UnionType):
        if value is None:
            return None
        (wanted,) = (part for part in get_args(wanted) if part is not type(None))
    if is_dataclass(wanted):
        return read_sizes(wanted, value, path, name)
    if get_origin(wanted) is tuple:
        parts = get_args(wanted)
        if not isinstance(value, list) or len(value) != len(parts):
            raise ModelError(f"{path}: {name}: must be a list of {len(parts)}, not {reprlib.repr(value)}")
        return tuple(_read(item, part, limits, path, name) for item, part in zip(value, parts, strict=True))
    fits = isinstance(value, int | float if wanted is float else wanted) and not isinstance(value, bool)
    if not fits:
        raise ModelError(f"{path}: {name}: must be {_KINDS[wanted]}, not {reprlib.repr(value)}")
    if wanted is not str and (complaint := out_of_range(value, limits)):
        raise ModelError(f"{path}: {name}: {complaint}")
    return value
