"""When words are on the screen: latency of partials and finals, and how steady partials are."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import Match, SequenceMatcher

import numpy as np

from asr.events import Endpoint, Final, Partial
from asr.recognizer import Recognizer, StreamOptions
from asr.text import normalise

BLOCK = 0.02  # s of sound that a microphone hands over at a time


@dataclass(frozen=True)
class Shown:
    """A partial as it came on the screen: its words, the stream time up to which it had heard, and the clock then."""

    words: list[str]
    stable: str
    heard: float
    clock: float


@dataclass
class LatencyReport:
    """Seconds, collected over recordings.

    Attributes:
        words: for each word that a partial showed, from the word's end to the screen.
        algorithmic: the share of that which was waiting for sound: chunk and look-ahead.
        finals: for each utterance, from its endpoint (known by the pause after it) to its final.
        chunks: time that each chunk took to compute, the second pass apart.
        unseen: words of finals that no partial showed.
        taken_back: words of partials that a later partial of the same utterance changed or removed.
        final_words: words of all finals.
        stable_taken_back: words shown as stable that were changed all the same.
    """

    words: list[float] = field(default_factory=list)
    algorithmic: list[float] = field(default_factory=list)
    finals: list[float] = field(default_factory=list)
    chunks: list[float] = field(default_factory=list)
    unseen: int = 0
    taken_back: int = 0
    final_words: int = 0
    stable_taken_back: int = 0

    @property
    def unstable_ratio(self) -> float:
        """Unstable partial word ratio (Shangguan et al. 2020): words taken back for each word of the finals."""
        return self.taken_back / max(1, self.final_words)

    def as_dict(self) -> dict[str, float]:
        """Milliseconds: the median, 90th and 99th percentile of each."""
        out: dict[str, float] = {}
        for name in ("words", "algorithmic", "chunks", "finals"):
            values = getattr(self, name)
            for q in (50, 90, 99):
                out[f"{name}_p{q}_ms"] = round(1000 * float(np.percentile(values, q)), 1) if values else float("nan")
        return out | {
            "final_words": self.final_words,
            "unseen_words": self.unseen,
            "unstable_partial_word_ratio": round(self.unstable_ratio, 4),
            "stable_words_taken_back": self.stable_taken_back,
        }


def measure_latency(
    recognizer: Recognizer, recordings: Iterable[np.ndarray], options: StreamOptions, report: LatencyReport
) -> None:
    """Plays recordings `(samples,)` to streams block by block, as a microphone would, and adds to the report.

    The clock is simulated: a block is there when its last sample has been spoken, and computing takes the time that it
    takes here. A word's end is where the final's forced alignment has it.
    """
    for samples in recordings:
        stream, clock = recognizer.stream(options), 0.0
        shown: list[Shown] = []
        size = round(BLOCK * recognizer.sample_rate)
        silence = np.zeros(3 * recognizer.sample_rate, np.float32)  # so that the last utterance ends by its pause
        sound = np.concatenate([samples, silence])
        for start in range(0, len(sound), size):
            block = sound[start : start + size]
            arrived = (start + len(block)) / recognizer.sample_rate
            begun = time.perf_counter()
            events = stream.accept(block, recognizer.sample_rate)
            took = time.perf_counter() - begun
            clock = max(clock, arrived) + took
            if any(isinstance(event, Partial) for event in events) and not any(isinstance(e, Final) for e in events):
                report.chunks.append(took)
            for event in events:
                if isinstance(event, Partial):
                    _count_changes(shown, event, report)
                    shown.append(Shown(normalise(event.text).split(), event.stable, arrived, clock))
                elif isinstance(event, Final):
                    _count_words(shown, event, report)
                    report.finals.append(clock - arrived)
                elif isinstance(event, Endpoint):
                    shown = []


def _count_changes(shown: list[Shown], partial: Partial, report: LatencyReport) -> None:
    if not shown:
        return
    before, now = shown[-1].words, normalise(partial.text).split()
    kept = sum(block.size for block in _matches(before, now))
    report.taken_back += len(before) - kept
    if not partial.text.startswith(shown[-1].stable):
        report.stable_taken_back += len(shown[-1].stable.split())


def _count_words(shown: list[Shown], final: Final, report: LatencyReport) -> None:
    words = [(part, word.end) for word in final.words for part in normalise(word.text).split()]
    report.final_words += len(words)
    waiting = dict(enumerate(words))
    for partial in shown:
        for block in _matches([word for word, _ in words], partial.words):
            for index in range(block.a, block.a + block.size):
                if index in waiting:
                    _, end = waiting.pop(index)
                    report.words.append(partial.clock - end)
                    report.algorithmic.append(partial.heard - end)
    report.unseen += len(waiting)


def _matches(a: list[str], b: list[str]) -> list[Match]:
    return SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
