"""YAML and `--set` overrides -> TrainConfig; whatever is wrong is named by its dotted key."""

from __future__ import annotations

import difflib
import os
import re
import reprlib
import sys
import types
from collections.abc import Sequence
from dataclasses import Field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from asr.errors import ConfigError
from asr.files import marked_encoding
from asr.nn.sizes import out_of_range
from asr.training.config import TrainConfig

LONGEST = 1_000_000  # bytes of a configuration
_KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> TrainConfig:
    """Reads a YAML file and applies overrides such as `optimiser.learning_rate=1e-3` (the value is YAML).

    Raises:
        ConfigError: the file cannot be read, a key is unknown, or a value has the wrong type or is impossible.
    """
    try:
        values = _parse(_read(Path(path)))
    except OSError as error:
        raise ConfigError(f"{path}: the configuration cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise ConfigError(f"{path}: not YAML: {error}") from error
    if not isinstance(values, dict | None):
        raise ConfigError(f"{path}: not a configuration: it must hold sections such as `data:` and `model:`")
    values = values or {}
    for override in overrides:
        _override(values, override)
    try:
        config = _build(TrainConfig, values, "")
        _check_together(config)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    return config


def _read(path: Path) -> str:
    with open(path, "rb") as file:
        data = file.read(LONGEST + 1)
    if len(data) > LONGEST:
        raise ConfigError(f"{path}: not a configuration: it is longer than {LONGEST // 1_000_000} MB")
    return data.decode(marked_encoding(data) or "utf-8")


def _loader() -> type:
    """YAML's safe loader, which takes the last of equal keys, made to refuse a second one."""
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
            seen = set()
            for key, _ in node.value:
                name = key.value if isinstance(key, yaml.ScalarNode) else None
                if name in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"{name}: stands there twice", key.start_mark)
                seen |= {name} - {None}
            return super().construct_mapping(node, deep)

    return Loader


def _parse(text: str) -> Any:
    """The value of YAML; ValueError, in one line, for what is none."""
    import yaml

    try:
        return yaml.load(text, _loader())
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError) as error:
        # Besides what is no YAML: numbers and dates that there are not, wrong tags, nesting without end.
        mark = getattr(error, "problem_mark", None)
        line = str(error).splitlines()[0] if mark is None else f"line {mark.line + 1}: {error.problem or 'unreadable'}"
        raise ValueError(line) from error


