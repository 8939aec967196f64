"""Sound from microphones through PortAudio: captured in its own thread, handed over through a bounded queue."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from asr.audio.devices import (
    InputDevice,
    error_code,
    error_reason,
    find_input,
    list_inputs,
    portaudio,
    restart_portaudio,
    same_device,
)
from asr.audio.monitors import heard_from
from asr.audio.resample import StreamResampler
from asr.audio.samples import Intake
from asr.errors import MicrophoneError

BLOCK = 0.02  # s of sound that PortAudio hands over at a time
QUEUE = 10.0  # s of sound that wait for the recogniser at most
JOINED = 0.5  # s of waiting sound that are handed over at once at most
MUTED = 3.0  # s of exact zeros after which a microphone counts as muted
WAIT = 0.1  # s that one wait for a block takes at most
STALLED = 15  # waits in a row without a block after which a device counts as gone, though PortAudio has not said so
OPENING = 35  # waits more for its first block: wireless ones take seconds
GAP = 2.0  # s of silence that stand for lost sound at most, so that utterances end there; the clock skips the rest
TELL_AGAIN = 10.0  # s between two lines about lost sound
RETRY = 1.0  # s between two attempts to open a device that is gone
SERVER_CHANNELS = 32  # devices with so many are sound servers, which mix down by themselves
SERVER_LATENCY = "30"  # ms; PulseAudio hands sound over 2 s late to programs that ask for no latency
# hertz, tried when a device refuses its own default
COMMON_RATES = (48000, 44100, 16000, 32000, 24000, 22050, 96000, 8000)

_BAD_CHANNELS, _BAD_RATE, _UNAVAILABLE = -9998, -9997, -9985  # PaErrorCode

# PortAudio looks for devices when it starts, and must not be restarted under a microphone that is open.
_LISTENING: set[Microphone] = set()
_OPENING = threading.Lock()  # held while one that was gone is looked for


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


class Microphone:
    """A device being listened to: iterate over it for blocks `(samples,)`, float32 mono at `sample_rate`.

    The blocks end after `stop`. A device that goes away is waited for and opened again under the same name. Where sound
    is lost, by that or because recognition is behind, there is silence, at most 2 s of it. While several listen, one
    that went away is found again only where it was: PortAudio looks for devices only when it starts.

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
        self._waits = 0  # in a row that brought nothing: a machine that stood still for a while has waited once
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
            self._waits = self._waits + 1 if block is None else 0
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
        comes within `WAIT`."""
        with self._arrived:
            if not self._queue:
                self._arrived.wait(WAIT)
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
        if self._zeros >= MUTED and not self._told_muted and self._device.source is None:
            self._told_muted = True
            self._warn(f"{self.name} gives nothing but zeros: is it muted, or forbidden to this program?")

    def _is_gone(self) -> bool:
        return not self._stream.active or self._waits >= STALLED

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
            with suppress(MicrophoneError), _OPENING:
                if not _LISTENING:
                    restart_portaudio()
                device = same_device(list_inputs(), self._device)
                if device is not None:
                    self._open(device, (self.sample_rate, device.rate, *COMMON_RATES))
                    same = self._stream_rate == self.sample_rate
                    self._resampler = None if same else StreamResampler(self._stream_rate, self.sample_rate)
                    return

    def _open(self, device: InputDevice, rates: tuple[int, ...]) -> None:
        """Starts recording at the first of the rates, and with the largest number of channels, that it accepts."""
        self._waits = -OPENING
        sounddevice = portaudio()
        most = 1 if device.channels >= SERVER_CHANNELS else device.channels
        attempts = [(rate, channels) for rate in rates for channels in dict.fromkeys((most, 2, 1))]
        for rate, channels in attempts:
            self._stream_rate = rate
            self._intake = Intake(rate, lambda line: self._troubles.append(f"{self.name}: {line}"))
            self._last_block = time.monotonic()
            try:
                with heard_from(device.source):
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
                _LISTENING.add(self)
                return
            except sounddevice.PortAudioError as error:
                failure = error
                self._close()
                if error_code(error) not in (_BAD_CHANNELS, _BAD_RATE):
                    break
        unavailable = error_code(failure) == _UNAVAILABLE
        problem = (
            "is in use by another program or switched off" if unavailable else f"does not open: {error_reason(failure)}"
        )
        raise MicrophoneError(
            f"{self.name} {problem}; choose another input with --input-device (asr devices lists them)"
        ) from failure

    def _close(self) -> None:
        _LISTENING.discard(self)
        if self._stream is not None:
            with suppress(portaudio().PortAudioError):
                self._stream.close()
