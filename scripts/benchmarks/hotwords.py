"""What a list of hotwords does: errors on listed words, on the others, and what a list harms that is never said.

    python scripts/benchmarks/hotwords.py --text books.txt --limit 60 -- dev-clean.jsonl test.jsonl
    python scripts/benchmarks/hotwords.py --lists test-other.biasing_100.tsv test-other.jsonl

Neither the texts (of the size of some novels) nor the test sets and lists of LibriSpeech are in the repository. With
`--text` (plain or .xz, any language material), the rare words of an utterance are those that are not among the 5,000
most frequent of these texts; its list holds them and, up to the size of the list, others drawn from the rarer words of
the texts. `--lists` are the public lists for LibriSpeech (facebookresearch/fbai-speech, is21_deep_bias; Le et al.
2021): rare words and a list of each utterance by its id, which is the name of its file; longer lists are several
joined. Lists that are never said hold drawn words alone. A word that is inserted counts where the list has it.

Each utterance is read as a whole, with full context. The table has errors in percent on listed words (B-WER, the rare
ones that are said) and on all others (U-WER).
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import jiwer

from asr.manifest import Manifest
from asr.recognition.recognizer import RECORDED, Recognizer
from asr.text import normalise

COMMON = 5000  # most frequent words, which are never listed
DRAWN = 60_000  # most frequent words from which the others are drawn


@dataclass
class Counts:
    """Errors and words, of those that a list has and of the others."""

    listed: int = 0
    listed_words: int = 0
    others: int = 0
    other_words: int = 0

    def add(self, reference: list[str], hypothesis: list[str], words: set[str]) -> None:
        (chunks,) = jiwer.process_words([" ".join(reference)], [" ".join(hypothesis)]).alignments
        wrong: list[str] = []
        for chunk in chunks:
            if chunk.type in ("substitute", "delete"):
                wrong += reference[chunk.ref_start_idx : chunk.ref_end_idx]
            elif chunk.type == "insert":
                wrong += hypothesis[chunk.hyp_start_idx : chunk.hyp_end_idx]
        self.listed += sum(word in words for word in wrong)
        self.others += sum(word not in words for word in wrong)
        self.listed_words += sum(word in words for word in reference)
        self.other_words += sum(word not in words for word in reference)

    def __str__(self) -> str:
        if not self.listed_words:
            return f"- / {100 * self.others / self.other_words:.2f}"
        return f"{100 * self.listed / self.listed_words:.2f} / {100 * self.others / self.other_words:.2f}"


class Drawn:
    """Lists of rare words of an utterance among others from some texts."""

    def __init__(self, texts: Iterable[Path], seed: int) -> None:
        counts: Counter[str] = Counter()
        for path in texts:
            with (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf-8") as lines:
                for line in lines:
                    counts.update(line.split())
        frequent = [word for word, _ in counts.most_common(DRAWN)]
        self._common, self._random = set(frequent[:COMMON]), random.Random(seed)
        self._others = [word for word in frequent[COMMON:] if len(word) > 3 and word.isalpha()]

    def rare(self, name: str, reference: list[str]) -> list[str]:
        return sorted({word for word in reference if word not in self._common and len(word) > 2})

    def others(self, name: str, reference: list[str], size: int) -> list[str]:
        drawn = self._random.sample(self._others, size + len(reference))
        return [word for word in drawn if word not in reference][:size]


class Public:
    """The public lists of LibriSpeech."""

    def __init__(self, path: Path, seed: int) -> None:
        self._rows = {}
        for line in path.read_text().splitlines():
            name, _, rare, words = line.split("\t")
            self._rows[name] = json.loads(rare), json.loads(words)
        self._random = random.Random(seed)

    def rare(self, name: str, reference: list[str]) -> list[str]:
        return self._rows[name][0]

    def others(self, name: str, reference: list[str], size: int) -> list[str]:
        joined = [word for word in self._rows[name][1] if word not in reference]
        names = list(self._rows)
        while len(joined) < size:
            more = self._rows[self._random.choice(names)][1]
            joined = list(dict.fromkeys([*joined, *(word for word in more if word not in reference)]))
        return joined[:size]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifests", type=Path, nargs="+", metavar="MANIFEST")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--text", type=Path, nargs="+", help="texts that tell which words are rare")
    source.add_argument("--lists", type=Path, help="public lists for LibriSpeech")
    parser.add_argument("--sizes", default="100,1000", help="of the lists, with commas")
    parser.add_argument("--unspoken", default="100", help="sizes of lists that are never said")
    parser.add_argument("--model", default="en")
    parser.add_argument("--limit", type=int, help="only the first so many utterances of each set")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    lists = Public(arguments.lists, arguments.seed) if arguments.lists else Drawn(arguments.text, arguments.seed)
    sizes, unspoken = (
        [int(size) for size in text.split(",") if size] for text in (arguments.sizes, arguments.unspoken)
    )
    recognizer = Recognizer.load(arguments.model)
    heads = ["no list", *(f"list of {size}" for size in sizes), *(f"{size} unspoken" for size in unspoken)]
    print("errors in %: on listed words / on the others")
    print(f"| set | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}", sep="\n")
    for path in arguments.manifests:
        counts = {head: Counts() for head in heads}
        manifest = Manifest(path)
        for utterance in manifest[: arguments.limit]:
            reference = normalise(utterance.text).split()
            name = Path(utterance.audio).stem
            rare = [word for word in lists.rare(name, reference) if word in reference]
            samples = manifest.read_audio(utterance, recognizer.sample_rate)

            def read(words: list[str], samples=samples) -> list[str]:
                options = replace(RECORDED, endpoint=None, hotwords=words)
                return normalise(recognizer.transcribe(samples, options).text).split()

            counts["no list"].add(reference, read([]), set(rare))
            for size in sizes:
                listed = rare + lists.others(name, reference, size - len(rare))
                counts[f"list of {size}"].add(reference, read(listed), set(rare))
            for size in unspoken:
                counts[f"{size} unspoken"].add(reference, read(lists.others(name, reference, size)), set())
        print(f"| {path.parent.name}/{path.stem} | {' | '.join(map(str, counts.values()))} |", flush=True)


if __name__ == "__main__":
    main()