def _override(values: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {override}: write it as KEY=VALUE, such as optimiser.learning_rate=1e-3")
    *sections, last = key.strip().split(".")
    for section in sections:
        if not isinstance(values.get(section), dict):
            values[section] = {}
        values = values[section]
    try:
        values[last] = _parse(text)
    except ValueError as error:
        raise ConfigError(f"--set {override}: the value is not YAML") from error


def _build(kind: type, values: Any, prefix: str) -> Any:
    """A dataclass from a dictionary; `prefix` is the dotted key of it, with a dot at its end."""
    if not isinstance(values, dict):
        raise ConfigError(f"{prefix[:-1]}: must be a section of keys, not {values!r}")
    known, types_of = {item.name: item for item in fields(kind)}, get_type_hints(kind)
    for key in values:
        if key not in known:
            raise ConfigError(f"{prefix}{key}: no such key{_suggest(str(key), prefix)}")
    given = {}
    for key, value in values.items():
        name, wanted = prefix + key, types_of[key]
        if is_dataclass(wanted):
            given[key] = _build(wanted, {} if value is None else value, name + ".")
        else:
            given[key] = _convert(value, wanted, name)
            _check_value(given[key], known[key], name)
            if known[key].metadata.get("path"):
                given[key] = _expand(given[key], name)
    try:
        return kind(**given)
    except ValueError as error:
        raise ConfigError(f"{prefix}{error}") from error


def _suggest(key: str, prefix: str) -> str:
    """`; did you mean ...?`: the nearest key, preferably of the same section."""
    every = list(_keys(TrainConfig, ""))
    inside = {name[len(prefix) :]: name for name in every if name.startswith(prefix)}
    near = difflib.get_close_matches(key, list(inside), 1) or [
        name for name in inside if name.rpartition(".")[2] == key
    ]
    if near:
        return f"; did you mean {inside[near[0]]}?"
    near = difflib.get_close_matches(prefix + key, every, 1) or [n for n in every if n.endswith("." + key)]
    if near:
        return f"; did you mean {near[0]}?"
    return f"; known are {', '.join(inside)}" if inside else ""


def _keys(kind: type, prefix: str) -> list[str]:
    names = []
    for item in fields(kind):
        wanted = get_type_hints(kind)[item.name]
        names.append(prefix + item.name)
        if is_dataclass(wanted):
            names.extend(_keys(wanted, f"{prefix}{item.name}."))
    return names


def _convert(value: Any, wanted: Any, name: str) -> Any:
    """A YAML value as the wanted type."""
    origin, arguments = get_origin(wanted), get_args(wanted)
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        return _convert(value, next(a for a in arguments if a is not type(None)), name)
    if origin is Literal:
        if value not in arguments:
            raise ConfigError(f"{name}: must be one of {', '.join(arguments)}, not {value!r}")
        return value
    if origin is tuple:
        items = [] if value is None else value if isinstance(value, list) else [value]
        return tuple(_convert(item, arguments[0], name) for item in items)
    if wanted is float and isinstance(value, str) and re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", value):
        return float(value)  # YAML 1.1 takes 1e-3, without a point, for text
    if wanted is float and isinstance(value, int) and not isinstance(value, bool) and abs(value) <= sys.float_info.max:
        return float(value)
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise ConfigError(f"{name}: must be {_KINDS[wanted]}, not {reprlib.repr(value)}")
    return value


def _check_value(value: Any, item: Field, name: str) -> None:
    """ConfigError for a number outside of its field's range."""
    for number in value if isinstance(value, tuple) else (value,):
        if "low" not in item.metadata or not isinstance(number, int | float) or isinstance(number, bool):
            continue
        if complaint := out_of_range(number, item.metadata):
            raise ConfigError(f"{name}: {complaint}")


def _check_together(config: TrainConfig) -> None:
    """ConfigError for values that are possible alone but not with each other."""
    m, d, c, s = config.model, config.data, config.chunks, config.schedule
    if m.vocabulary != type(m)().vocabulary:
        raise ConfigError("model.vocabulary: comes from the tokenizer: set tokenizer.pieces instead")
    if d.max_duration + d.tail_seconds > d.batch_seconds:
        raise ConfigError(
            f"data.batch_seconds: {d.batch_seconds:g} must hold an utterance of data.max_duration"
            f" + data.tail_seconds = {d.max_duration + d.tail_seconds:g} seconds"
        )
    if s.warmup > s.steps:
        raise ConfigError(f"schedule.warmup: {s.warmup} must be at most schedule.steps, {s.steps}")
    if len(c.favoured) not in (0, 2) or (c.favoured and c.favoured[0] < 1):
        raise ConfigError("chunks.favoured: name a chunk of at least 1 position and its look-ahead, such as [13, 13]")
    _check_losses(config)
    if c.full_context < 1 and not c.sizes:
        raise ConfigError("chunks.sizes: name at least one chunk, or set chunks.full_context to 1")


def _check_losses(config: TrainConfig) -> None:
    """ConfigError for losses that need what is not there."""
    losses = config.losses
    if not (losses.ctc or losses.decoder or losses.distillation):
        raise ConfigError("losses: give at least one of ctc, decoder and distillation a weight")
    if losses.distillation and config.teacher.folder is None:
        raise ConfigError("losses.distillation: needs a teacher: set teacher.folder (configs/README.md says how)")
    if losses.own_share and (not losses.decoder or config.decoder.layers or config.teacher.folder is None):
        raise ConfigError("losses.own_share: needs losses.decoder, teacher.folder, and a start whose decoder can read")
    for key in ("taps", "teacher_taps", "intermediate_blocks"):
        blocks = getattr(losses, key)
        if list(blocks) != sorted(set(blocks)):
            raise ConfigError(f"losses.{key}: must ascend")
    if losses.distillation and not losses.taps:
        raise ConfigError("losses.taps: distillation needs at least one")
    if losses.teacher_taps and len(losses.teacher_taps) != len(losses.taps):
        raise ConfigError(f"losses.teacher_taps: name one for each of losses.taps, {len(losses.taps)}")
    if losses.intermediate and not losses.intermediate_blocks:
        raise ConfigError("losses.intermediate_blocks: name at least one block")
    if losses.decoder and config.start is None and not config.decoder.layers:
        raise ConfigError(
            "losses.decoder: needs an attention decoder: set decoder.layers, or start, to en for instance"
        )
    if config.decoder.layers and not losses.decoder:
        raise ConfigError("decoder.layers: a new decoder learns by losses.decoder alone: give it a weight")


def _expand(value: Any, name: str) -> Any:
    """Paths with `~` and `$VARIABLE` expanded; ConfigError for a variable that is not set."""
    if value is None:
        return None
    if isinstance(value, tuple):
        return tuple(_expand(path, name) for path in value)
    expanded = os.path.expanduser(os.path.expandvars(value))
    if missing := re.search(r"\$(\w+|\{\w+\})", expanded):
        raise ConfigError(f"{name}: the variable {missing[0]} is not set")
    return expanded
