"""Drafts make greedy decoding faster and change nothing."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from asr.search.steps import DraftedSteps, RowSteps
from tests.small import small_decoder

LENGTH = 24


def greedy(decoder, memory, draft=(), known=0, capacity=LENGTH + 1) -> tuple[list[int], torch.Tensor, int]:
    """Pieces, the logits that each was chosen from, and passes of the decoder."""
    passes, forward = [], decoder.forward
    decoder.forward = lambda *arguments: passes.append(1) or forward(*arguments)
    steps, rows = DraftedSteps(decoder, decoder.start(memory, max_pieces=capacity), draft[:known], draft), []
    while len(steps.pieces) < LENGTH:
        rows.append(steps.logits()[0])
        steps.write([int(rows[-1].argmax())])
    decoder.forward = forward
    return steps.pieces, torch.stack(rows), len(passes)


@given(st.integers(0, 20), st.data())
def test_a_draft_changes_nothing(seed, data):
    """Whatever is changed, left out or put in."""
    decoder, memory = small_decoder(seed), torch.randn(1, 9, 32, generator=torch.Generator().manual_seed(seed))
    pieces, logits, _ = greedy(decoder, memory)
    draft = list(pieces)
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, LENGTH - 1))
        draft[at : at + data.draw(st.integers(0, 3))] = data.draw(st.lists(st.integers(0, 39), max_size=3))
    drafted, drafted_logits, passes = greedy(decoder, memory, draft, capacity=LENGTH + data.draw(st.integers(1, 9)))
    assert drafted == pieces
    torch.testing.assert_close(drafted_logits, logits, rtol=1e-4, atol=1e-4)
    assert passes <= LENGTH


def test_a_right_draft_takes_two_passes_and_a_wrong_piece_one_or_two_more():
    decoder, memory = small_decoder(), torch.randn(1, 9, 32)
    pieces, _, passes = greedy(decoder, memory)
    assert passes == LENGTH
    assert greedy(decoder, memory, pieces)[2] == 2
    wrong = [*pieces[:5], (pieces[5] + 1) % 40, *pieces[6:]]
    assert greedy(decoder, memory, wrong)[0] == pieces
    assert greedy(decoder, memory, wrong)[2] <= 5


def test_known_pieces_are_gone_on_from():
    decoder, memory = small_decoder(), torch.randn(1, 9, 32)
    pieces = greedy(decoder, memory)[0]
    assert greedy(decoder, memory, pieces, known=10)[0] == pieces


@given(st.integers(0, 20), st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_rows_go_on_alone_when_others_have_ended(seed, lengths):
    """Row i ends after `lengths[i]` pieces; what the others are told does not change."""
    decoder, g = small_decoder(seed), torch.Generator().manual_seed(seed)
    memory = torch.randn(len(lengths), 7, 32, generator=g)
    steps, written = RowSteps(decoder, decoder.start(memory)), [[] for _ in lengths]
    while steps.rows:
        best = steps.logits().argmax(-1).tolist()
        for row, piece in zip(steps.rows, best, strict=True):
            written[row].append(piece)
        steps.write([None if len(written[row]) == lengths[row] else written[row][-1] for row in steps.rows])
    for row, pieces in enumerate(written):
        assert pieces == greedy(decoder, memory[row : row + 1])[0][: lengths[row]]


def test_steps_are_over_when_no_pass_is_left():
    decoder, memory = small_decoder(), torch.randn(1, 9, 32)
    steps = DraftedSteps(decoder, decoder.start(memory), draft=greedy(decoder, memory)[0], most_passes=1)
    while steps.rows:
        steps.write([int(steps.logits()[0].argmax())])
    assert steps.passes == 1
    assert len(steps.pieces) == 17  # the guesses that one pass checks, and what follows them
    assert not steps.ended
