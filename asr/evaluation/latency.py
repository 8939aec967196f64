"""When words are on the screen: latency of partials and finals, how right they are by then, and how steady."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from difflib import Match, SequenceMatcher

import numpy as np

from asr.evaluation.wer import ErrorRate, error_rate
from asr.events import Endpoint, Event, Final, Partial
from asr.recognition.recognizer import Recognizer, StreamOptions
from asr.text import normalise

BLOCK = 0.02  # s of sound that a microphone hands over at a time
SILENCE = 3.0  # s after each recording, so that the last utterance ends by its pause
SOON = 1.0  # s after a word's end at which partials are scored
PERCENTILES = (50, 90, 99)


@dataclass(frozen=True)
class Spoken:
    """Samples `(time,)` at the recogniser's rate, and what is said in them, if it is known."""

    samples: np.ndarray
    text: str | None = None


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
        computing: the rest of it.
        chunks: time that each chunk took to compute, the second pass apart.
        finals: for each utterance, from its endpoint (known by the pause after it) to its final.
        ends: for each utterance, from the end of its last word to its final: the pause and `finals`.
        sound: seconds of sound.
        work: seconds of computing.
        unseen: words of finals that no partial showed.
        taken_back: words of partials that a later partial of the same utterance changed or removed.
        final_words: words of all finals.
        stable_taken_back: words shown as stable that were changed all the same.
        last_errors: of the last partial before each final, against the references (without one: the finals).
        soon_errors: of the words as they stood `SOON` after each had been said, likewise.
        final_errors: of the finals, likewise.
    """

    words: list[float] = field(default_factory=list)
    algorithmic: list[float] = field(default_factory=list)
    computing: list[float] = field(default_factory=list)
    chunks: list[float] = field(default_factory=list)
    finals: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    sound: float = 0.0
    work: float = 0.0
    unseen: int = 0
    taken_back: int = 0
    final_words: int = 0
    stable_taken_back: int = 0
    last_errors: ErrorRate = field(default_factory=lambda: error_rate("", ""))
    soon_errors: ErrorRate = field(default_factory=lambda: error_rate("", ""))
    final_errors: ErrorRate = field(default_factory=lambda: error_rate("", ""))

    @property
    def unstable_ratio(self) -> float:
        """Unstable partial word ratio (Shangguan et al. 2020): words taken back for each word of the finals."""
        return self.taken_back / max(1, self.final_words)

    @property
    def load(self) -> float:
        """Seconds of computing for each second of sound."""
        return self.work / self.sound if self.sound else 0.0

    def percentile(self, name: str, q: int) -> float:
        """Milliseconds of the q-th percentile of one of the lists; not a number when it is empty."""
        values = getattr(self, name)
        return 1000 * float(np.percentile(values, q)) if values else float("nan")

    def as_dict(self) -> dict[str, float]:
        """Plain JSON values: milliseconds (the median, 90th and 99th percentile of each), error rates in percent."""
        names = ("words", "algorithmic", "computing", "chunks", "finals", "ends")
        return {f"{name}_p{q}_ms": round(self.percentile(name, q), 1) for name in names for q in PERCENTILES} | {
            "last_partial_wer": round(self.last_errors.wer, 2),
            "partial_wer_after_1_s": round(self.soon_errors.wer, 2),
            "final_wer": round(self.final_errors.wer, 2),
            "load": round(self.load, 4),
            "final_words": self.final_words,
            "unseen_words": self.unseen,
            "unstable_partial_word_ratio": round(self.unstable_ratio, 4),
            "stable_words_taken_back": self.stable_taken_back,
        }


def measure_latency(
    recognizer: Recognizer,
    recordings: Iterable[Spoken],
    options: StreamOptions,
    report: LatencyReport,
    clock: Callable[[], float] = time.perf_counter,
) -> None:
    """Plays recordings to streams block by block, as a microphone would, and adds to the report.

    The time of day is simulated: a block is there when its last sample has been spoken, and computing takes the time
    that it takes here by `clock` (seconds). A word's end is where the final's forced alignment has it.
    """
    for recording in recordings:
        stream, size = recognizer.stream(options), round(BLOCK * recognizer.sample_rate)
        watched, now = _Screen(report), 0.0
        silence = np.zeros(round(SILENCE * recognizer.sample_rate), np.float32)
        sound = np.concatenate([recording.samples, silence])
        for start in range(0, len(sound), size):
            block, chunks = sound[start : start + size], stream.chunks
            arrived = (start + len(block)) / recognizer.sample_rate
            begun = clock()
            events = stream.accept(block, recognizer.sample_rate)
            took = clock() - begun
            now = max(now, arrived) + took
            report.work += took
            if stream.chunks > chunks and not any(isinstance(event, Final) for event in events):
                report.chunks.append(took)
            for event in events:
                watched.show(event, arrived, now)
        report.sound += len(sound) / recognizer.sample_rate
        watched.score(recording.text)


class _Screen:
    """What one recording's events put on the screen, and when."""

    def __init__(self, report: LatencyReport) -> None:
        self.report = report
        self.shown: list[Shown] = []  # of the open utterance
        self.last: list[str] = []
        self.soon: list[str] = []
        self.final: list[str] = []

    def show(self, event: Event, arrived: float, now: float) -> None:
        if isinstance(event, Partial):
            self._count_changes(event)
            self.shown.append(Shown(normalise(event.text).split(), event.stable, arrived, now))
        elif isinstance(event, Final):
            words = [(part, word.end) for word in event.words for part in normalise(word.text).split()]
            self._count_words(words)
            self.soon += self._stood(words, now)
            self.final += [word for word, _ in words]
            self.report.finals.append(now - arrived)
            self.report.ends.append(now - max((word.end for word in event.words), default=event.end))
        elif isinstance(event, Endpoint):
            self.last += self.shown[-1].words if self.shown else []
            self.shown = []

    def score(self, text: str | None) -> None:
        reference = " ".join(self.final) if text is None else text
        self.report.last_errors += error_rate(reference, " ".join(self.last))
        self.report.soon_errors += error_rate(reference, " ".join(self.soon))
        self.report.final_errors += error_rate(reference, " ".join(self.final))

    def _count_changes(self, partial: Partial) -> None:
        if not self.shown:
            return
        before, now = self.shown[-1].words, normalise(partial.text).split()
        self.report.taken_back += len(before) - sum(block.size for block in _matches(before, now))
        if not partial.text.startswith(self.shown[-1].stable):
            self.report.stable_taken_back += len(self.shown[-1].stable.split())

    def _count_words(self, words: list[tuple[str, float]]) -> None:
        """When each word of a final, given with its end, was first on the screen."""
        report = self.report
        report.final_words += len(words)
        waiting = dict(enumerate(words))
        for partial in self.shown:
            for block in _matches([word for word, _ in words], partial.words):
                for index in range(block.a, block.a + block.size):
                    if index in waiting:
                        _, end = waiting.pop(index)
                        report.words.append(partial.clock - end)
                        report.algorithmic.append(partial.heard - end)
                        report.computing.append(partial.clock - partial.heard)
        report.unseen += len(waiting)

    def _stood(self, words: list[tuple[str, float]], final_clock: float) -> list[str]:
        """What stood in the place of each word of a final `SOON` after the word's end."""
        spoken = [word for word, _ in words]
        stood: list[str] = []
        for index, (word, end) in enumerate(words):
            if final_clock <= end + SOON:
                stood.append(word)
                continue
            partial = next((p for p in reversed(self.shown) if p.clock <= end + SOON), None)
            if partial is not None:
                stood += in_place(spoken, partial.words)[index]
        return stood


def in_place(spoken: list[str], written: list[str]) -> list[list[str]]:
    """The words of a text that stand in the place of each word of another."""
    places: list[list[str]] = [[] for _ in spoken]
    for kind, a, a_end, b, b_end in SequenceMatcher(None, spoken, written, autojunk=False).get_opcodes():
        if kind == "insert" and spoken:
            places[max(0, a - 1)] += written[b:b_end]
            continue
        for i, word in enumerate(written[b:b_end]):
            places[a + i * (a_end - a) // (b_end - b)].append(word)
    return places


def _matches(a: list[str], b: list[str]) -> list[Match]:
    return SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
