"""What is to be transcribed: files, folders, patterns, manifests and lists, as one list of inputs."""

from __future__ import annotations

import glob
import io
import os
import re
import stat
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from asr.audio.bytestream import Source
from asr.errors import AsrError
from asr.files import is_of_kernel, marked_encoding

if TYPE_CHECKING:
    from asr.manifest import Manifest, Utterance

# What is taken for sound in a folder. A file that is named, matched or listed is read whatever its name.
_MEDIA = """
3g2 3gp aac ac3 adts aif aifc aiff alac amr ape asf au avi awb caf dsf dts eac3 flac flv gsm m2ts m4a m4b m4r m4v
mka mkv mov mp2 mp3 mp4 mpc mpeg mpg mts mxf oga ogg ogv opus qcp ra rm snd sox sph spx tak ts tta voc vob w64 wav wave
weba webm wma wmv wv
"""
MEDIA = frozenset(_MEDIA.split())
STANDARD_INPUT = "-"
_UNMARKED_UTF16 = re.compile(rb"(?:(?:^|\0)[^\0]\0[^\0]\0[^\0]\0)|(?:(?:^|\0)[\r\n]\0)")  # names of a letter each
LONGEST_LIST = 256_000_000  # bytes: what is longer is no list
PART_RATE = 16000  # hertz of the parts of recordings that manifests name


@dataclass(frozen=True)
class Input:
    """One recording.

    Attributes:
        name: what outputs and messages call it.
        path: the local file; `-` is standard input.
        place: where it stands in the tree that it was found in, e.g. `2024/talk.mp3`.
        row: of the manifest `path`: its audio in the tar, or the part of a recording that it names; None: `path` is the
            audio.
        error: why there is nothing to read, where that is known already.
    """

    name: str
    path: str
    place: str
    row: int | None = None
    error: str | None = None

    def open(self) -> Source:
        """What `AudioFile` reads.

        Raises:
            ManifestError: a manifest names it, and it cannot be read.
        """
        if self.row is None:
            return self.path
        manifest = _manifest(self.path)
        utterance = manifest[self.row]
        read = manifest.read_bytes if utterance.offset is None else partial(_part, manifest)
        data = io.BytesIO(read(utterance))
        data.name = self.name
        return data

    @property
    def piped(self) -> bool:
        """Whether it can be read by this process alone, and once: standard input, `<(...)` of a shell, a device."""
        if self.path == STANDARD_INPUT:
            return True
        try:
            mode = os.stat(self.path).st_mode
        except (OSError, ValueError):
            return False
        return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))

    def size(self) -> int:
        """Bytes, as far as they can be told at once: something to plan with."""
        try:
            return 0 if self.row is not None else os.stat(self.path).st_size
        except (OSError, ValueError):
            return 0


def find_inputs(arguments: Iterable[str], listed: str | None = None) -> list[Input]:
    """The inputs that arguments and a list name, in that order.

    An argument is a file, a folder (all sound and video files under it, sorted), a pattern (`*`, `?`, `[...]`, `**`
    for any folders) where no file has that name, or a manifest (`.jsonl`, see `asr.manifest`). `listed` is a file with
    such arguments, one on each line (or after each NUL); `-` is standard input. A list names folders in full: its
    patterns stand for files alone. What is not there stays in the list and fails when it is opened.

    Raises:
        AsrError: the list cannot be read.
        ManifestError: a manifest cannot be read.
    """
    found = [item for name in arguments for item in _expand(name)]
    if listed is not None:
        found += [item for name in _read_list(listed) for item in _expand(name, listed=True)]
    return found


def _read_list(path: str) -> list[str]:
    try:
        with nullcontext(sys.stdin.buffer) if path == STANDARD_INPUT else open(path, "rb") as file:
            data = file.read(LONGEST_LIST + 1)
    except OSError as error:
        raise AsrError(f"{path}: the list cannot be read: {error.strerror or error}") from error
    if len(data) > LONGEST_LIST:
        raise AsrError(f"{path}: not a list of files: it is longer than {LONGEST_LIST // 1_000_000} MB")
    lines = _split_list(data, path)
    return [os.fsdecode(line) for line in lines if line.strip()]


def _split_list(data: bytes, path: str) -> list[bytes]:
    """The lines of a list, in UTF-8 where its byte order mark says how it is encoded, else as they are."""
    if (encoding := marked_encoding(data)) is not None:
        try:
            return data.decode(encoding).encode("utf-8").splitlines()
        except UnicodeError as error:
            raise AsrError(f"{path}: the list cannot be read: damaged {encoding.upper()}") from error
    if b"\0" not in data:
        return data.splitlines()
    if _UNMARKED_UTF16.search(data):
        raise AsrError(f"{path}: the list cannot be read: UTF-16 without a byte order mark: save it as UTF-8")
    return data.split(b"\0")


