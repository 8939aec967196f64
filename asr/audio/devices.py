"""The devices that sound can be recorded from, and PortAudio, which knows them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from asr.audio.monitors import MONITOR, list_monitors
from asr.errors import MicrophoneError

if TYPE_CHECKING:
    from types import ModuleType


@dataclass(frozen=True)
class InputDevice:
    """A device that sound can be recorded from.

    Attributes:
        index: PortAudio's number of it; may change when devices come and go.
        name: as the system calls it.
        host_api: the sound system that it is reached through: ALSA, Core Audio, Windows WASAPI, ...
        channels: how many it has at most.
        rate: its own sample rate (hertz).
        is_default: used when none is asked for.
        source: what a sound server plays, heard through this device; see `list_monitors`. It has no index of its own.
    """

    index: int
    name: str
    host_api: str
    channels: int
    rate: int
    is_default: bool
    source: str | None = None

    def __str__(self) -> str:
        return self.name if self.source else f"{self.index} {self.name}"


def list_inputs() -> list[InputDevice]:
    """The devices that can record, as they were when PortAudio was loaded, and what the computer plays.

    Raises:
        MicrophoneError: PortAudio is missing or does not start.
    """
    sounddevice = portaudio()
    try:
        devices, apis = sounddevice.query_devices(), sounddevice.query_hostapis()
    except sounddevice.PortAudioError as error:
        raise MicrophoneError(f"the sound devices cannot be listed: {error_reason(error)}") from error
    inputs = [device for device in devices if device["max_input_channels"] > 0]
    default = sounddevice.default.device[0]
    if inputs and default not in {device["index"] for device in inputs}:
        default = inputs[0]["index"]
    found = [
        InputDevice(
            index=device["index"],
            name=" ".join(device["name"].split()),
            host_api=apis[device["hostapi"]]["name"],
            channels=device["max_input_channels"],
            rate=round(device["default_samplerate"]),
            is_default=device["index"] == default,
        )
        for device in inputs
    ]
    return found + list_monitors(found)


def find_input(query: str | int | None = None) -> InputDevice:
    """The device with that index, or whose name contains `query` in any case; None: the default one.

    A name that several sound systems have is taken from that of the default device.

    Raises:
        MicrophoneError: no device fits, or several do; PortAudio is missing.
    """
    inputs = list_inputs()
    if not inputs:
        raise MicrophoneError("no microphone found: connect one, or read a recording with --input FILE")
    if query is None:
        return next(device for device in inputs if device.is_default)
    if isinstance(query, int) or query.isdecimal():
        found = [device for device in inputs if device.index == int(query) and device.source is None]
    else:
        found = _by_name(inputs, query)
    if len(found) == 1:
        return found[0]
    if not found and query == MONITOR:
        raise MicrophoneError(
            "what the computer plays is heard through PulseAudio or PipeWire, and ALSA's way to them is missing: "
            "install libasound2-plugins (Fedora: alsa-plugins-pulseaudio)"
        )
    what = f"{len(found)} inputs fit" if found else "no input fits"
    candidates = ", ".join(map(str, found or inputs))
    raise MicrophoneError(f"{what} {str(query)!r}: give the index or more of the name of one of: {candidates}")


def _by_name(inputs: list[InputDevice], query: str) -> list[InputDevice]:
    wanted = query.strip().casefold()
    found = [device for device in inputs if wanted in device.name.casefold()]
    found = [device for device in found if device.name.casefold() == wanted] or found
    default_api = next(device.host_api for device in inputs if device.is_default)
    preferred = [device for device in found if device.host_api == default_api]
    return preferred if len(preferred) == 1 else found


def same_device(inputs: list[InputDevice], wanted: InputDevice) -> InputDevice | None:
    """A device that has come back; ALSA may have given its card another number."""
    for name in (lambda device: device.name, lambda device: device.name.split(" (hw:")[0]):
        for device in inputs:
            if name(device) == name(wanted) and device.host_api == wanted.host_api:
                return device
    return None


def portaudio() -> ModuleType:
    """The sounddevice module.

    Raises:
        MicrophoneError: PortAudio is missing or does not start.
    """
    try:
        import sounddevice
    except OSError as error:
        raise MicrophoneError(
            "PortAudio, which microphones are read with, is missing: install it (Debian, Ubuntu: "
            "apt-get install libportaudio2; Fedora: dnf install portaudio; macOS: brew install portaudio)"
        ) from error
    except Exception as error:
        raise MicrophoneError(f"PortAudio does not start: {error_reason(error)}") from error
    return sounddevice


def restart_portaudio() -> None:
    """Has it look for devices again, which it does only when it starts; no microphone may be open.

    Raises:
        MicrophoneError: PortAudio does not start.
    """
    sounddevice = portaudio()
    sounddevice.stop()  # what `sounddevice.play` may be playing
    with suppress(sounddevice.PortAudioError):
        sounddevice._terminate()
    try:
        sounddevice._initialize()
    except sounddevice.PortAudioError as error:
        raise MicrophoneError(f"PortAudio does not start: {error_reason(error)}") from error


def error_code(error: Exception) -> int | None:
    """PaErrorCode of a PortAudioError."""
    return error.args[1] if len(error.args) > 1 else None


def error_reason(error: Exception) -> str:
    """What a PortAudioError says, in one line."""
    return str(error.args[0]).splitlines()[0] if error.args else type(error).__name__
