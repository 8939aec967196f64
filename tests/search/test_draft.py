"""Drafts make greedy decoding faster and change nothing."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from asr.search.draft import DraftedSteps
from tests.small import small_decoder

LENGTH = 24


def greedy(decoder, memory, draft=(), known=0, capacity=LENGTH + 1) -> tuple[list[int], torch.Tensor, int]:
    """Pieces, the logits that each was chosen from, and passes of the decoder."""
    passes, forward = [], decoder.forward
    decoder.forward = lambda *arguments: passes.append(1) or forward(*arguments)
    steps, rows = DraftedSteps(decoder, decoder.start(memory, max_pieces=capacity), draft[:known], draft), []
    while len(steps.pieces) < LENGTH:
        rows.append(steps.logits())
        steps.write(int(rows[-1].argmax()))
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
