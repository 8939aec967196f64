"""Samples of one stream to its utterances, and to what is said of the one that is open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from torch import Tensor

from asr.errors import AsrError
from asr.events import Partial
from asr.nn.gate import SpeechGate
from asr.nn.speech_model import Chunk, SpeechModel
from asr.recognition.first_pass import ChunkEncoder, FirstPass
from asr.recognition.options import StreamOptions
from asr.recognition.partials import Partials
from asr.recognition.segments import Clock, Segments, Utterance
from asr.search.hotwords import Hotword, Hotwords, as_hotword


class Segmenter:
    """Finds the utterances of one stream.

    Args:
        model: the model.
        options: how it is decoded.
        gate: the speech gate; None: chunks are always encoded, and `options.vad` is off.

    Attributes:
        chunks: chunks heard so far.
        hotwords: that partials of the next utterance lean towards.
        hurries: there are no more partials.
    """

    def __init__(self, model: SpeechModel, options: StreamOptions, gate: SpeechGate | None) -> None:
        self.model, self.chunks = model, 0
        self.hotwords: Hotwords | None = None
        self.hurries = False
        chunk, look_ahead = options.positions(model)
        self._first = FirstPass(model, chunk, look_ahead)
        self._encoder = ChunkEncoder(model, chunk) if options.first_pass or gate is None else None
        self._segments = Segments(model, options.endpoint, gate, look_ahead, options.vad)
        decoder = options.partials in ("decoder", "auto") and model.decoder is not None
        self._partials = None if options.partials == "off" else Partials(model, self._segments, look_ahead, decoder)

    @property
    def clock(self) -> Clock:
        """Stream time, as far as samples have come."""
        return Clock(self.model.position_seconds, self._first.samples / self.model.config.features.sample_rate)

    def accept(self, samples: Tensor) -> Iterator[Utterance | Partial]:
        """The next samples `(time,)` at the model's rate -> utterances that end, partials of the open one."""
        for log_power, chunks in self._first.accept(samples):
            yield from self._hear(log_power, chunks)

    def finish(self) -> Iterator[Utterance | Partial]:
        """The end of the stream, as `accept` gives it."""
        yield from self._hear(*self._first.finish())
        if self._encoder is not None:
            for chunk in self._encoder.finish():
                yield from self._go_on(chunk)
        for utterance in self._segments.finish(self._sounding):
            yield self._ended(utterance)

    def read_partials(self, decoder: bool) -> None:
        """Partials are the decoder's from the next utterance on, or greedy CTC at once."""
        self._partials.read(decoder)

    @property
    def _sounding(self) -> int:
        """Frames of the stream so far that are no padding."""
        return self._first.samples // self.model.config.features.hop

    def _hear(self, log_power: Tensor, chunks: Sequence[Chunk]) -> Iterator[Utterance | Partial]:
        self._segments.hear(log_power)
        for chunk in chunks:
            self.chunks += 1
            encoded = [chunk]
            if self._encoder is not None:
                encoded = self._encoder.accept(chunk, self._segments.awake(chunk))
            for one in encoded:
                yield from self._go_on(one)

    def _go_on(self, chunk: Chunk) -> Iterator[Utterance | Partial]:
        segments, partials = self._segments, self._partials
        if partials is not None:
            partials.append(chunk)
        for utterance in segments.accept(chunk, self._sounding):
            yield self._ended(utterance)
        if partials is not None and not self.hurries and (said := partials.update(self.hotwords)) is not None:
            yield Partial(*said, self.clock.at(segments.floor), self.clock.at(segments.now))
        segments.forget()
        if partials is not None:
            partials.forget()

    def _ended(self, utterance: Utterance) -> Utterance:
        """An utterance with what has been said of it so far."""
        if self._partials is None:
            return utterance
        draft = self._partials.pieces
        self._partials.close()
        return replace(utterance, draft=draft)


def hotwords_of(model: SpeechModel, second_pass: bool, words: Iterable[Hotword | str]) -> Hotwords | None:
    """Hotwords as a model hears and writes them; None: there are none.

    Raises:
        AsrError: there are too many, or finals are not the attention decoder's.
    """
    words = list(map(as_hotword, words))
    if not words:
        return None
    if not second_pass or model.decoder is None:
        raise AsrError("hotwords are for the attention decoder: finals by greedy CTC know none")
    return Hotwords(words, model.tokenizer, model.decoder_pieces)
