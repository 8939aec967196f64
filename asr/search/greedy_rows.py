"""Greedy attention decoding of many utterances at once: the rules of `asr.search.greedy`, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from asr.nn.decoder import AttentionDecoder, DecoderState
from asr.nn.states import select_rows
from asr.search.greedy import PIECES_PER_SECOND, WITNESSED, Hypothesis, letter_count
from asr.tokenizer import PieceTable

CROWDED = 0.6  # share of rows still being written below which the others are taken out


def attention_greedy_rows(
    decoder: AttentionDecoder,
    table: PieceTable,
    memory: Tensor,
    lengths: Tensor,
    seconds: Sequence[float],
    ctc_texts: Sequence[str],
) -> list[Hypothesis]:
    """What `attention_greedy` gives for each row alone.

    Args:
        decoder: the attention decoder.
        table: its pieces.
        memory: `(batch, positions, d_model)`, padded.
        lengths: `(batch,)` positions of each row.
        seconds: length of each utterance; bounds its number of pieces.
        ctc_texts: what greedy CTC hears in each.
    """
    c = decoder.config
    limits = [int(PIECES_PER_SECOND * length) + 2 for length in seconds]
    enough = [WITNESSED * letter_count(text) for text in ctc_texts]
    found, written = [Hypothesis([], []) for _ in limits], [0] * len(limits)
    padded = bool((lengths < memory.shape[1]).any())
    state = decoder.start(memory, lengths if padded else None, max_pieces=max(limits) + 1)
    rows = list(range(len(limits)))  # which utterance each row of the state is
    writing, last = set(rows), [c.start] * len(rows)
    while writing:
        if len(writing) <= CROWDED * len(rows):
            kept = [i for i, row in enumerate(rows) if row in writing]
            rows, last, state = [rows[i] for i in kept], [last[i] for i in kept], _keep(state, kept)
        logits, state = decoder(torch.tensor(last, device=memory.device)[:, None], state)
        log_probs = logits[:, -1].float().log_softmax(-1)
        early = [i for i, row in enumerate(rows) if written[row] < enough[row]]
        log_probs[early, c.end] = -torch.inf
        best, pieces = log_probs.max(-1)
        for i, (score, piece) in enumerate(zip(best.tolist(), pieces.tolist(), strict=True)):
            row, last[i] = rows[i], piece
            if row not in writing:
                continue
            if piece == c.end:
                writing.discard(row)
                continue
            found[row].pieces.append(piece)
            found[row].scores.append(score)
            written[row] += letter_count(table.decode([piece]))
            if len(found[row].pieces) == limits[row]:
                writing.discard(row)
    return found


def _keep(state: DecoderState, rows: list[int]) -> DecoderState:
    mask = None if state.memory_mask is None else state.memory_mask[rows]
    memory = [(k[rows], v[rows]) for k, v in state.memory]
    return replace(state, cache=select_rows(state.cache, rows), memory=memory, memory_mask=mask)
