"""Lists of utterances with their texts (JSON lines, as NeMo writes them) and the audio they name, in a tar or loose."""

import errno
import io
import json
import os
import sys
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from asr.audio.files import AudioFile
from asr.errors import AudioError, ManifestError
from asr.files import is_of_kernel, marked_encoding

SLACK, SLACK_SHARE = 0.1, 0.01  # seconds, and share of its length, by which audio may differ from its manifest
LONGEST_LINE = 10_000_000  # characters
_KEYS = ("audio_filepath", "duration", "text")


@dataclass(frozen=True)
class Utterance:
    """One line of a manifest.

    Attributes:
        audio: name of the audio in the tar, or its path.
        duration: length (seconds).
        text: what is said; empty where unknown.
        extra: the other keys of the line.
        offset: where in the audio it begins (seconds); None = the audio holds this utterance alone.
    """

    audio: str
    duration: float
    text: str
    extra: dict = field(default_factory=dict)
    offset: float | None = None


class Manifest(Sequence):
    """The utterances of `X.jsonl`, in its order.

    Audio is looked for in the uncompressed `X.tar` beside the manifest, then as a file relative to the manifest's
    folder (or absolute). The tar's index is built once; its members are then read by their offset through a descriptor
    opened for each read, so that threads, forked and spawned processes can share one manifest.

    Args:
        path: the manifest.
        require_text: refuse lines whose `text` is missing or empty.

    Raises:
        ManifestError: the manifest is missing, empty or has a line that is not an utterance; or the tar is damaged.
    """

    def __init__(self, path: str | os.PathLike, require_text: bool = True):
        self.path = Path(path)
        self._utterances = _read_lines(self.path, require_text)
        self._tar = self.path.with_suffix(".tar")
        self._members = _index(self._tar) if self._tar.is_file() else {}

    def __len__(self) -> int:
        return len(self._utterances)

    def __getitem__(self, index):
        """The utterance at an index, or a list of those of a slice."""
        return self._utterances[index]

    def read_bytes(self, utterance: Utterance) -> bytes:
        """The audio that holds an utterance, as it is stored.

        Raises:
            ManifestError: it is neither in the tar nor on the disk, or cannot be read.
        """
        member = self._members.get(_plain(utterance.audio))
        try:
            if member is None:
                return _read_file(self.path.parent / utterance.audio)
            offset, size = member
            with open(self._tar, "rb") as tar:
                tar.seek(offset)
                data = tar.read(size)
        except (FileNotFoundError, ValueError) as error:
            places = f"in {self._tar} or on the disk" if self._members else "on the disk, and there is no tar"
            raise ManifestError(f"{self.path}: its audio {utterance.audio!r} is not {places}") from error
        except OSError as error:
            raise ManifestError(
                f"{self.path}: its audio {utterance.audio!r} cannot be read: {error.strerror or error}"
            ) from error
        if len(data) < size:
            raise ManifestError(f"{self._tar}: cut off within {utterance.audio!r}: copy it again")
        return data

    def read_audio(
        self, utterance: Utterance, sample_rate: int = 16000, warn: Callable[[str], None] = lambda line: None
    ) -> np.ndarray:
        """The audio of an utterance, decoded to float32 mono at `sample_rate` (hertz), (samples,).

        Of an utterance with an offset this is a part of a recording, which is decoded as a whole each time. `warn` is
        told in one line where it is damaged or not what the manifest says.

        Raises:
            ManifestError: it is missing or cannot be decoded, or the recording ends before the offset.
        """
        try:
            with AudioFile(io.BytesIO(self.read_bytes(utterance)), sample_rate) as file:
                samples = np.concatenate([np.empty(0, np.float32), *file.blocks(seconds=10.0)])
        except AudioError as error:
            reason = str(error).partition(": ")[2]
            raise ManifestError(f"{self.path}: its audio {utterance.audio!r} cannot be decoded: {reason}") from error
        length = len(samples) / sample_rate
        if utterance.offset is not None:
            begin = round(utterance.offset * sample_rate)
            samples = samples[begin : begin + round(utterance.duration * sample_rate)]
            if not len(samples):
                where = f"begins at {utterance.offset:.2f} s of {length:.2f} s"
                raise ManifestError(f"{self.path}: its audio {utterance.audio!r} {where}: there is no sound")
        if trouble := self._trouble(utterance, len(samples) / sample_rate, length, file.damage):
            warn(f"{self.path}: its audio {utterance.audio!r}: {trouble}")
        return samples

    def _trouble(self, utterance: Utterance, seconds: float, length: float, damage: str | None) -> str | None:
        """What is wrong with `seconds` of sound that were read from a recording of a length (seconds)."""
        if damage is not None:
            return damage
        if not misstated(seconds, utterance.duration):
            return None
        if utterance.offset is not None:
            return f"reaches to {utterance.offset + utterance.duration:.2f} s of {length:.2f} s"
        return f"{seconds:.2f} s long, its manifest says {utterance.duration:.2f} s"


