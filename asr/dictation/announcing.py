"""How a user who looks at another window learns that a dictation begins or ends."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from asr.audio.devices import error_reason, portaudio
from asr.dictation.tools import find_tool, run_tool
from asr.errors import DesktopError, MicrophoneError

RATE = 48000  # Hz
TONE = 0.09  # s of each of the two tones
LOUDNESS = 0.1
LOW, HIGH = 523.25, 783.99  # Hz


def announcer(how: str) -> Callable[[str, bool], None]:
    """What is called with a line and whether a dictation begins (two tones up) or ends (down).

    Args:
        how: `sound`, `notification`, or `off` for neither.

    Raises:
        DesktopError: now, if a program for it is missing; later, if it fails.
    """
    if how == "sound":
        return lambda line, begins: _play((LOW, HIGH) if begins else (HIGH, LOW))
    if how == "off":
        return lambda line, begins: None
    tool = find_tool("osascript" if sys.platform == "darwin" else "notify-send")

    def notify(line: str, begins: bool) -> None:
        if tool == "osascript":
            script = 'on run argv\ndisplay notification (item 1 of argv) with title "asr"\nend run'
            run_tool(tool, "-e", script, line)
        else:
            run_tool(tool, "--app-name", "asr", "--expire-time", "2000", "asr", line)

    return notify


def _play(pitches: tuple[float, float]) -> None:
    seconds = np.arange(round(TONE * RATE)) / RATE
    envelope = LOUDNESS * np.sin(np.pi * seconds / TONE)
    tones = [envelope * np.sin(2 * np.pi * pitch * seconds) for pitch in pitches]
    try:
        sounddevice = portaudio()
        sounddevice.play(
            np.concatenate(tones).astype(np.float32), RATE
        )  # not waited for: sound servers hold some back for seconds
    except MicrophoneError as error:
        raise DesktopError(str(error)) from error
    except Exception as error:  # PortAudioError, or ValueError where there is no output at all
        raise DesktopError(f"no sound tells that dictation begins or ends: {error_reason(error)}") from error
