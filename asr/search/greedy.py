"""The one loop that writes texts: the attention decoder's best piece after each other, within rules."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from asr.nn.decoder import AttentionDecoder
from asr.search.hypothesis import Hypothesis
from asr.search.rules import Rule, bounded, longest_text
from asr.search.steps import DraftedSteps, RowSteps, Steps
from asr.tokenizer import PieceTable


def write(
    steps: Steps, table: PieceTable, end: int, texts: Sequence[Hypothesis], rules: Sequence[Sequence[Rule]]
) -> None:
    """Goes on with texts, in place, until they end or no more steps are to be had.

    Args:
        steps: what comes next in each text.
        table: the decoder's pieces.
        end: the piece that ends a text.
        texts: by number.
        rules: of each.
    """
    while steps.rows:
        known = steps.logits().float().log_softmax(-1)
        scores = known.clone()
        for place, row in enumerate(steps.rows):
            for rule in rules[row]:
                rule.filter(texts[row], scores[place])
        pieces = scores.argmax(-1)
        chances = known.gather(-1, pieces[:, None])[:, 0]
        chosen: list[int | None] = []
        for row, score, piece in zip(steps.rows, chances.tolist(), pieces.tolist(), strict=True):
            text = texts[row]
            if piece == end or any(rule.ends(text, piece) for rule in rules[row]):
                kept = min((rule.kept(text) for rule in rules[row]), default=len(text.pieces))
                del text.pieces[kept:], text.scores[kept:]
                chosen.append(None)
            else:
                text.add(piece, score, table.letters(piece))
                chosen.append(piece)
        steps.write(chosen)


@torch.no_grad()
def attention_greedy(
    decoder: AttentionDecoder,
    table: PieceTable,
    memory: Tensor,
    lengths: Tensor | None,
    seconds: Sequence[float],
    rules: Sequence[Sequence[Rule]] = (),
    draft: Sequence[int] = (),
) -> list[Hypothesis]:
    """What the decoder writes of whole utterances.

    Args:
        decoder: the attention decoder.
        table: its pieces.
        memory: `(batch, positions, d_model)`, padded.
        lengths: `(batch,)` positions of each row; None: all.
        seconds: length of each utterance; bounds its number of pieces.
        rules: further ones of each.
        draft: pieces of an earlier hypothesis of a single utterance, which make it faster and change nothing.
    """
    texts = [Hypothesis() for _ in seconds]
    padded = lengths is not None and bool((lengths < memory.shape[1]).any())
    most = max(map(longest_text, seconds), default=0) + 1
    state = decoder.start(memory, lengths if padded else None, max_pieces=most)
    steps = DraftedSteps(decoder, state, draft=draft) if len(texts) == 1 else RowSteps(decoder, state)
    write(steps, table, decoder.config.end, texts, bounded(seconds, rules))
    return texts
