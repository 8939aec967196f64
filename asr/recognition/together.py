"""Recordings decoded together: first passes in step, utterances read in groups, results those of single streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from asr.events import Event
from asr.nn.speech_model import Chunk, SpeechModel
from asr.recognition.first_pass import FirstPass, first_passes
from asr.recognition.recognizer import Recognizer
from asr.recognition.second_pass import read_utterances
from asr.recognition.segments import Clock, Segments, Utterance
from asr.recognition.stream import StreamOptions

READ_TOGETHER = 8  # utterances of a long recording


def block_seconds(model: SpeechModel, options: StreamOptions) -> float:
    """Length of the blocks (seconds) in which a recording is best fed: a chunk."""
    return options.positions(model)[0] * model.position_seconds


@torch.inference_mode()
def decode_together(
    recognizer: Recognizer, recordings: Sequence[np.ndarray], options: StreamOptions
) -> list[list[Event]]:
    """The events of each of several recordings `(samples,)` at the recogniser's rate."""
    model, rate = recognizer.model, recognizer.sample_rate
    passes = first_passes(model, [torch.from_numpy(samples) for samples in recordings], *options.positions(model))
    found: list[tuple[int, Utterance]] = []
    for number, (samples, (log_power, chunks)) in enumerate(zip(recordings, passes, strict=True)):
        segments = _segments(recognizer, options)
        segments.hear(log_power)
        sounding = len(samples) // model.config.features.hop
        found += [(number, one) for chunk in chunks for one in segments.accept(chunk, sounding)]
        found += [(number, one) for one in segments.finish(sounding)]
    events: list[list[Event]] = [[] for _ in recordings]
    words = read_utterances(model, [utterance for _, utterance in found], options.second_pass)
    for (number, utterance), read in zip(found, words, strict=True):
        clock = Clock(model.position_seconds, len(recordings[number]) / rate)
        events[number] += clock.events(utterance.segment, read)
    return events


class LongRecording:
    """One recording of any length, in memory that does not grow; its utterances are read several at a time.

    Args:
        recognizer: the recogniser.
        options: as for a stream; partials are not made.
    """

    def __init__(self, recognizer: Recognizer, options: StreamOptions) -> None:
        self._model, self._options = recognizer.model, options
        self._first = FirstPass(recognizer.model, *options.positions(recognizer.model))
        self._segments = _segments(recognizer, options)
        self._unread: list[Utterance] = []

    @torch.inference_mode()
    def accept(self, samples: np.ndarray) -> list[Event]:
        """The next samples `(samples,)` at the recogniser's rate."""
        for heard in self._first.accept(torch.from_numpy(np.ascontiguousarray(samples))):
            self._hear(*heard)
        return self._read() if len(self._unread) >= READ_TOGETHER else []

    @torch.inference_mode()
    def finish(self) -> list[Event]:
        """The end of the recording."""
        self._hear(*self._first.finish())
        self._unread += self._segments.finish(self._sounding)
        return self._read()

    @property
    def _sounding(self) -> int:
        return self._first.samples // self._model.config.features.hop

    def _hear(self, log_power: Tensor, chunks: Sequence[Chunk]) -> None:
        self._segments.hear(log_power)
        for chunk in chunks:
            self._unread += self._segments.accept(chunk, self._sounding)
            self._segments.forget()

    def _read(self) -> list[Event]:
        clock = Clock(self._model.position_seconds, self._first.samples / self._model.config.features.sample_rate)
        words = read_utterances(self._model, self._unread, self._options.second_pass)
        events = [
            event
            for utterance, read in zip(self._unread, words, strict=True)
            for event in clock.events(utterance.segment, read)
        ]
        self._unread.clear()
        return events


def decode_long(
    recognizer: Recognizer, blocks: Iterable[np.ndarray], options: StreamOptions, separate: bool = False
) -> Iterator[tuple[Event, int | None]]:
    """The events of one long recording, with the channel (from 1) of each if `separate`.

    Args:
        recognizer: the recogniser.
        blocks: its samples at the recogniser's rate, `(samples,)`, or `(samples, channels)` with `separate`.
        options: as for streams, one for each channel.
        separate: channels are kept apart.
    """
    recordings: list[LongRecording] = []
    for block in chain(blocks, [None]):
        channels = () if block is None else block.T if separate else block[None]
        recordings += [LongRecording(recognizer, options) for _ in channels[len(recordings) :]]
        for number, recording in enumerate(recordings, start=1):
            events = recording.finish() if block is None else recording.accept(channels[number - 1])
            for event in events:
                yield event, number if separate else None


def _segments(recognizer: Recognizer, options: StreamOptions) -> Segments:
    gate = recognizer.gate if options.vad else None
    return Segments(recognizer.model, options.endpoint, gate, options.positions(recognizer.model)[1])
