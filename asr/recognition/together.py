"""Recordings decoded together: first passes in step, utterances read in batches, results those of single files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from asr.events import Endpoint, Event, Final
from asr.nn.encoder import SUBSAMPLING
from asr.nn.speech_model import SpeechModel
from asr.recognition.endpoint import Segment
from asr.recognition.first_pass import Prepared, first_pass
from asr.recognition.recognizer import Recognizer
from asr.recognition.second_pass import ReadWord
from asr.recognition.second_pass_rows import Unread, read_utterances
from asr.recognition.stream import TAIL, Stream, StreamOptions

READ_TOGETHER = 8  # utterances of a long recording


class DeferredStream(Stream):
    """A stream whose utterances are read later, several at once."""

    def __init__(self, recognizer: Recognizer, options: StreamOptions, prepared: Prepared | None = None) -> None:
        gate = recognizer.gate if options.vad else None
        super().__init__(prepared or recognizer.model, replace(options, partials="off"), gate=gate)
        self.unread: list[tuple[Segment, Unread]] = []

    def _read(self, segment: Segment) -> list[Event]:
        if not self.options.second_pass:
            return super()._read(segment)
        start, end = segment.start - self._base, segment.end - self._base
        frames = self._log_power[:, start * SUBSAMPLING : end * SUBSAMPLING].clone()
        sounding = self._samples // self.model.config.features.hop - segment.start * SUBSAMPLING
        self.unread.append((segment, Unread(frames, max(1, sounding), self._speech(segment.start, segment.end))))
        return []

    def events(self, segment: Segment, words: Sequence[ReadWord]) -> list[Event]:
        """The events of an utterance whose words have been read."""
        endpoint = Endpoint(self._time(segment.end), segment.reason)
        if not words:
            return [endpoint]
        timed = tuple(self._word(word, segment.start) for word in words)
        text = " ".join(word.text for word in words)
        return [Final(text, self._time(segment.start), self._time(segment.end), timed), endpoint]


def block_seconds(model: SpeechModel, options: StreamOptions) -> float:
    """Length of the blocks (seconds) in which a recording is fed, so that each completes one chunk at most.

    Results then do not depend on how the recording came in.
    """
    return max(1, model.positions(options.chunk_ms)) * model.position_seconds


def decode_together(
    recognizer: Recognizer, recordings: Sequence[np.ndarray], options: StreamOptions
) -> list[list[Event]]:
    """The events of each of several recordings `(samples,)` at the recogniser's rate."""
    model, rate = recognizer.model, recognizer.sample_rate
    chunk = max(1, model.positions(options.chunk_ms))
    passes = first_pass(model, recordings, chunk, model.positions(options.look_ahead_ms), round(TAIL * rate))
    block = round(block_seconds(model, options) * rate)
    streams, events = [], []
    for samples, prepared in zip(recordings, passes, strict=True):
        stream = DeferredStream(recognizer, options, Prepared(model, prepared))
        heard = [e for start in range(0, len(samples), block) for e in stream.accept(samples[start:][:block], rate)]
        events.append(heard + stream.finish())
        streams.append(stream)
    unread = [(row, *utterance) for row, stream in enumerate(streams) for utterance in stream.unread]
    words = read_utterances(model, [utterance for _, _, utterance in unread])
    for (row, segment, _), read in zip(unread, words, strict=True):
        events[row] += streams[row].events(segment, read)
    return events


def decode_long(recognizer: Recognizer, blocks: Iterable[np.ndarray], options: StreamOptions) -> Iterator[Event]:
    """The events of one recording of any length, in memory that does not grow.

    Args:
        recognizer: the recogniser.
        blocks: its samples `(samples,)`, best in blocks of `block_seconds`.
        options: as for a stream.
    """
    stream = DeferredStream(recognizer, options)
    for block in blocks:
        yield from _advance(stream, block, recognizer.sample_rate)
    yield from stream.finish()
    yield from _read_all(stream)


def decode_channels(
    recognizer: Recognizer, blocks: Iterable[np.ndarray], options: StreamOptions, separate: bool
) -> Iterator[tuple[Event, int | None]]:
    """The events of one long recording, with the channel (from 1) of each if `separate`.

    Args:
        recognizer: the recogniser.
        blocks: `(samples,)`, or `(samples, channels)` with `separate`.
        options: as for streams, one for each channel.
        separate: channels are kept apart.
    """
    if not separate:
        for event in decode_long(recognizer, blocks, options):
            yield event, None
        return
    streams: list[DeferredStream] = []
    for block in blocks:
        streams = streams or [DeferredStream(recognizer, options) for _ in range(block.shape[1])]
        for number, stream in enumerate(streams, start=1):
            for event in _advance(stream, block[:, number - 1], recognizer.sample_rate):
                yield event, number
    for number, stream in enumerate(streams, start=1):
        for event in chain(stream.finish(), _read_all(stream)):
            yield event, number


def _advance(stream: DeferredStream, block: np.ndarray, rate: int) -> Iterator[Event]:
    yield from stream.accept(block, rate)
    if len(stream.unread) >= READ_TOGETHER:
        yield from _read_all(stream)


def _read_all(stream: DeferredStream) -> Iterator[Event]:
    words = read_utterances(stream.model, [utterance for _, utterance in stream.unread])
    for (segment, _), read in zip(stream.unread, words, strict=True):
        yield from stream.events(segment, read)
    stream.unread.clear()