def misstated(seconds: float, stated: float) -> bool:
    """Whether audio of so many seconds is not what a manifest says."""
    return abs(seconds - stated) > SLACK + SLACK_SHARE * seconds


def _read_lines(path: Path, require_text: bool) -> list[Utterance]:
    try:
        with open(path, "rb") as file:
            encoding = marked_encoding(file.peek(4)) or "utf-8"
            lines = io.TextIOWrapper(file, encoding)
            utterances = [
                _utterance(line, f"{path}, line {number}", require_text)
                for number, line in enumerate(iter(partial(lines.readline, LONGEST_LINE), ""), start=1)
                if line.strip()
            ]
    except FileNotFoundError as error:
        raise ManifestError(f"{path}: no such manifest") from error
    except UnicodeError as error:
        raise ManifestError(f"{path}: not a manifest: it is not UTF-8 text") from error
    except OSError as error:
        raise ManifestError(f"{path}: cannot be read: {error.strerror or error}") from error
    if not utterances:
        raise ManifestError(f"{path}: an empty manifest: it names no utterance")
    return utterances


def _read_file(path: Path) -> bytes:
    """All of a file; what is none, such as a device, may never end."""
    if path.exists() and (not path.is_file() or is_of_kernel(path)):
        raise OSError(errno.EINVAL, "not a file")
    return path.read_bytes()


def _utterance(line: str, place: str, require_text: bool) -> Utterance:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"{place}: not JSON") from error
    if not isinstance(entry, dict):
        raise ManifestError(f"{place}: not a JSON object with audio_filepath, duration and text")
    for key in _KEYS:
        if key not in entry and (key != "text" or require_text):
            raise ManifestError(f"{place}: {key} is missing")
    audio, duration, text = entry["audio_filepath"], entry["duration"], entry.get("text") or ""
    if not isinstance(audio, str) or not audio:
        raise ManifestError(f"{place}: audio_filepath is not the name of a file but {audio!r}")
    if isinstance(duration, bool) or not isinstance(duration, int | float):
        raise ManifestError(f"{place}: duration is not a number of seconds but {duration!r}")
    if not 0 < duration <= sys.float_info.max:
        raise ManifestError(f"{place}: duration is not positive and finite but {duration!r}")
    if not isinstance(text, str):
        raise ManifestError(f"{place}: text is not a string but {text!r}")
    if require_text and not text.strip():
        raise ManifestError(f"{place}: text is empty")
    offset = entry.get("offset")
    if offset is not None and (isinstance(offset, bool) or not isinstance(offset, int | float)):
        raise ManifestError(f"{place}: offset is not a number of seconds but {offset!r}")
    if offset is not None and not 0 <= offset <= sys.float_info.max:
        raise ManifestError(f"{place}: offset is not at least 0 and finite but {offset!r}")
    extra = {key: value for key, value in entry.items() if key not in (*_KEYS, "offset")}
    return Utterance(audio, float(duration), text, extra, None if offset is None else float(offset))


def _index(path: Path) -> dict[str, tuple[int, int]]:
    """Offset and size in bytes of each file in an uncompressed tar, by its name."""
    try:
        with tarfile.open(path, "r:") as tar:
            return {_plain(member.name): (member.offset_data, member.size) for member in tar if member.isfile()}
    except tarfile.TarError as error:
        raise ManifestError(f"{path}: not an uncompressed tar, or damaged") from error
    except OSError as error:
        raise ManifestError(f"{path}: cannot be read: {error.strerror or error}") from error


def _plain(name: str) -> str:
    """A name in a tar without the leading ./ that some programs write."""
    return name.removeprefix("./")
