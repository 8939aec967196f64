"""The second pass of many utterances at once: `asr.recognition.second_pass` with padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from asr.nn.encoder import SUBSAMPLING
from asr.nn.features import level_gain, scale_frames
from asr.nn.speech_model import SpeechModel
from asr.recognition.second_pass import ReadWord, read_ctc, read_hypothesis
from asr.search.greedy import ctc_greedy
from asr.search.greedy_rows import attention_greedy_rows
from asr.search.witness import heard, hears_speech

MOST_ROWS = 16
MOST_SCORES = 4_000_000  # rows * positions^2 that are encoded at once: what attention's memory grows with
LEAST_FILLED = 0.75  # length of the shortest utterance that is encoded in a batch over the longest


@dataclass(frozen=True)
class Unread:
    """An utterance: `(1, time, mels)` log10 power, of which the first `sounding` frames are no padding, and what the
    gate says of its positions, if it is asked.
    """

    log_power: Tensor
    sounding: int
    speech: Tensor | None = None

    @property
    def positions(self) -> int:
        return self.log_power.shape[1] // SUBSAMPLING


@dataclass
class _Encoded:
    """An utterance on its way: memory `(positions, d_model)`, CTC `(positions, vocabulary)`, CTC's text, the gate."""

    index: int
    memory: Tensor
    log_probs: Tensor
    ctc_text: str
    speech: Tensor | None


@torch.inference_mode()
def read_utterances(model: SpeechModel, utterances: Sequence[Unread]) -> list[list[ReadWord]]:
    """The words of each utterance, as `read_utterance` gives them.

    Utterances of similar length are encoded together; what they leave for the decoder, whose cost is in the number of
    its steps, is decoded in larger groups.
    """
    words: list[list[ReadWord]] = [[] for _ in utterances]
    encoded: list[_Encoded] = []
    for batch in _batches(utterances):
        encoded += _encode(model, utterances, batch)
        while len(encoded) >= MOST_ROWS:
            _decode(model, encoded[:MOST_ROWS], words)
            encoded = encoded[MOST_ROWS:]
    if encoded:
        _decode(model, encoded, words)
    return words


def _batches(utterances: Sequence[Unread]) -> Iterator[list[int]]:
    """Indices of utterances that are encoded together, longest first; those without a position are in none."""
    order = sorted(range(len(utterances)), key=lambda i: -utterances[i].positions)
    batch: list[int] = []
    for index in order:
        size = utterances[index].positions
        if not size:
            break
        longest = utterances[batch[0]].positions if batch else size
        full = len(batch) == MOST_ROWS or (len(batch) + 1) * longest**2 > MOST_SCORES
        if batch and (full or size < LEAST_FILLED * longest):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _encode(model: SpeechModel, utterances: Sequence[Unread], batch: Sequence[int]) -> list[_Encoded]:
    """Those of a batch in which CTC hears speech, encoded with full context."""
    chosen = [utterances[index] for index in batch]
    sizes = torch.tensor([u.positions for u in chosen], device=chosen[0].log_power.device)
    time, mels = int(sizes.max()) * SUBSAMPLING, chosen[0].log_power.shape[2]
    frames = chosen[0].log_power.new_zeros(len(chosen), time, mels)
    for row, utterance in enumerate(chosen):
        gain = level_gain(model.features.mean_square(utterance.log_power[:, : utterance.sounding]).mean(1))
        own = utterance.positions * SUBSAMPLING
        frames[row, :own] = scale_frames(utterance.log_power[:, :own], gain)[0]
    padded = bool((sizes < sizes.max()).any())
    output = model.encoder.encode(frames, sizes * SUBSAMPLING if padded else None)
    encoded = []
    for row, (index, size) in enumerate(zip(batch, sizes.tolist(), strict=True)):
        log_probs = output.log_probs[row, :size]
        speech = utterances[index].speech
        if hears_speech(heard(log_probs), speech):
            text = model.tokenizer.decode(ctc_greedy(log_probs))
            encoded.append(_Encoded(index, output.memory[row, :size], log_probs, text, speech))
    return encoded


def _decode(model: SpeechModel, encoded: Sequence[_Encoded], words: list[list[ReadWord]]) -> None:
    """Puts the words of encoded utterances in their places."""
    if model.decoder is None:
        for one in encoded:
            words[one.index] = read_ctc(model, one.log_probs, one.speech)
        return
    memory = pad_sequence([one.memory for one in encoded], batch_first=True)
    lengths = torch.tensor([len(one.memory) for one in encoded], device=memory.device)
    seconds = [len(one.memory) * model.position_seconds for one in encoded]
    texts = [one.ctc_text for one in encoded]
    hypotheses = attention_greedy_rows(model.decoder, model.decoder_pieces, memory, lengths, seconds, texts)
    for one, hypothesis in zip(encoded, hypotheses, strict=True):
        words[one.index] = read_hypothesis(model, hypothesis, one.log_probs, one.ctc_text, one.speech)
