"""Beam search: several texts of each utterance go on side by side, and CTC has a say in which of them it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from asr.nn.decoder import AttentionDecoder
from asr.search.ctc import log_likelihoods
from asr.search.hypothesis import Hypothesis
from asr.search.rules import Rule, bounded, longest_text
from asr.tokenizer import CtcTokenizer, PieceTable

HOPELESS = 3.0  # nats behind the best text that has ended from which on nothing that is being written is waited for
WITNESS = 0.1  # weight of CTC's log-likelihood beside the decoder's


@dataclass(frozen=True)
class Path:
    """A text and its log-probability, what rules add to it included."""

    text: Hypothesis
    total: float


@torch.no_grad()
def attention_beam(
    decoder: AttentionDecoder,
    table: PieceTable,
    memory: Tensor,
    lengths: Tensor | None,
    seconds: Sequence[float],
    beams: int,
    rules: Sequence[Sequence[Rule]] = (),
) -> list[list[Path]]:
    """The likeliest texts of whole utterances, the best first; at least one of each.

    Args:
        decoder: the attention decoder.
        table: its pieces.
        memory: `(batch, positions, d_model)`, padded.
        lengths: `(batch,)` positions of each row; None: all.
        seconds: length of each utterance.
        beams: texts of each that are being written at a time.
        rules: further ones of each.
    """
    end, rules = decoder.config.end, bounded(seconds, rules)
    state = decoder.start(memory, lengths, max_pieces=max(map(longest_text, seconds)) + 1)
    open_, ended = list(range(len(seconds))), [[] for _ in seconds]
    paths = [Path(Hypothesis(), 0.0) for _ in seconds]
    last = [decoder.config.start] * len(paths)
    while open_:
        logits, state = decoder(torch.tensor(last, device=memory.device)[:, None], state)
        known = logits[:, -1].float().log_softmax(-1)
        scores, width = known.clone(), len(paths) // len(open_)
        for place, path in enumerate(paths):
            for rule in rules[open_[place // width]]:
                rule.filter(path.text, scores[place])
        best, pieces = scores.topk(min(beams + 1, scores.shape[1]))
        chances, ends = known.gather(1, pieces).tolist(), scores[:, end].tolist()
        best, pieces = best.tolist(), pieces.tolist()
        rows, going, going_on = [], [], []
        for number, utterance in enumerate(open_):
            own = range(number * width, (number + 1) * width)
            options = [(paths[row].total + best[row][n], row, n) for row in own for n in range(len(best[row]))]
            over: set[int] = set()
            kept: list[tuple[int, Path]] = []
            for total, row, n in sorted(options, reverse=True):
                text, piece = paths[row].text, pieces[row][n]
                if piece == end or any(rule.ends(text, piece) for rule in rules[utterance]):
                    over.add(row)
                    continue
                further = Hypothesis([*text.pieces], [*text.scores], text.letters)
                further.add(piece, chances[row][n], table.letters(piece))
                kept.append((row, Path(further, total)))
                if len(kept) == beams:
                    break
            done = [*ended[utterance], *(Path(paths[row].text, paths[row].total + ends[row]) for row in over)]
            ended[utterance] = sorted(done, key=lambda path: -path.total)
            if len(kept) == beams and not _decided(ended[utterance], kept[0][1].total, beams):
                going_on.append(utterance)
                rows += [row for row, _ in kept]
                going += [path for _, path in kept]
        open_, paths = going_on, going
        last = [path.text.pieces[-1] for path in paths]
        state = state.select(rows) if rows else state
    return ended


def _decided(ended: Sequence[Path], open_: float, beams: int) -> bool:
    """Whether nothing that is being written, the best of which has a total, can still matter."""
    return bool(ended) and (ended[0].total - open_ > HOPELESS or ended[min(beams, len(ended)) - 1].total > open_)


def choose(paths: Sequence[Path], table: PieceTable, log_probs: Tensor, tokenizer: CtcTokenizer) -> Hypothesis:
    """The text that decoder and CTC, of `(positions, vocabulary)`, find the likeliest together."""
    if len(paths) == 1:
        return paths[0].text
    heard = log_likelihoods(
        [[word for word, _ in table.words(path.text.pieces)] for path in paths], log_probs, tokenizer
    )
    return max(zip(paths, heard, strict=True), key=lambda pair: pair[0].total + WITNESS * pair[1])[0].text
