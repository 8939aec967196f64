"""CTC and, if there is one, the speech gate as the attention decoder's witnesses: no words where they hear nothing."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from asr.search.ctc import speech_posterior

UTTERANCE_HEARD = 0.25  # posterior; all but one of 300 single spoken digits have it, 90 % of noises do not
CERTAIN = 0.98  # posterior of a piece from which on CTC is sure that something is said
ALIGNED = 0.5  # mean score of aligned words below which they are none of what CTC hears; 278 utterances all have more
WORD_HEARD = 0.05  # posterior below which CTC hears nothing but blanks
NEIGHBOURHOOD = 12  # positions (0.29 s) around a word
UTTERANCE_SPEECH, WORD_SPEECH = 0.3, 0.15  # probability of speech (gate) below which there are no words, no word


def hears_speech(posterior: Tensor, speech: Tensor | None = None) -> bool:
    """Whether CTC hears a piece anywhere in an utterance, however unsure of which, and the gate hears speech in it.

    `speech`: what the gate says of the positions; None: it is not asked.
    """
    return bool((posterior > UTTERANCE_HEARD).any()) and (speech is None or bool((speech > UTTERANCE_SPEECH).any()))


def writes(log_probs: Tensor, blank: int = 0) -> bool:
    """Whether CTC is sure of a piece, or its best path has one: what a partial needs, whose words are not aligned."""
    return bool((speech_posterior(log_probs, blank) > CERTAIN).any() or (log_probs.argmax(-1) != blank).any())


def recognises(posterior: Tensor, scores: Sequence[float]) -> bool:
    """Whether words, of which CTC gave these `scores` when it aligned them, can be what it hears.

    A decoder that is made to read noise writes words of which CTC knows nothing.
    """
    return bool((posterior > CERTAIN).any()) or sum(scores) > ALIGNED * len(scores)


def hears_word(posterior: Tensor, start: int, end: int, speech: Tensor | None = None) -> bool:
    """Whether around positions `[start, end)`, where a word is aligned, CTC hears more than blanks, the gate speech."""
    around = slice(max(0, start - NEIGHBOURHOOD), end + NEIGHBOURHOOD)
    return bool((posterior[around] > WORD_HEARD).any()) and (
        speech is None or bool((speech[around] > WORD_SPEECH).any())
    )
