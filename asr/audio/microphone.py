"""Sound from microphones through PortAudio: captured in its own thread, handed over through a bounded queue."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from asr.audio.resample import StreamResampler
from asr.audio.samples import Intake
from asr.errors import MicrophoneError

if TYPE_CHECKING:
    from types import ModuleType

BLOCK = 0.02  # s of sound that PortAudio hands over at a time
QUEUE = 10.0  # s of sound that wait for the recogniser at most
JOINED = 0.5  # s of waiting sound that are handed over at once at most
MUTED = 3.0  # s of exact zeros after which a microphone counts as muted
STALLED = 1.5  # s without a block after which a device counts as gone, though PortAudio has not said so
GAP = 2.0  # s of silence that stand for lost sound at most, so that utterances end there; the clock skips the rest
TELL_AGAIN = 10.0  # s between two lines about lost sound
RETRY = 1.0  # s between two attempts to open a device that is gone
SERVER_CHANNELS = 32  # devices with so many are sound servers, which mix down by themselves
SERVER_LATENCY = "30"  # ms; PulseAudio hands sound over 2 s late to programs that ask for no latency
COMMON_RATES = (
    48000,
    44100,
    16000,
    32000,
    24000,
    22050,
    96000,
    8000,
)  # hertz, tried when a device refuses its own default

_BAD_CHANNELS, _BAD_RATE, _UNAVAILABLE = -9998, -9997, -9985  # PaErrorCode


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
    """

    index: int
    name: str
    host_api: str
    channels: int
    rate: int
    is_default: bool


@dataclass
class Statistics:
    """What was lost on the way from a microphone, and how much is waiting.

    Attributes:
        overflows: times that the sound system dropped sound before it was handed over.
        dropped_blocks: blocks dropped here because the queue was full.
        dropped_seconds: how much sound that was.
        lag: seconds of sound in the queue.
        most_lag: the largest value of `lag` so far.
        unplugged: times that the device went away.
    """

    overflows: int = 0
    dropped_blocks: int = 0
    dropped_seconds: float = 0.0
    lag: float = 0.0
    most_lag: float = 0.0
    unplugged: int = 0


