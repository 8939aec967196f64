"""The entrance for samples: arrays, tensors and blocks of any usual type and layout become float32 mono in [-1, 1]."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from numbers import Real
from os import PathLike
from typing import Any

import numpy as np

from asr.errors import AudioError

LOWEST_RATE, HIGHEST_RATE = 1000, 768_000  # hertz
MOST_CHANNELS = 64
FEW_CHANNELS = 8  # a piece with more elements than this along its longer axis has its samples there

_NO_SOUND = 2.0**31  # beyond it a value is damage: integers of 32 bits stored as floats stay below
_OTHER_SCALE, _AT_LEAST = 0.1, 16  # share and number of a piece's values beyond full scale: these may be integers
_HOTTEST = 8.0  # times full scale: a tenth of a piece beyond it are integers also where they are not whole numbers
_FAR_BEYOND = 2.0  # times full scale: lossy codecs pass 1 a little, and nobody needs to be told
_CANCELLED = 0.1  # power of the mix against that of a mix of unrelated channels: below it they cancel each other
_MEMORY = 1.0  # s over which the power of channels is averaged
_AUDIBLE = 1e-10  # power below which channels are not compared

Samples = Any  # an array, a torch.Tensor or a list of numbers
Layout = tuple[int, int]  # the axis of the channels, and how many they are


def check_rate(rate: float) -> None:
    """Whether that is a sample rate (hertz).

    Raises:
        AudioError: it is no number, or not between 1000 and 768000 Hz.
    """
    if not is_number(rate) or not LOWEST_RATE <= rate <= HIGHEST_RATE:
        raise AudioError(f"a sample rate of {rate!r} Hz: give one between {LOWEST_RATE} and {HIGHEST_RATE} Hz")


def as_array(sound: Samples, channels: Layout | None = None) -> np.ndarray:
    """Samples as floats `(time,)` or `(time, channels)`; integers are scaled to [-1, 1).

    Channels first, as torchaudio gives, is told from channels last by the shapes: the shorter axis is that of the
    channels where the longer one has more than 8 elements. The result may share memory with `sound`.

    Args:
        sound: an array or a tensor on any device, of any float or integer type, `(time,)`, `(time, channels)` or
            `(channels, time)`; or a list of numbers. Integers of 64 bits are taken for values of 16 bits.
        channels: the axis and the number of the channels, where an earlier piece has shown them.

    Raises:
        AudioError: it is something else, such as bytes, objects or complex numbers, or has other axes.
    """
    check_kind(sound)
    if hasattr(sound, "is_floating_point"):  # a tensor; torch need not be imported for it
        sound = sound.detach()
        sound = sound.float() if sound.is_floating_point() else sound
    try:
        values = np.asarray(sound.cpu() if hasattr(sound, "cpu") else sound)
    except (TypeError, ValueError, NotImplementedError) as error:
        raise AudioError(f"samples that are no array: {error}") from error
    if values.dtype.kind not in "fiu":
        raise AudioError(f"samples of type {values.dtype}: give floats in [-1, 1] or integers")
    if channel_axis(values.shape, channels) == 0:
        values = values.T
    if values.ndim not in (1, 2) or 0 in values.shape[1:] or max(values.shape[1:], default=1) > MOST_CHANNELS:
        raise AudioError(
            f"samples of shape {np.shape(sound)}: give (time,), (time, channels) or (channels, time), "
            f"of 1 to {MOST_CHANNELS} channels"
        )
    return values if values.dtype.kind == "f" else _scaled(values)


def check_kind(sound: object) -> None:
    """Whether that can be samples at all, whatever its values are.

    Raises:
        AudioError: it is something else, with what to do about it where that is known.
    """
    kind, advice = type(sound).__name__, "an array or a tensor"
    if isinstance(sound, bytes | bytearray | memoryview):
        advice = "np.frombuffer(data, np.int16) of raw PCM, or io.BytesIO(data) of a sound file's bytes"
    elif isinstance(sound, Mapping):
        advice = "the array in it alone, and its rate as an argument of its own"
    elif isinstance(sound, list | tuple) and {is_number(part) for part in sound[:9]} == {True, False}:
        advice = "its samples alone, and their rate as an argument of its own"
    elif not (sound is None or isinstance(sound, str | PathLike | Set) or hasattr(sound, "read")):
        return
    raise AudioError(f"samples are numbers, not {kind}: give {advice}")


def is_number(value: object) -> bool:
    """Whether that is one number, as a sample or a rate is."""
    return isinstance(value, Real) and not isinstance(value, bool)


def channel_axis(shape: tuple[int, ...], known: Layout | None = None) -> int | None:
    """The axis that is the channels', None where there is one axis or more than two."""
    if len(shape) != 2:
        return None
    if known is not None and shape[known[0]] == known[1]:
        return known[0]
    return 0 if shape[0] < shape[1] and shape[1] > FEW_CHANNELS else 1


