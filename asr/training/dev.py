"""Word error rates on the dev set, over full context as finals are read and over one streaming setting."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from asr.encoder import EncoderOutput
from asr.evaluation.wer import ErrorRate, error_rate
from asr.masks import FULL_CONTEXT
from asr.model import SpeechModel
from asr.search.greedy import ctc_greedy
from asr.text import normalise
from asr.training.config import ChunkConfig
from asr.training.data import Batch
from asr.training.transcripts import transcribe_batch

Encode = Callable[[Tensor, Tensor, int, int], EncoderOutput]  # frames, lengths, chunk, look-ahead


@dataclass(frozen=True)
class DevResult:
    """Word error rates in percent, of greedy CTC and, where there is one, of the attention decoder.

    Attributes:
        full: CTC, the whole utterance as one chunk.
        streaming: CTC, chunks with look-ahead.
        decoder_full: the decoder over a memory with full context, as it reads finals.
        decoder_streaming: the decoder over a memory made of chunks, as it reads partials.
    """

    full: float
    streaming: float
    decoder_full: float | None = None
    decoder_streaming: float | None = None

    @property
    def score(self) -> float:
        """What the best checkpoint has the lowest of: the mean over both settings, of the decoder if there is one."""
        if self.decoder_full is None:
            return (self.full + self.streaming) / 2
        return (self.decoder_full + self.decoder_streaming) / 2

    def as_log(self) -> dict[str, float]:
        """Its rates by their names in the log."""
        values = {"dev_wer": self.full, "dev_wer_streaming": self.streaming}
        if self.decoder_full is not None:
            values |= {"dev_wer_decoder": self.decoder_full, "dev_wer_decoder_streaming": self.decoder_streaming}
        return values

    def __str__(self) -> str:
        ctc = f"{self.full:.1f} % with full context, {self.streaming:.1f} % streaming"
        if self.decoder_full is None:
            return ctc
        return f"{ctc}; decoder {self.decoder_full:.1f} %, {self.decoder_streaming:.1f} %"


@torch.no_grad()
def dev_error_rate(
    batches: Iterable[tuple[Batch, Tensor, Tensor]],
    references: Callable[[Batch], list[str]],
    encode: Encode,
    model: SpeechModel,
    chunks: ChunkConfig,
) -> DevResult:
    """Decodes batches with their scaled frames `(batch, time, mels)` and lengths in frames, in both settings."""
    settings = (FULL_CONTEXT, 0), (chunks.dev_size, chunks.dev_look_ahead)
    ctc, decoder = [ErrorRate(), ErrorRate()], [ErrorRate(), ErrorRate()]
    for batch, frames, lengths in batches:
        texts = references(batch)
        for i, (chunk, look_ahead) in enumerate(settings):
            output = encode(frames, lengths, chunk, look_ahead)
            ctc[i] += _errors(texts, _ctc_texts(output, model))
            if model.decoder is not None:
                decoder[i] += _errors(texts, _decoder_texts(output, batch, model))
    return DevResult(*(e.wer for e in ctc), *((e.wer for e in decoder) if model.decoder is not None else ()))


def _errors(references: list[str], hypotheses: list[str]) -> ErrorRate:
    return sum(map(error_rate, references, hypotheses), ErrorRate())


def _ctc_texts(output: EncoderOutput, model: SpeechModel) -> list[str]:
    log_probs = output.log_probs.cpu()
    return [
        model.tokenizer.decode(ctc_greedy(log_probs[row, :length]))
        for row, length in enumerate(output.lengths.tolist())
    ]


def _decoder_texts(output: EncoderOutput, batch: Batch, model: SpeechModel) -> list[str]:
    seconds = [length / model.config.features.sample_rate for length in batch.sounding.tolist()]
    written = transcribe_batch(model.decoder, output.memory, output.lengths, seconds)
    return [normalise(model.decoder_pieces.decode(pieces)) for pieces in written]
