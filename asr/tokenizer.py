"""Text <-> pieces: SentencePiece for the CTC branch, a byte-fallback vocabulary for the attention decoder."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from asr.errors import ModelError
from asr.files import write_whole
from asr.text import TEXT_FORMS, letter_count, text_form

SPACE = "\u2581"  # how SentencePiece writes a space


class CtcTokenizer:
    """SentencePiece pieces as CTC outputs: output 0 is the blank, output i + 1 is piece i."""

    blank = 0

    def __init__(self, model: bytes) -> None:
        from sentencepiece import SentencePieceProcessor

        self.model = model
        self._processor = SentencePieceProcessor(model_proto=model)

    @classmethod
    def load(cls, path: Path) -> CtcTokenizer:
        """Reads a SentencePiece model file; ModelError when there is none."""
        try:
            tokenizer = cls(path.read_bytes())
        except FileNotFoundError as error:
            raise ModelError(f"{path}: no such tokenizer") from error
        except (OSError, RuntimeError) as error:
            raise ModelError(f"{path}: not a SentencePiece model") from error
        if len(tokenizer) < 2:
            raise ModelError(f"{path}: a SentencePiece model without pieces")
        return tokenizer

    @classmethod
    def train(cls, texts: Iterable[str], pieces: int) -> CtcTokenizer:
        """A unigram model of at most `pieces` pieces over texts; fewer where the texts do not support that many."""
        import io

        from sentencepiece import SentencePieceTrainer

        out = io.BytesIO()
        SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=out,
            vocab_size=pieces,
            model_type="unigram",
            character_coverage=1.0,
            hard_vocab_limit=False,
            bos_id=-1,
            eos_id=-1,
            minloglevel=2,
        )
        return cls(out.getvalue())

    def __len__(self) -> int:
        """Number of CTC outputs, the blank included."""
        return self._processor.get_piece_size() + 1

    def pieces(self) -> list[str]:
        """The pieces as SentencePiece writes them; piece i is output i + 1."""
        return [self._processor.id_to_piece(i) for i in range(len(self) - 1)]

    def alphabet(self) -> set[str]:
        """The characters that texts can have."""
        kinds = self._processor
        special = {i for i in range(len(self) - 1) if kinds.is_unknown(i) or kinds.is_control(i)}
        return set("".join(piece for i, piece in enumerate(self.pieces()) if i not in special).replace(SPACE, " "))

    def split(self, text: str) -> list[str]:
        """A text as pieces; stretches of characters that are in none stand as they are."""
        return self._processor.encode(text, out_type=str)

    def encode(self, text: str) -> list[int]:
        return [piece + 1 for piece in self._processor.encode(text)]

    def spell(self, word: str) -> list[int]:
        """CTC outputs of a word as people write it, brought to the form of the texts that this tokenizer is of."""
        return self.encode(self._form(word))

    @cached_property
    def _form(self) -> Callable[[str], str]:
        alphabet = self.alphabet()
        name = text_form(alphabet)
        form = TEXT_FORMS[name]
        if name == "normalised":
            return form
        return lambda word: "".join(character for character in form(word) if character in alphabet)

    def decode(self, outputs: Sequence[int]) -> str:
        """The text of CTC outputs (repeats and blanks already taken out)."""
        return self._processor.decode([output - 1 for output in outputs if output != self.blank])

    def can_spell(self, text: str) -> bool:
        """Whether every character of a text is in the vocabulary."""
        return self._processor.unk_id() not in self._processor.encode(text)


class PieceTable:
    """The decoder's byte-pair pieces by id: bytes are spelled `<0xNN>`, SPACE stands for a space."""

    def __init__(self, pieces: Sequence[str]) -> None:
        self.pieces = list(pieces)
        self._bytes = defaultdict(bytes, enumerate(map(_piece_bytes, self.pieces)))
        self._letters: dict[int, int] = {}

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {piece: i for i, piece in enumerate(self.pieces)}  # a character's own piece comes after its byte

    @classmethod
    def load(cls, path: Path) -> PieceTable:
        """Reads a JSON list of pieces; ModelError when it is none."""
        try:
            pieces = json.loads(path.read_text("utf-8"))
        except FileNotFoundError as error:
            raise ModelError(f"{path}: no such table of pieces") from error
        except (OSError, ValueError, RecursionError) as error:
            raise ModelError(f"{path}: not a table of pieces") from error
        if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
            raise ModelError(f"{path}: not a table of pieces: it must be a list of texts")
        return cls(pieces)

    def save(self, path: Path) -> None:
        write_whole(path, json.dumps(self.pieces, ensure_ascii=False).encode())

    def __len__(self) -> int:
        return len(self.pieces)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; bytes that are no UTF-8 become the replacement character, special pieces nothing."""
        return b"".join(self._bytes[i] for i in ids).decode("utf-8", "replace").strip()

    def raw(self, piece: int) -> str:
        """The text of one piece with its leading space; empty where it is no text of its own."""
        return self._bytes[piece].decode("utf-8", "ignore")

    def encode(self, text: str) -> list[int]:
        """Ids of a text, by byte-pair encoding (Sennrich et al. 2016): earlier pieces of the table merge first.

        Characters that are no pieces are spelled in their UTF-8 bytes.
        """
        ids = self._ids
        symbols = list(SPACE + text.strip().replace(" ", SPACE))
        while True:
            pairs = [(ids[a + b], i) for i, (a, b) in enumerate(pairwise(symbols)) if a + b in ids]
            if not pairs:
                break
            _, i = min(pairs)
            symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]
        spelled = (
            [ids[symbol]] if symbol in ids else [ids[f"<0x{byte:02X}>"] for byte in symbol.encode()]
            for symbol in symbols
        )
        return [piece for pieces in spelled for piece in pieces]

    def letters(self, piece: int) -> int:
        """How many letters a piece has, a digit counting as a spoken word."""
        if piece not in self._letters:
            self._letters[piece] = letter_count(self.decode([piece]))
        return self._letters[piece]

    def starts_word(self, piece: int) -> bool:
        """Whether a piece begins with a space."""
        return self._bytes[piece].startswith(b" ")

    def words(self, ids: Sequence[int]) -> list[tuple[str, list[int]]]:
        """The words of ids, each with the indices of its pieces in `ids`; a word starts at a piece with a space."""
        groups: list[list[int]] = []
        for index, piece in enumerate(ids):
            if not groups or self.starts_word(piece):
                groups.append([])
            groups[-1].append(index)
        words = [(self.decode([ids[i] for i in group]), group) for group in groups]
        return [(text, group) for text, group in words if text]


def _piece_bytes(piece: str) -> bytes:
    if piece in ("<unk>", "<s>", "</s>"):
        return b""
    if re.fullmatch(r"(<0x[0-9A-F]{2}>)+", piece):
        return bytes(int(code, 16) for code in re.findall(r"<0x(..)>", piece))
    return piece.replace(SPACE, " ").encode()
