"""What the computer plays, as inputs: the monitor sources of PulseAudio, or of PipeWire in its place."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asr.audio.devices import InputDevice

MONITOR = "monitor"  # what people call that of the output in use, and the sound server does:
DEFAULT_MONITOR = "@DEFAULT_MONITOR@"
PATIENCE = 5.0  # s that the sound server may take to name its sources


def list_monitors(inputs: Sequence[InputDevice]) -> list[InputDevice]:
    """An input for what the output in use plays, and where pactl is installed one for each output.

    They are reached through `pulse`, the device that leads ALSA's programs to the sound server; without it there are
    none.
    """
    server = next((device for device in inputs if device.name == "pulse"), None)
    if server is None:
        return []
    server = replace(server, is_default=False)
    outputs = [replace(server, name=name, source=name) for name in _sources() if name.endswith(".monitor")]
    return [replace(server, name=MONITOR, source=DEFAULT_MONITOR), *outputs]


def _sources() -> list[str]:
    if shutil.which("pactl") is None:
        return []
    command = ["pactl", "list", "short", "sources"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=PATIENCE)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [fields[1] for line in done.stdout.splitlines() if len(fields := line.split("\t")) > 1]


@contextmanager
def heard_from(source: str | None) -> Iterator[None]:
    """What is opened within hears that source of the sound server; None: the one that it would anyway."""
    if source is None:
        yield
        return
    before = os.environ.get("PULSE_SOURCE")
    os.environ["PULSE_SOURCE"] = source
    try:
        yield
    finally:
        if before is None:
            del os.environ["PULSE_SOURCE"]
        else:
            os.environ["PULSE_SOURCE"] = before
