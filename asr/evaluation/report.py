"""Error rates and speed of a recogniser over a manifest."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from asr.errors import ManifestError
from asr.evaluation.english import spoken_form
from asr.evaluation.wer import EmptyReference, ErrorRate, error_rate
from asr.events import Endpoint, Final, Partial
from asr.manifest import Manifest
from asr.recognition.recognizer import Recognizer, StreamOptions
from asr.text import TEXT_FORMS, text_form


@dataclass(frozen=True)
class FileResult:
    """One file: what was said, what was written, and the errors, strictly counted and between normalised texts."""

    name: str
    reference: str
    hypothesis: str
    seconds: float
    errors: ErrorRate
    normalised: ErrorRate


@dataclass
class Report:
    """Results so far; `files` decodes and fills it.

    Attributes:
        audio_seconds: sound decoded.
        decode_seconds: time that reading and decoding took.
        failures: a line for each file that could not be read, or has a text that cannot be compared.
        warnings: a line for each file that is damaged or not what its manifest says.
        total: errors between texts as the model was taught to write them: strictly counted.
        normalised: errors between texts in `spoken_form`.
    """

    recognizer: Recognizer
    manifest: Manifest
    options: StreamOptions
    expected: int
    results: list[FileResult] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    audio_seconds: float = 0.0
    decode_seconds: float = 0.0
    total: ErrorRate = field(default_factory=ErrorRate)
    normalised: ErrorRate = field(default_factory=ErrorRate)

    @property
    def form(self) -> str:
        """How texts are written for the strict count, by the names of `data.text`: as the model's alphabet has it."""
        return text_form(self.recognizer.model.tokenizer.alphabet())

    @property
    def count(self) -> int:
        return len(self.results)

    @property
    def rtf(self) -> float:
        """Real-time factor: seconds of work for a second of sound."""
        return self.decode_seconds / self.audio_seconds if self.audio_seconds else 0.0

    def files(self) -> Iterator[FileResult]:
        """Decodes file after file."""
        strict = TEXT_FORMS[self.form]
        for index in range(self.expected):
            utterance = self.manifest[index]
            begun = time.perf_counter()
            try:
                _ = [error_rate(utterance.text, "", form) for form in (strict, spoken_form)]
                samples = self.manifest.read_audio(utterance, self.recognizer.sample_rate, self.warnings.append)
            except EmptyReference as error:
                self.failures.append(f"{self.manifest.path}: {utterance.audio!r}: {error}")
                continue
            except ManifestError as error:
                self.failures.append(str(error))
                continue
            text = self._read(samples)
            self.decode_seconds += time.perf_counter() - begun
            seconds = len(samples) / self.recognizer.sample_rate
            self.audio_seconds += seconds
            errors, normalised = (error_rate(utterance.text, text, form) for form in (strict, spoken_form))
            self.total, self.normalised = self.total + errors, self.normalised + normalised
            self.results.append(FileResult(utterance.audio, utterance.text, text, seconds, errors, normalised))
            yield self.results[-1]

    def _read(self, samples: np.ndarray) -> str:
        """The text of one file: its finals, or with partials the last one of each utterance."""
        rate, wanted = self.recognizer.sample_rate, Final if self.options.partials == "off" else Partial
        stream, last, texts = self.recognizer.stream(self.options), "", []
        for event in stream.accept(samples, rate) + stream.finish():
            if isinstance(event, wanted):
                last = event.text
            elif isinstance(event, Endpoint):
                texts.append(last)
                last = ""
        return " ".join(texts)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values: rates in percent, times in seconds."""
        endpoint = self.options.endpoint
        return {
            **self.total.as_dict(),
            "text": self.form,
            "normalised": self.normalised.as_dict(),
            "audio_seconds": round(self.audio_seconds, 3),
            "decode_seconds": round(self.decode_seconds, 3),
            "rtf": round(self.rtf, 4),
            "options": {
                "chunk_ms": self.options.chunk_ms,
                "look_ahead_ms": self.options.look_ahead_ms,
                "second_pass": self.options.second_pass,
                "partials": self.options.partials,
                "vad": self.options.vad,
                "utterances": endpoint is None,
                "endpoint": None if endpoint is None else asdict(endpoint),
            },
            "failures": self.failures,
            "warnings": self.warnings,
            "files": [
                {
                    "file": r.name,
                    "seconds": round(r.seconds, 3),
                    "reference": r.reference,
                    "hypothesis": r.hypothesis,
                    **r.errors.as_dict(),
                    "normalised": r.normalised.as_dict(),
                }
                for r in self.results
            ],
        }


def evaluate_manifest(
    recognizer: Recognizer, manifest: Manifest, options: StreamOptions, limit: int | None = None
) -> Report:
    """A report over the first `limit` utterances (default: all), to be filled by iterating over `Report.files`."""
    return Report(recognizer, manifest, options, min(limit or len(manifest), len(manifest)))
