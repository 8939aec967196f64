"""Sound for tests: the recording that the repository carries, with what is said in it, and noise like speech."""

from pathlib import Path

import numpy as np
import pytest

from asr.events import Endpoint

SAMPLE = Path(__file__).parent / "data" / "sample.flac"
TEXTS = SAMPLE.with_suffix(".txt").read_text().splitlines()
RATE = 16000


def check_equal(together, single, *, word_times=True):
    """The same events, confidences but for rounding.

    `word_times` off: where words lie, by CTC that is no more than noise, may differ: its alignments are ties.
    """
    assert [type(e) for e in together] == [type(e) for e in single]
    for a, b in zip(together, single, strict=True):
        if isinstance(a, Endpoint):
            assert a == b
            continue
        assert (a.text, a.start, a.end) == (b.text, b.start, b.end)
        assert [w.text for w in a.words] == [w.text for w in b.words]
        if word_times:
            assert [(w.start, w.end) for w in a.words] == [(w.start, w.end) for w in b.words]
        assert [w.confidence for w in a.words] == pytest.approx([w.confidence for w in b.words], abs=1e-3)


def speech_like(seed: int, seconds: float) -> np.ndarray:
    """Bursts of noise at changing levels with pauses."""
    g = np.random.default_rng(seed)
    size = round(seconds * RATE)
    level = np.repeat(g.choice([0, 1e-4, 0.05, 0.3], size // 4000 + 1), 4000)[:size]
    return (g.normal(0, 1, size) * level).clip(-1, 1).astype(np.float32)
