"""The second pass: the final texts of utterances, encoded with full context and read by the attention decoder.

Short utterances of similar length are encoded together; what they leave for the decoder, whose cost is in the number of
its steps, is decoded in larger groups. One utterance is a batch of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from asr.nn.encoder import SUBSAMPLING
from asr.nn.speech_model import SpeechModel
from asr.recognition.options import RECORDED, StreamOptions
from asr.recognition.parts import readable_parts
from asr.recognition.segments import ReadWord, Utterance
from asr.search.alignment import Span, align_words, widen
from asr.search.beam import attention_beam, choose
from asr.search.confidence import word_confidence
from asr.search.ctc import ctc_greedy, speech_posterior
from asr.search.greedy import attention_greedy
from asr.search.hotwords import Hotwords
from asr.search.hypothesis import Hypothesis
from asr.search.repeats import settle_repeats
from asr.search.rules import NoEarlyEnd, Rule
from asr.search.witness import hears_speech, hears_word, recognises
from asr.text import letter_count

MOST_ROWS = 16
DOUBTFUL = math.log(0.5)  # log-probability of a piece below which others are tried, too
MOST_POSITIONS = 600  # of a batch of several: products are no faster with more, and what lies between them is slower
ENCODING = 0.6  # share of the work that is done when an utterance is encoded
LEAST_FILLED = 0.75  # length of the shortest utterance that is encoded in a batch over the longest


@dataclass
class _Encoded:
    """An utterance on its way: memory `(positions, d_model)`, CTC `(positions, vocabulary)` and its text."""

    index: int
    utterance: Utterance
    memory: Tensor
    log_probs: Tensor
    ctc_text: str


@torch.inference_mode()
def read_utterances(
    model: SpeechModel,
    utterances: Sequence[Utterance],
    options: StreamOptions = RECORDED,
    hotwords: Hotwords | None = None,
    heard: Callable[[int, float], None] = lambda utterance, seconds: None,
) -> list[list[ReadWord]]:
    """The words of each utterance.

    `heard` is told on the way which utterance has been worked on, and how many seconds of it.

    By greedy CTC where the model has no attention decoder; without `options.second_pass`, by that of the first pass.
    """
    if not options.second_pass:
        return [_read_ctc(model, one, one.log_probs) for one in utterances]
    parts = [(index, part) for index, one in enumerate(utterances) for part in readable_parts(model, one)]
    words: list[list[ReadWord]] = [[] for _ in utterances]

    def done(number: int, share: float) -> None:
        index, part = parts[number]
        heard(index, share * part.positions * model.position_seconds)

    read_parts = _read_parts(model, [part for _, part in parts], options.beams, hotwords, done)
    for (index, part), read in zip(parts, read_parts, strict=True):
        offset = part.segment.start - utterances[index].segment.start
        words[index] += [word.moved(offset) for word in read]
    return words


def _read_parts(
    model: SpeechModel,
    utterances: Sequence[Utterance],
    beams: int,
    hotwords: Hotwords | None,
    done: Callable[[int, float], None],
) -> list[list[ReadWord]]:
    words: list[list[ReadWord]] = [[] for _ in utterances]
    encoded: list[_Encoded] = []

    def decode(some: Sequence[_Encoded]) -> None:
        for one, hypothesis in zip(some, _decode(model, some, beams, hotwords), strict=True):
            words[one.index] = hypothesis
        for one in some:
            done(one.index, 1 - ENCODING)

    for batch in _batches(utterances):
        encoded += _encode(model, utterances, batch)
        for index in batch:
            done(index, ENCODING)
        while len(encoded) >= MOST_ROWS:
            decode(encoded[:MOST_ROWS])
            encoded = encoded[MOST_ROWS:]
    if encoded:
        decode(encoded)
    return words


def _read_ctc(model: SpeechModel, utterance: Utterance, log_probs: Tensor) -> list[ReadWord]:
    """The words of the best CTC path of `(positions, vocabulary)`, as far as the gate hears speech there."""
    posterior, speech = speech_posterior(log_probs), utterance.speech
    if speech is not None and not hears_speech(posterior, speech):
        return []
    words = model.tokenizer.decode(ctc_greedy(log_probs)).split()
    spans = align_words(words, log_probs, model.tokenizer)
    heard = [speech is None or hears_word(posterior, span.start, span.end, speech) for span in spans]
    wide = _widened(model, utterance, spans)
    return [ReadWord(*word, span.score) for *word, span, stays in zip(words, wide, spans, heard, strict=True) if stays]


def _widened(model: SpeechModel, utterance: Utterance, spans: Sequence[Span]) -> list[Span]:
    """Spans of words as far as their sound reaches."""
    return widen(spans, model.power(utterance.log_power[None])[0].tolist()) if spans else []


def _batches(utterances: Sequence[Utterance]) -> Iterator[list[int]]:
    """Indices of utterances that are encoded together, longest first; those without a position are in none."""
    order = sorted(range(len(utterances)), key=lambda i: -utterances[i].positions)
    batch: list[int] = []
    for index in order:
        size = utterances[index].positions
        if not size:
            break
        longest = utterances[batch[0]].positions if batch else size
        full = len(batch) == MOST_ROWS or (len(batch) + 1) * longest > MOST_POSITIONS
        if batch and (full or size < LEAST_FILLED * longest):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _encode(model: SpeechModel, utterances: Sequence[Utterance], batch: Sequence[int]) -> list[_Encoded]:
    """Those of a batch in which CTC hears speech, encoded with full context."""
    chosen = [utterances[index] for index in batch]
    log_power = pad_sequence([one.log_power for one in chosen], batch_first=True)
    sizes = torch.tensor([one.positions for one in chosen], device=model.device)
    sounding = torch.tensor([min(one.sounding, len(one.log_power)) for one in chosen], device=model.device)
    padded = bool((sizes < sizes.max()).any())
    output = model.encode(log_power, sounding, sizes * SUBSAMPLING if padded else None)
    encoded = []
    for row, (index, one, size) in enumerate(zip(batch, chosen, sizes.tolist(), strict=True)):
        log_probs = output.log_probs[row, :size]
        if hears_speech(speech_posterior(log_probs), one.speech):
            text = model.tokenizer.decode(ctc_greedy(log_probs))
            encoded.append(_Encoded(index, one, output.memory[row, :size], log_probs, text))
    return encoded


def _decode(
    model: SpeechModel, encoded: Sequence[_Encoded], beams: int, hotwords: Hotwords | None
) -> list[list[ReadWord]]:
    """The words of encoded utterances: the decoder's best piece after each other, and more than one text where it is
    in doubt.
    """
    if model.decoder is None:
        return [_read_ctc(model, one.utterance, one.log_probs) for one in encoded]
    table, end = model.decoder_pieces, model.decoder.config.end
    seconds = [len(one.memory) * model.position_seconds for one in encoded]
    rules: list[list[Rule]] = [[NoEarlyEnd(end, letter_count(one.ctc_text))] for one in encoded]
    if hotwords is not None:
        for own, one in zip(rules, encoded, strict=True):
            own.append(hotwords.rule(hotwords.heard_in(one.log_probs)))
    memory, lengths = _padded(encoded)
    draft = encoded[0].utterance.draft if len(encoded) == 1 else ()
    hypotheses = attention_greedy(model.decoder, table, memory, lengths, seconds, rules, draft)
    doubtful = [i for i, text in enumerate(hypotheses) if beams > 1 and min(text.scores, default=0.0) < DOUBTFUL]
    for some in (doubtful[i : i + MOST_ROWS // 2] for i in range(0, len(doubtful), MOST_ROWS // 2)):
        memory, lengths = _padded([encoded[i] for i in some])
        found = attention_beam(
            model.decoder, table, memory, lengths, [seconds[i] for i in some], beams, [rules[i] for i in some]
        )
        for i, paths in zip(some, found, strict=True):
            hypotheses[i] = choose(paths, table, encoded[i].log_probs, model.tokenizer)
    return [_witnessed(model, hypothesis, one) for hypothesis, one in zip(hypotheses, encoded, strict=True)]


def _padded(encoded: Sequence[_Encoded]) -> tuple[Tensor, Tensor | None]:
    """The memories of utterances `(batch, positions, d_model)`, and how many positions each has; None = all."""
    sizes = [len(one.memory) for one in encoded]
    memory = pad_sequence([one.memory for one in encoded], batch_first=True)
    return memory, torch.tensor(sizes, device=memory.device) if min(sizes) < max(sizes) else None


def _witnessed(model: SpeechModel, hypothesis: Hypothesis, encoded: _Encoded) -> list[ReadWord]:
    """The words of what the decoder wrote, timed by CTC; those stay that CTC and the gate bear witness to."""
    hypothesis = settle_repeats(
        hypothesis,
        model.decoder_pieces,
        encoded.log_probs,
        model.tokenizer,
        len(encoded.log_probs) * model.position_seconds,
    )
    words = model.decoder_pieces.words(hypothesis.pieces)
    spans = align_words([text for text, _ in words], encoded.log_probs, model.tokenizer)
    posterior = speech_posterior(encoded.log_probs)
    if not recognises(posterior, [span.score for span in spans]):
        return []
    return [
        ReadWord(text, wide, word_confidence([hypothesis.scores[i] for i in pieces], span.score))
        for (text, pieces), span, wide in zip(words, spans, _widened(model, encoded.utterance, spans), strict=True)
        if hears_word(posterior, span.start, span.end, encoded.utterance.speech)
    ]