def _scaled(values: np.ndarray) -> np.ndarray:
    """Integers as float32 in [-1, 1)."""
    bits = 8 * values.dtype.itemsize
    if bits == 64:
        bits = 16
        if values.size and max(-int(values.min()), int(values.max())) > 2**15:
            raise AudioError(
                "samples of 64-bit integers beyond 16 bits: give them as int16, int32 or floats in [-1, 1]"
            )
    full_scale = 2.0 ** (bits - 1)
    zero = full_scale if values.dtype.kind == "u" and values.dtype.itemsize < 8 else 0.0
    return ((values.astype(np.float64) - zero) / full_scale).astype(np.float32)


class Intake:
    """Takes in one source's samples, piece by piece, and says once what was wrong with them.

    - What is no finite number, or as large as no sound is, becomes 0.
    - What is beyond full scale is clipped, so that a single wild value moves no level. Where a good part of a piece is
      beyond it, the floats hold integers: they are scaled from there on.
    - Channels are averaged; where they cancel each other (one of two microphones with its poles exchanged), the
      strongest is taken.

    Args:
        rate: of the samples (hertz).
        tell: gets a line the first time that each of these is met.
    """

    def __init__(self, rate: float, tell: Callable[[str], None] | None = None) -> None:
        self._rate = rate
        self._tell = tell
        self._told: set[str] = set()
        self._layout: Layout | None = None
        self._scale = 1.0
        self._power: np.ndarray | None = None  # of the channels and of their mix, averaged over `_MEMORY`
        self._taken: int | None = None  # the channel that stands for all, None: their mix does

    def __call__(self, sound: Samples) -> np.ndarray:
        """The next piece, see `as_array`, as float32 `(time,)` in [-1, 1], which may be written to.

        Raises:
            AudioError: it is nothing that samples can be taken from.
        """
        values = as_array(sound, self._layout)
        if self._layout is None and values.ndim == 2:
            shape = np.shape(sound)
            axis = channel_axis(shape)
            self._layout = axis, shape[axis]
        return np.require(self.mix(self.clean(values)), requirements="CW")

    def clean(self, values: np.ndarray) -> np.ndarray:
        """Floats of any shape as finite float32 in [-1, 1]."""
        size = np.abs(values)
        if self._scale != 1 or not (size <= 1).all():
            values = self._repair(values, size)
        return values.astype(np.float32, copy=False)

    def mix(self, samples: np.ndarray) -> np.ndarray:
        """Clean samples `(time, channels)` as one channel `(time,)`; `(time,)` stays as it is."""
        if samples.ndim == 1:
            return samples
        if samples.shape[1] == 1:
            return samples[:, 0]
        mixed = samples.mean(1, dtype=np.float32)
        if len(samples):
            self._compare(samples, mixed)
        return mixed if self._taken is None else samples[:, self._taken]

    def _repair(self, values: np.ndarray, size: np.ndarray) -> np.ndarray:
        sound = size <= _NO_SOUND
        if not sound.all():
            self._say("damage", "values that are no sound (NaN, infinite or enormous) are taken as silence")
            values, size = np.where(sound, values, 0), np.where(sound, size, 0)
        if self._scale == 1 and _are_integers(values, size):
            self._scale = 2.0**15 if np.quantile(size, 0.9) <= 2.0**15 else 2.0**31
            most = f"{size.max():.0f}"
            self._say("scale", f"floats of up to {most}, where full scale is 1: taken for integers, and scaled")
        if self._scale == 1 and size.max() > _FAR_BEYOND:
            self._say("clipped", f"values of up to {size.max():.3g}, where full scale is 1, are clipped")
        return np.clip(values / self._scale, -1, 1)

    def _compare(self, samples: np.ndarray, mixed: np.ndarray) -> None:
        """Follows the power of channels and mix, and decides which of them is taken."""
        power = np.append(np.square(samples).mean(0), np.square(mixed).mean())
        keep = 0.0
        if self._power is not None and len(self._power) == len(power):
            keep = float(np.exp(-len(samples) / self._rate / _MEMORY))
        elif self._taken is not None and self._taken >= samples.shape[1]:
            self._taken = None
        self._power = power if keep == 0.0 else keep * self._power + (1 - keep) * power
        channels, mix = self._power[:-1], self._power[-1]
        if channels.max() < _AUDIBLE:
            return
        if mix >= _CANCELLED * channels.sum() / len(channels) ** 2:
            self._taken = None
        elif self._taken is None or channels[self._taken] < channels.max() / 2:
            self._taken = int(channels.argmax())
            self._say(
                "channels", "its channels cancel each other (one has its poles exchanged): the strongest is taken"
            )

    def _say(self, kind: str, line: str) -> None:
        if self._tell is not None and kind not in self._told:
            self._tell(line)
        self._told.add(kind)


def _are_integers(values: np.ndarray, size: np.ndarray) -> bool:
    """Whether floats, with their absolute values, are on the scale of integers."""
    if np.count_nonzero(size > 1) <= max(_OTHER_SCALE * size.size, _AT_LEAST):
        return False
    return bool((values == np.rint(values)).all() or np.quantile(size, 1 - _OTHER_SCALE) > _HOTTEST)
