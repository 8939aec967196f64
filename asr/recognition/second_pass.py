"""The second pass: the final text of an utterance, encoded with full context and read by the attention decoder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from asr.nn.features import level_gain, scale_frames
from asr.nn.speech_model import SpeechModel
from asr.search.alignment import Span, align_words
from asr.search.greedy import Hypothesis, attention_greedy, ctc_greedy
from asr.search.witness import cut_repeated_tail, heard, hears_speech, hears_word, recognises


@dataclass(frozen=True)
class ReadWord:
    """A word, its span in positions of the utterance, and how sure the decoder is (0 to 1)."""

    text: str
    span: Span
    confidence: float


def read_utterance(
    model: SpeechModel,
    log_power: Tensor,
    sounding: int | None = None,
    draft: Sequence[int] = (),
    speech: Tensor | None = None,
) -> list[ReadWord]:
    """The words of a whole utterance.

    Args:
        model: the model; without an attention decoder, greedy CTC over the full context is the second pass.
        log_power: `(1, time, mels)` log10 power.
        sounding: frames that the level is measured on; what follows is padding. Default: all.
        draft: pieces of the last partial, which make it faster and change nothing.
        speech: `(positions,)` probability of speech, by the gate; None: it is not asked.
    """
    mean_square = model.features.mean_square(log_power[:, :sounding]).mean(1)
    output = model.encoder.encode(scale_frames(log_power, level_gain(mean_square)))
    log_probs = output.log_probs[0]
    if not hears_speech(heard(log_probs), speech):
        return []
    if model.decoder is None:
        return read_ctc(model, log_probs, speech)
    ctc_text = model.tokenizer.decode(ctc_greedy(log_probs))
    seconds = log_probs.shape[0] * model.position_seconds
    hypothesis = attention_greedy(model.decoder, model.decoder_pieces, output.memory, seconds, ctc_text, draft)
    return read_hypothesis(model, hypothesis, log_probs, ctc_text, speech)


def read_hypothesis(
    model: SpeechModel, hypothesis: Hypothesis, log_probs: Tensor, ctc_text: str, speech: Tensor | None = None
) -> list[ReadWord]:
    """The words of what the decoder wrote, timed by CTC `(positions, vocabulary)`.

    Those stay that CTC, its text, and the gate, where it is asked (`speech`), bear witness to.
    """
    hypothesis = cut_repeated_tail(hypothesis, model.decoder_pieces, ctc_text)
    words = model.decoder_pieces.words(hypothesis.pieces)
    spans = align_words([text for text, _ in words], log_probs, model.tokenizer)
    posterior = heard(log_probs)
    if not recognises(posterior, [span.score for span in spans]):
        return []
    return [
        ReadWord(text, span, math.exp(sum(hypothesis.scores[i] for i in pieces) / len(pieces)))
        for (text, pieces), span in zip(words, spans, strict=True)
        if hears_word(posterior, span.start, span.end, speech)
    ]


def read_ctc(model: SpeechModel, log_probs: Tensor, speech: Tensor | None = None) -> list[ReadWord]:
    """The words of the best CTC path of `(positions, vocabulary)`, as far as the gate hears `speech` there."""
    posterior = heard(log_probs)
    if speech is not None and not hears_speech(posterior, speech):
        return []
    words = model.tokenizer.decode(ctc_greedy(log_probs)).split()
    spans = align_words(words, log_probs, model.tokenizer)
    return [
        ReadWord(text, span, span.score)
        for text, span in zip(words, spans, strict=True)
        if speech is None or hears_word(posterior, span.start, span.end, speech)
    ]
