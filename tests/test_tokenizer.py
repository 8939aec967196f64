"""Tokenizers: CTC outputs with a blank in front, and the decoder's table of pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asr.errors import ModelError
from asr.tokenizer import CtcTokenizer, PieceTable

TEXTS = ["the cat sat on the mat", "a dog ran after the cat", "it's raining cats and dogs"] * 5
TOKENIZER = CtcTokenizer.train(TEXTS, 40)


@given(st.lists(st.sampled_from(["the", "cat", "dog", "it's", "raining", "mat"]), min_size=1, max_size=8))
def test_text_comes_back_from_its_pieces(words):
    text = " ".join(words)
    outputs = TOKENIZER.encode(text)
    assert TOKENIZER.blank not in outputs
    assert max(outputs) < len(TOKENIZER)
    assert TOKENIZER.decode([0, *outputs, 0]) == text


def test_characters_outside_the_vocabulary_are_noticed():
    assert TOKENIZER.can_spell("the cat")
    assert not TOKENIZER.can_spell("the çat")


def test_a_file_that_is_no_tokenizer(tmp_path):
    (tmp_path / "x.model").write_bytes(b"no")
    with pytest.raises(ModelError, match="not a SentencePiece model"):
        CtcTokenizer.load(tmp_path / "x.model")
    with pytest.raises(ModelError, match="no such table"):
        PieceTable.load(tmp_path / "none.json")


def test_pieces_bytes_and_words():
    table = PieceTable(["<unk>", "<s>", "</s>", "<0xC3>", "<0xA9>", "▁caf", "▁", "bar", ",", "▁▁"])
    assert table.decode([1, 5, 3, 4, 6, 7, 8, 2]) == "café bar,"
    assert table.words([5, 3, 4, 6, 7, 8]) == [("café", [0, 1, 2]), ("bar,", [3, 4, 5])]
    assert table.words([9, 6, 7]) == [("bar", [1, 2])]
    assert table.decode([3, 7]) == "\ufffdbar"
    assert table.decode([20]) == ""


def test_byte_pairs_merge_in_the_order_of_the_table_and_unknown_characters_are_spelled_in_bytes(english):
    table = english.decoder_pieces
    pieces = [table.pieces[i] for i in table.encode("It isn't the middle classes.")]
    assert pieces == ["▁It", "▁isn", "'", "t", "▁the", "▁middle", "▁classes", "."]
    assert [table.pieces[i] for i in table.encode("ꙮ")][1:] == ["<0xEA>", "<0x99>", "<0xAE>"]


@given(st.text(st.characters(codec="utf-8", exclude_characters="▁", exclude_categories=["Cc", "Zs"]), max_size=20))
def test_any_text_comes_back_from_the_decoders_pieces(english, text):
    assert english.decoder_pieces.decode(english.decoder_pieces.encode(text)) == text.strip()