def _expand(name: str, listed: bool = False) -> Iterator[Input]:
    try:
        is_folder, is_file = os.path.isdir(name), os.path.isfile(name)
    except ValueError:  # a NUL in the name: opening it tells
        is_folder = is_file = False
    if name == STANDARD_INPUT:
        yield Input(name, name, "stdin")
    elif is_folder and listed and os.path.basename(name.rstrip("/" + os.sep)) in ("", ".", ".."):
        yield Input(name, name, "sound", error="a list names folders in full, not as . or /")
    elif is_folder:
        yield from _walk(name)
    elif is_file and name.lower().endswith(".jsonl"):
        yield from _from_manifest(name)
    elif not is_file and glob.has_magic(name) and (matches := sorted(glob.glob(name, recursive=True))):
        for match in matches:
            if not os.path.isdir(match):
                yield _file(match)
            elif not listed:
                yield from _walk(match)
    else:
        yield _file(name)


def _file(path: str) -> Input:
    return Input(path, path, os.path.basename(path) or "sound")


def _walk(folder: str) -> Iterator[Input]:
    """All sound and video files under a folder; a folder that has none, or cannot be read, is an input that fails."""
    found = []

    def refuse(error: OSError) -> None:
        path = os.fsdecode(error.filename)
        found.append(Input(path, path, os.path.basename(os.path.normpath(path)), error=error.strerror))

    for parent, files in _walk_once(folder, refuse):
        for name in files:
            if not name.startswith(".") and name.rpartition(".")[2].lower() in MEDIA:
                path = os.path.join(parent, name)
                found.append(Input(path, path, os.path.relpath(path, folder)))
    if not found:
        yield Input(folder, folder, os.path.basename(os.path.normpath(folder)), error="a folder without sound files")
    yield from sorted(found, key=lambda item: item.path)


def _walk_once(folder: str, refuse: Callable[[OSError], None]) -> Iterator[tuple[str, list[str]]]:
    """Each folder from `folder` on with its files, hidden ones left out.

    Linked folders come last and each folder comes once: circles end, and a folder keeps its own name rather than a
    link's. The kernel's folders hold no sound, but links from processes to all of the machine: nothing in them is seen.
    """
    waiting, seen = deque([folder]), set()
    while waiting:
        for parent, folders, files in os.walk(waiting.popleft(), onerror=refuse):
            status = os.stat(parent)
            if (key := (status.st_dev, status.st_ino)) in seen or is_of_kernel(parent):
                folders.clear()
                continue
            seen.add(key)
            shown = sorted(name for name in folders if not name.startswith("."))
            links = [name for name in shown if os.path.islink(os.path.join(parent, name))]
            waiting += [os.path.join(parent, name) for name in links]
            folders[:] = [name for name in shown if name not in links]
            yield parent, files


@lru_cache(maxsize=4)
def _manifest(path: str) -> Manifest:
    """Each process reads it once."""
    from asr.manifest import Manifest

    return Manifest(path, require_text=False)


def _part(manifest: Manifest, utterance: Utterance) -> bytes:
    """The part of a recording that an utterance with an offset is, mixed, as a sound file."""
    import soundfile

    data = io.BytesIO()
    soundfile.write(data, manifest.read_audio(utterance, PART_RATE), PART_RATE, "FLOAT", format="WAV")
    return data.getvalue()


def _from_manifest(path: str) -> Iterator[Input]:
    folder = os.path.dirname(path)
    for row, utterance in enumerate(_manifest(path)):
        loose = os.path.join(folder, utterance.audio)
        place = os.path.basename(loose) if os.path.isabs(utterance.audio) else utterance.audio
        if utterance.offset is not None:
            begin, end = utterance.offset, utterance.offset + utterance.duration
            stem, dot, suffix = place.rpartition(".")
            place = f"{stem if dot else suffix}-{begin:.2f}-{end:.2f}{dot}{suffix if dot else ''}"
            yield Input(f"{path}:{utterance.audio} {begin:.2f}-{end:.2f} s", path, place, row=row)
        elif os.path.exists(loose):
            yield Input(loose, loose, place)
        else:
            yield Input(f"{path}:{utterance.audio}", path, place, row=row)
