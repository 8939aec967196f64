"""What the attention decoder is taught to write: the text as printed, or the teacher's transcript if both agree."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from asr.evaluation.english import spoken_form
from asr.evaluation.wer import error_rate
from asr.manifest import Utterance
from asr.nn.decoder import AttentionDecoder
from asr.nn.encoder import EncoderOutput
from asr.nn.speech_model import SpeechModel
from asr.search.ctc import ctc_greedy
from asr.search.greedy import attention_greedy
from asr.search.repeats import settle_repeats
from asr.text import normalise
from asr.tokenizer import PieceTable

SHOUTED = re.compile(r"\b[A-Z][A-Z']+\b")
IGNORED = -100  # target after the end of a text


@dataclass(frozen=True)
class Texts:
    """Texts for teacher forcing.

    Attributes:
        inputs: `(batch, n)` the start piece and the text, 0 after its end.
        targets: `(batch, n)` the text and the end piece, `IGNORED` after it.
    """

    inputs: Tensor
    targets: Tensor

    @classmethod
    def build(cls, pieces: Sequence[Sequence[int]], start: int, end: int, device: torch.device) -> Texts:
        size = 1 + max(map(len, pieces), default=0)
        inputs = torch.zeros(len(pieces), size, dtype=torch.int64)
        targets = torch.full((len(pieces), size), IGNORED)
        for row, text in enumerate(pieces):
            inputs[row, : len(text) + 1] = torch.tensor([start, *text])
            targets[row, : len(text) + 1] = torch.tensor([*text, end])
        return cls(inputs.to(device), targets.to(device))


def ctc_texts(output: EncoderOutput, model: SpeechModel) -> list[str]:
    """What greedy CTC writes of each row."""
    rows = zip(output.log_probs.cpu(), output.lengths.tolist(), strict=True)
    return [model.tokenizer.decode(ctc_greedy(log_probs[:length])) for log_probs, length in rows]


def decoder_texts(
    output: EncoderOutput, model: SpeechModel, seconds: Sequence[float], *, settled: bool = False
) -> list[str]:
    """What the attention decoder writes of each row; where `settled`, CTC is asked about repeats as in recognition."""
    table = model.decoder_pieces
    texts = attention_greedy(model.decoder, table, output.memory, output.lengths, seconds)
    if settled:
        rows = zip(texts, output.log_probs, output.lengths.tolist(), seconds, strict=True)
        texts = [
            settle_repeats(text, table, log_probs[:length], model.tokenizer, spoken)
            for text, log_probs, length, spoken in rows
        ]
    return [table.decode(text.pieces) for text in texts]


def quick_copy(decoder: AttentionDecoder) -> AttentionDecoder:
    """A decoder as it is now, which stays so; on a processor its products run in int8, several times faster."""
    return copy.deepcopy(decoder).eval().requires_grad_(False).to_int8()


def as_sentence(text: str) -> str:
    """A lower-case text as a sentence: a capital, a full stop, and the pronoun I."""
    text = re.sub(r"\bi\b", "I", " ".join(text.split()))
    text = text[:1].upper() + text[1:]
    return text if not text or text[-1] in ".?!" else text + "."


def is_written(utterance: Utterance) -> bool:
    """Whether the manifest has the text as it is printed, with capitals and punctuation (`written`).

    Texts with words in CAPITALS do not count: subtitles of games and comics stress words so, and an encoder that is to
    make a decoder write them makes it spell.
    """
    written = utterance.extra.get("written")
    return isinstance(written, str) and bool(written.strip()) and not SHOUTED.search(written)


def as_text(utterance: Utterance, table: PieceTable) -> list[int]:
    """Pieces of an utterance's reference as it is `written`, or made a sentence."""
    return table.encode(utterance.extra["written"] if is_written(utterance) else as_sentence(utterance.text))


def agrees(utterance: Utterance, pieces: Sequence[int], table: PieceTable, most: float) -> bool:
    """Whether a transcript's word error rate against the reference is at most `most` (a share)."""
    form = normalise if normalise(utterance.text) else spoken_form  # texts of other scripts
    return error_rate(utterance.text, table.decode(pieces), form).wer <= 100 * most
