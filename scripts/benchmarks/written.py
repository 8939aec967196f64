"""How well numbers and spoken punctuation are written, by the texts of manifests; no sound is read.

    python scripts/benchmarks/written.py --show runs/sample/train.jsonl

Ordinary speech: the words of each `text`, and of what is `written`, are given as if they had been heard, with
`--spoken-punctuation`; every word that is taken as a command is one too many. Spoken punctuation: what is `written` is
dictated, its marks in words and nothing in capitals, and must come back. Numbers: `text` with `--numbers digits`,
against the words with digits in `written`, where it has any. `--show` prints what is not as it should be.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from asr.manifest import Manifest
from asr.writing.punctuation import find_marks
from asr.writing.rewriting import Writing, plain
from asr.writing.tokens import join

NAMES = {",": "comma", ".": "full stop", "?": "question mark", "!": "exclamation mark", ":": "colon", ";": "semicolon"}
PERIODS = {**NAMES, ".": "period"}
SPOKEN, DIGITS = Writing(spoken_punctuation=True), Writing("digits")


@dataclass
class Share:
    """Of how many things how many were right, and what was there in excess."""

    right: int = 0
    all: int = 0
    excess: int = 0

    def add(self, expected: Sequence[str], got: Sequence[str]) -> bool:
        """Whether they are the same."""
        common = (Counter(expected) & Counter(got)).total()
        self.right, self.all, self.excess = (
            self.right + common,
            self.all + len(expected),
            self.excess + len(got) - common,
        )
        return list(expected) == list(got)

    def __str__(self) -> str:
        return f"{self.right} of {self.all} ({100 * self.right / max(1, self.all):.1f} %), {self.excess} in excess"


def write(writing: Writing, text: str) -> str:
    return join(token.text for token in writing.write(text.split()))


def marked(text: str) -> list[str]:
    """The words of a written text, each with the marks of `NAMES` after it, in lower case."""
    text = re.sub(r"(?<=\d)[.,:](?=\d)|[^\w\s',.?!:;]|_", " ", text.lower())
    words = re.sub(r"\s+(?=[,.?!:;])|(?<=[,.?!:;])[\s,.?!:;]*(?=[,.?!:;])[,.?!:;]", "", text).split()
    return [word for word in words if re.fullmatch(r"[\w'][^,.?!:;]*[,.?!:;]?", word)]


def with_marks(words: Sequence[str]) -> list[str]:
    """Those after which a mark is."""
    return [word for word in words if word[-1] in NAMES]


def dictated(words: Sequence[str], names: dict[str, str]) -> str:
    return " ".join(f"{word[:-1]} {names[word[-1]]}" if word[-1] in names else word for word in words)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifests", nargs="+", type=Path)
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    said = taken = 0
    stops, periods, numbers = Share(), Share(), Share()

    def show(right: bool, *texts: str) -> None:
        if options.show and not right:
            print(*texts, sep="\n    ", flush=True)

    for entry in (entry for path in options.manifests for entry in Manifest(path)):
        written = entry.extra.get("written") or ""
        for words in entry.text.split(), written.split():
            commands = sum(token.mark for token in find_marks(words))
            said, taken = said + len(words), taken + commands
            show(not commands, " ".join(words), write(SPOKEN, " ".join(words)))
        for share, names in (stops, NAMES), (periods, PERIODS):
            spoken = dictated(marked(written), names)
            got = write(SPOKEN, spoken)
            show(share.add(with_marks(marked(written)), with_marks(got.split())), spoken, got)
        if re.search(r"\d", written):
            expected, got = (
                [word for word in plain(text).split() if re.search(r"\d", word)]
                for text in (written, write(DIGITS, entry.text))
            )
            show(numbers.add(expected, got), entry.text, written, write(DIGITS, entry.text))
    print(f"ordinary speech: {taken} commands taken in {said} words")
    print(f"marks that were spoken: {stops}; with 'period' for 'full stop': {periods}")
    print(f"words with digits: {numbers}")


if __name__ == "__main__":
    main()
