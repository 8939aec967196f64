"""Change of sample rate while the sound arrives, with no seam between the pieces."""

import numpy as np

from asr.audio.samples import check_rate


class StreamResampler:
    """Resamples one signal that comes in pieces of any length.

    The pieces together give what one call on the whole signal would give: the filter's state is kept between calls.

    Args:
        source_rate: rate of the samples that come in (hertz).
        target_rate: rate of the samples that go out (hertz).
        channels: more than one: samples are (n, channels).

    Raises:
        AudioError: a rate is none that sound has.
    """

    def __init__(self, source_rate: float, target_rate: float, channels: int = 1):
        check_rate(source_rate)
        check_rate(target_rate)
        self.source_rate = source_rate
        self.target_rate = target_rate
        self._stream = None
        if source_rate != target_rate:
            import soxr

            self._stream = soxr.ResampleStream(source_rate, target_rate, channels, dtype="float32", quality="HQ")

    def __call__(self, samples: np.ndarray, last: bool = False) -> np.ndarray:
        """Resample the next piece.

        Args:
            samples: the next samples at `source_rate`, (n,); n may be 0.
            last: no samples follow; what the filter still holds comes out, and the resampler is used up.

        Returns:
            the samples at `target_rate` that are ready, float32, (m,); m may be 0 while the filter fills.
        """
        samples = np.ascontiguousarray(samples, dtype=np.float32)
        if self._stream is None:
            return samples
        return self._stream.resample_chunk(samples, last=last)
