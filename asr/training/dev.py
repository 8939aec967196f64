"""Word error rate on the dev set: greedy CTC over full context, as finals are read, and over one streaming setting."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from asr.encoder import EncoderOutput
from asr.evaluation.wer import ErrorRate, error_rate
from asr.masks import FULL_CONTEXT
from asr.search.greedy import ctc_greedy
from asr.tokenizer import CtcTokenizer
from asr.training.config import ChunkConfig
from asr.training.data import Batch

Encode = Callable[[Tensor, Tensor, int, int], EncoderOutput]  # frames, lengths, chunk, look-ahead


@dataclass(frozen=True)
class DevResult:
    """Word error rates in percent.

    Attributes:
        full: the whole utterance as one chunk.
        streaming: chunks with look-ahead.
    """

    full: float
    streaming: float

    @property
    def score(self) -> float:
        """What the best checkpoint has the lowest of: the mean of both."""
        return (self.full + self.streaming) / 2


@torch.no_grad()
def dev_error_rate(
    batches: Iterable[tuple[Batch, Tensor, Tensor]],
    references: Callable[[Batch], list[str]],
    encode: Encode,
    tokenizer: CtcTokenizer,
    chunks: ChunkConfig,
) -> DevResult:
    """Decodes batches with their scaled frames `(batch, time, mels)` and lengths in frames, in both settings."""
    full = streaming = ErrorRate()
    for batch, frames, lengths in batches:
        texts = references(batch)
        full += _errors(encode(frames, lengths, FULL_CONTEXT, 0), texts, tokenizer)
        streaming += _errors(encode(frames, lengths, chunks.dev_size, chunks.dev_look_ahead), texts, tokenizer)
    return DevResult(full.wer, streaming.wer)


def _errors(output: EncoderOutput, references: list[str], tokenizer: CtcTokenizer) -> ErrorRate:
    total = ErrorRate()
    log_probs = output.log_probs.cpu()
    for row, (reference, length) in enumerate(zip(references, output.lengths.tolist(), strict=True)):
        total += error_rate(reference, tokenizer.decode(ctc_greedy(log_probs[row, :length])))
    return total
