"""Corpora as they are prepared: entries -> manifests (JSON lines), loose audio or packed in a tar."""

from __future__ import annotations

import hashlib
import io
import json
import math
import tarfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import soundfile

from asr.audio.files import read_audio
from asr.errors import AsrError, ManifestError
from asr.files import replacing, write_whole

RATE = 16000  # hertz, of parts that are cut out for a tar


@dataclass(frozen=True)
class Entry:
    """One utterance of a corpus.

    Attributes:
        audio: its file.
        text: what is said.
        more: other keys of its line, such as speaker and written (with capitals and punctuation).
        offset: where in the file it begins (seconds); None = the file holds it alone.
        duration: its length (seconds); None = that of the file.
    """

    audio: Path
    text: str
    more: dict = field(default_factory=dict)
    offset: float | None = None
    duration: float | None = None


@dataclass
class Corpus:
    """Entries that become one manifest, and how many utterances were left out for what reason."""

    name: str
    entries: list[Entry] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


def read_table(path: Path) -> list[str]:
    """The lines of a text file; ManifestError when there is none."""
    try:
        return path.read_text("utf-8-sig").splitlines()
    except OSError as error:
        raise ManifestError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ManifestError(f"{path}: is not UTF-8 text") from error


def seconds_of(audio: Path) -> float | None:
    """Length of a file (seconds); None when it cannot be read or is empty."""
    try:
        about = soundfile.info(str(audio))
        frames, rate = about.frames, about.samplerate
    except (soundfile.SoundFileError, OSError):
        frames, rate = 0, RATE
    seconds = frames / rate
    if seconds and audio.is_file() and seconds < 8 * audio.stat().st_size / 500:  # no codec needs less than 500 bit/s
        return seconds
    try:
        return len(read_audio(str(audio), RATE)) / RATE or None
    except AsrError:
        return None


def measure(corpus: Corpus) -> None:
    """Fills in the durations; entries without text or with unreadable audio are left out and counted."""
    kept = [entry for entry in corpus.entries if entry.text.strip()]
    corpus.left_out["without text"] += len(corpus.entries) - len(kept)
    files = sorted({entry.audio for entry in kept if entry.duration is None or not entry.audio.is_file()})
    with ThreadPoolExecutor() as pool:
        seconds = dict(zip(files, pool.map(seconds_of, files), strict=True))
    corpus.entries = []
    for entry in kept:
        known = seconds.get(entry.audio, entry.duration)
        if known is None or not 0 < known < math.inf:
            reason = "whose audio cannot be read" if entry.audio.is_file() else "whose audio is not there"
            corpus.left_out[reason] += 1
        else:
            corpus.entries.append(replace(entry, duration=known))


def split_off(corpus: Corpus, share: float) -> list[Corpus]:
    """`train` and `dev` with about this share of the utterances; by speaker where there are several."""
    if not share:
        return [corpus]
    several = len({entry.more.get("speaker") for entry in corpus.entries}) > 1

    def group(entry: Entry) -> str:
        return str(entry.more.get("speaker")) if several else entry.audio.name

    sizes = Counter(map(group, corpus.entries))
    dev: set[str] = set()
    for name in sorted(sizes, key=lambda name: hashlib.blake2b(name.encode()).digest()):
        if sum(sizes[n] for n in dev) >= share * len(corpus.entries):
            break
        dev.add(name)
    parts = [[e for e in corpus.entries if (group(e) in dev) is wanted] for wanted in (False, True)]
    return [Corpus("train", parts[0], corpus.left_out), Corpus("dev", parts[1])]


def write(corpus: Corpus, folder: Path, *, tar: bool = False) -> str:
    """Writes FOLDER/NAME.jsonl, with NAME.tar of its audio beside it on demand; returns a line about it.

    Raises:
        ManifestError: nothing is left to write, or a tar of an earlier preparation is in the way.
    """
    folder.mkdir(parents=True, exist_ok=True)
    target, packed = folder / f"{corpus.name}.jsonl", folder / f"{corpus.name}.tar"
    reasons = "".join(f"; left out: {count} {reason}" for reason, count in corpus.left_out.items() if count)
    if not corpus.entries:
        raise ManifestError(f"{target}: no utterance to write{reasons}")
    if packed.exists() and not tar:
        raise ManifestError(f"{packed}: is in the way, since audio would be looked for in it: remove it, or use --tar")
    names = _pack(corpus.entries, packed) if tar else [_name(entry.audio, folder) for entry in corpus.entries]
    lines = [_line(entry, name, cut=tar) for entry, name in zip(corpus.entries, names, strict=True)]
    write_whole(target, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    hours = sum(entry.duration for entry in corpus.entries) / 3600
    amount = f"{hours:.1f} h" if hours >= 1 else f"{60 * hours:.1f} min"
    speakers = {entry.more["speaker"] for entry in corpus.entries if "speaker" in entry.more}
    known = f", {len(speakers)} speaker{'s' if len(speakers) > 1 else ''}" if speakers else ""
    return f"{target}: {len(lines)} utterances, {amount}{known}{reasons}"


def _line(entry: Entry, name: str, *, cut: bool) -> dict:
    offset = {} if entry.offset is None or cut else {"offset": round(entry.offset, 4)}
    return {
        "audio_filepath": name,
        "duration": round(entry.duration, 4),
        "text": " ".join(entry.text.split()),
        **offset,
        **entry.more,
    }


def _name(audio: Path, folder: Path) -> str:
    """Relative for audio inside of the manifest's folder, so that both can be moved together; else absolute."""
    audio, folder = audio.resolve(), folder.resolve()
    return str(audio.relative_to(folder) if audio.is_relative_to(folder) else audio)


def _pack(entries: list[Entry], target: Path) -> list[str]:
    """Writes all audio into an uncompressed tar: files as they are, parts of files as FLAC; returns their names."""
    names = []
    with replacing(target) as partial, tarfile.open(partial, "w") as tar:
        for number, entry in enumerate(entries):
            part = entry.offset is not None
            member = tarfile.TarInfo(f"{number:07d}-{entry.audio.stem}{'.flac' if part else entry.audio.suffix}")
            data = _cut(entry) if part else entry.audio.read_bytes()
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
            names.append(member.name)
    return names


def _cut(entry: Entry) -> bytes:
    samples = read_audio(str(entry.audio), RATE)
    begin = round(entry.offset * RATE)
    flac = io.BytesIO()
    soundfile.write(flac, samples[begin : begin + round(entry.duration * RATE)], RATE, format="FLAC")
    return flac.getvalue()
