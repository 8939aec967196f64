"""Which of the sound tracks of a film is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from asr.errors import AudioError

if TYPE_CHECKING:
    import av


def choose_track(tracks: Sequence[av.AudioStream], number: int | None) -> tuple[av.AudioStream, str | None]:
    """The track with that number (from 1); without one that which is flagged as the default, or else the first that is
    no commentary, and a line about the others if there are several.

    Raises:
        AudioError: there is none, or none of that number, or it is in a coding that is not supported.
    """
    if not tracks:
        raise AudioError("has no sound track")
    if number is not None:
        if number > len(tracks):
            raise AudioError(f"has no sound track {number}: {_listed(tracks)}")
        track = tracks[number - 1]
        if track.codec_context is None:
            raise AudioError(f"its sound track {number} is in a coding that is not supported")
        return track, None
    readable = [track for track in tracks if track.codec_context is not None]
    if not readable:
        raise AudioError("its sound is in a coding that is not supported")
    chosen = min(readable, key=lambda track: (not _is("default", track), _is_commentary(track)))
    if len(tracks) == 1:
        return chosen, None
    return chosen, f"{_listed(tracks)}; {tracks.index(chosen) + 1} is read, --track N takes another"


def _listed(tracks: Sequence[av.AudioStream]) -> str:
    names = [f"{number} {_name(track)}".strip() for number, track in enumerate(tracks, start=1)]
    return f"{len(tracks)} sound tracks ({', '.join(names)})" if len(tracks) > 1 else "there is one"


def _name(track: av.AudioStream) -> str:
    """Language and title, as far as they are stated."""
    language = track.metadata.get("language", "")
    parts = ("" if language == "und" else language, track.metadata.get("title", ""))
    name = " ".join(part for part in parts if part)
    return name if name.isprintable() else repr(name)


def _is_commentary(track: av.AudioStream) -> bool:
    kinds = ("comment", "visual_impaired", "hearing_impaired", "karaoke")
    return "comment" in track.metadata.get("title", "").lower() or any(_is(kind, track) for kind in kinds)


def _is(kind: str, track: av.AudioStream) -> bool:
    return bool(track.disposition & getattr(type(track.disposition), kind))