def list_inputs() -> list[InputDevice]:
    """The devices that can record, as they were when PortAudio was loaded.

    Raises:
        MicrophoneError: PortAudio is missing or does not start.
    """
    sounddevice = _portaudio()
    try:
        devices, apis = sounddevice.query_devices(), sounddevice.query_hostapis()
    except sounddevice.PortAudioError as error:
        raise MicrophoneError(f"the sound devices cannot be listed: {_reason(error)}") from error
    inputs = [device for device in devices if device["max_input_channels"] > 0]
    default = sounddevice.default.device[0]
    if inputs and default not in {device["index"] for device in inputs}:
        default = inputs[0]["index"]
    return [
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
        found = [device for device in inputs if device.index == int(query)]
    else:
        found = _by_name(inputs, query)
    if len(found) == 1:
        return found[0]
    what = f"{len(found)} inputs fit" if found else "no input fits"
    candidates = ", ".join(f"{device.index} {device.name}" for device in found or inputs)
    raise MicrophoneError(f"{what} {str(query)!r}: give the index or more of the name of one of: {candidates}")


def _by_name(inputs: list[InputDevice], query: str) -> list[InputDevice]:
    wanted = query.strip().casefold()
    found = [device for device in inputs if wanted in device.name.casefold()]
    found = [device for device in found if device.name.casefold() == wanted] or found
    default_api = next(device.host_api for device in inputs if device.is_default)
    preferred = [device for device in found if device.host_api == default_api]
    return preferred if len(preferred) == 1 else found


class Microphone:
    """A device being listened to: iterate over it for blocks `(samples,)`, float32 mono at `sample_rate`.

    The blocks end after `stop`. A device that goes away is waited for and opened again under the same name. Where sound
    is lost, by that or because recognition is behind, there is silence, at most 2 s of it. Needs the process's
    PortAudio for itself: it looks for devices only when it starts.

    Args:
        query: see `find_input`.
        warn: gets one line about each trouble that does not end the listening; called from the iterating thread.

    Attributes:
        name: of the device.
        sample_rate: the device's own (hertz).
        statistics: what was lost and what is waiting.
        level: root mean square of the newest block, 0 to 1.
        skipped: time in the blocks (seconds) at which lost sound is longer than the silence for it, and by how much.

    Raises:
        MicrophoneError: no such device, or, on entering, it is in use or cannot be opened.
    """

    def __init__(self, query: str | int | None = None, warn: Callable[[str], None] = lambda line: None) -> None:
        os.environ.setdefault("PULSE_LATENCY_MSEC", SERVER_LATENCY)
        self._device = find_input(query)
        self._warn = warn
        self.name, self.sample_rate = self._device.name, self._device.rate
        self.statistics = Statistics()
        self.level = 0.0
        self.skipped: list[tuple[float, float]] = []
        self._given = 0.0  # s in the blocks so far
        self._queue: deque[tuple[float, np.ndarray]] = deque()  # blocks, each with the seconds that are lost before it
        self._troubles: deque[str] = deque()  # lines from the capturing thread
        self._told_loss = -TELL_AGAIN
        self._waiting = 0  # samples in the queue
        self._arrived = threading.Condition()
        self._stream = None
        self._stream_rate = self.sample_rate
        self._resampler: StreamResampler | None = None
        self._last_block = 0.0  # time.monotonic() of the newest block
        self._zeros = 0.0  # s of exact zeros up to now
        self._gone_since = 0.0
        self._told_muted = self._gone = self._stopped = False

    def __enter__(self) -> Microphone:
        self._open(self._device, (self.sample_rate, *COMMON_RATES))
        self.sample_rate = self._stream_rate
        return self

    def __exit__(self, *exception: object) -> None:
        self._close()

    def stop(self) -> None:
        """Ends the iteration once what has been recorded until now is handed over. A signal handler may call it."""
        self._stopped = True

    def __iter__(self) -> Iterator[np.ndarray]:
        while True:
            if self._stopped:
                self._close()
            lost, block = self._next()
            while self._troubles:
                self._warn(self._troubles.popleft())
            if block is not None:
                if self._gone:
                    self._gone = False
                    self._warn(f"{self.name} is back")
                    length = len(block) / self._stream_rate
                    self._skip(time.monotonic() - self._gone_since - length - GAP)
                if lost:
                    yield self._silence(min(lost, GAP))
                    self._skip(lost - GAP)
                self._watch_zeros(block)
                yield self._counted(block if self._resampler is None else self._resampler(block))
            elif self._stopped:
                return
            elif self._is_gone():
                if not self._gone:
                    self._tell_gone()
                    yield self._silence(GAP)
                self._open_again()

    def _silence(self, seconds: float) -> np.ndarray:
        return self._counted(np.zeros(round(seconds * self.sample_rate), np.float32))

    def _counted(self, block: np.ndarray) -> np.ndarray:
        self._given += len(block) / self.sample_rate
        return block

    def _skip(self, seconds: float) -> None:
        """The clock goes on by that much more than the blocks do."""
        if seconds > 0:
            self.skipped.append((self._given, seconds))

    def _capture(self, data: np.ndarray, frames: int, when: object, status: object) -> None:
        """PortAudio's callback: takes `(samples, channels)`."""
        block = self._intake(data.copy())
        self.level = float(np.sqrt(np.mean(np.square(block)))) if frames else 0.0
        now, statistics, lost = time.monotonic(), self.statistics, 0.0
        with self._arrived:
            if status.input_overflow:
                statistics.overflows += 1
                lost = max(0.0, now - self._last_block - frames / self._stream_rate)
                self._tell_loss(f"the sound system lost sound, about {lost:.1f} s, before it was handed over")
            self._last_block = now
            self._queue.append((lost, block))
            self._waiting += frames
            while self._waiting > QUEUE * self._stream_rate:
                before, dropped = self._queue.popleft()
                seconds = len(dropped) / self._stream_rate
                after, first = self._queue[0]
                self._queue[0] = before + seconds + after, first
                self._waiting -= len(dropped)
                statistics.dropped_blocks += 1
                statistics.dropped_seconds += seconds
                self._tell_loss("recognition does not keep up: sound is being dropped")
            self._measure_lag()
            self._arrived.notify()

    def _tell_loss(self, line: str) -> None:
        if time.monotonic() - self._told_loss >= TELL_AGAIN:
            self._told_loss = time.monotonic()
            self._troubles.append(line)

    def _measure_lag(self) -> None:
        self.statistics.lag = self._waiting / self._stream_rate
        self.statistics.most_lag = max(self.statistics.most_lag, self.statistics.lag)

    def _next(self) -> tuple[float, np.ndarray | None]:
        """What is waiting up to the next loss, joined to one block, and the seconds lost before it; None when nothing
        comes within a tenth of a second."""
        with self._arrived:
            if not self._queue:
                self._arrived.wait(0.1)
            lost, blocks, samples = 0.0, [], 0
            while self._queue and samples < JOINED * self._stream_rate and not (blocks and self._queue[0][0]):
                before, block = self._queue.popleft()
                lost += before
                blocks.append(block)
                samples += len(block)
            self._waiting -= samples
            self._measure_lag()
        return lost, np.concatenate(blocks) if blocks else None

    def _watch_zeros(self, block: np.ndarray) -> None:
        self._zeros = 0.0 if block.any() else self._zeros + len(block) / self._stream_rate
        if self._zeros >= MUTED and not self._told_muted:
            self._told_muted = True
            self._warn(f"{self.name} gives nothing but zeros: is it muted, or forbidden to this program?")

    def _is_gone(self) -> bool:
        return not self._stream.active or time.monotonic() - self._last_block > STALLED

    def _tell_gone(self) -> None:
        self._gone, self._gone_since = True, self._last_block
        self.statistics.unplugged += 1
        self.level = 0.0
        self._warn(f"{self.name} is gone: waiting for it to come back")

    def _open_again(self) -> None:
        """Waits until the device can be opened; its first block tells that it is back."""
        self._close()
        while not self._stopped:
            until = time.monotonic() + RETRY
            while time.monotonic() < until and not self._stopped:
                time.sleep(0.05)
            with suppress(MicrophoneError):
                _restart_portaudio()
                device = _same_device(list_inputs(), self._device)
                if device is not None:
                    self._open(device, (self.sample_rate, device.rate, *COMMON_RATES))
                    same = self._stream_rate == self.sample_rate
                    self._resampler = None if same else StreamResampler(self._stream_rate, self.sample_rate)
                    return

    def _open(self, device: InputDevice, rates: tuple[int, ...]) -> None:
        """Starts recording at the first of the rates, and with the largest number of channels, that it accepts."""
        sounddevice = _portaudio()
        most = 1 if device.channels >= SERVER_CHANNELS else device.channels
        attempts = [(rate, channels) for rate in rates for channels in dict.fromkeys((most, 2, 1))]
        for rate, channels in attempts:
            self._stream_rate = rate
            self._intake = Intake(rate, lambda line: self._troubles.append(f"{self.name}: {line}"))
            self._last_block = time.monotonic()
            try:
                self._stream = sounddevice.InputStream(
                    device=device.index,
                    samplerate=rate,
                    channels=channels,
                    blocksize=round(BLOCK * rate),
                    dtype="float32",
                    latency="high",
                    callback=self._capture,
                )
                self._stream.start()
                return
            except sounddevice.PortAudioError as error:
                failure = error
                self._close()
                if _code(error) not in (_BAD_CHANNELS, _BAD_RATE):
                    break
        unavailable = _code(failure) == _UNAVAILABLE
        problem = (
            "is in use by another program or switched off" if unavailable else f"does not open: {_reason(failure)}"
        )
        raise MicrophoneError(
            f"{self.name} {problem}; choose another input with --input-device (asr devices lists them)"
        ) from failure

    def _close(self) -> None:
        if self._stream is not None:
            with suppress(_portaudio().PortAudioError):
                self._stream.close()


def _same_device(inputs: list[InputDevice], wanted: InputDevice) -> InputDevice | None:
    """A device that has come back; ALSA may have given its card another number."""
    for name in (lambda device: device.name, lambda device: device.name.split(" (hw:")[0]):
        for device in inputs:
            if name(device) == name(wanted) and device.host_api == wanted.host_api:
                return device
    return None


def _portaudio() -> ModuleType:
    try:
        import sounddevice
    except OSError as error:
        raise MicrophoneError(
            "PortAudio, which microphones are read with, is missing: install it (Debian, Ubuntu: "
            "apt-get install libportaudio2; Fedora: dnf install portaudio; macOS: brew install portaudio)"
        ) from error
    except Exception as error:
        raise MicrophoneError(f"PortAudio does not start: {_reason(error)}") from error
    return sounddevice


def _restart_portaudio() -> None:
    sounddevice = _portaudio()
    with suppress(sounddevice.PortAudioError):
        sounddevice._terminate()
    try:
        sounddevice._initialize()
    except sounddevice.PortAudioError as error:
        raise MicrophoneError(f"PortAudio does not start: {_reason(error)}") from error


def _code(error: Exception) -> int | None:
    return error.args[1] if len(error.args) > 1 else None


def _reason(error: Exception) -> str:
    return str(error.args[0]).splitlines()[0] if error.args else type(error).__name__
