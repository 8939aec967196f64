"""Whatever is wrong with a sound file, it is told in one line, or the sound comes out all the same."""

import io
import time

import numpy as np
import pytest

from asr.audio.files import AudioFile, read_audio
from asr.errors import AudioError
from tests.audio.makers import with_av, with_soundfile
from tests.mutations import DAMAGES, damaged
from tests.recordings import RATE, SAMPLE

SPEECH = read_audio(SAMPLE)[: round(1.2 * RATE)]
LEVEL = np.square(SPEECH).mean() ** 0.5
FORMATS = {
    "WAV": lambda: with_soundfile(SPEECH, "WAV", "PCM_16", RATE),
    "FLAC": lambda: with_soundfile(SPEECH, "FLAC", "PCM_16", RATE),
    "MP3": lambda: with_soundfile(SPEECH, "MP3", None, RATE),
    "Opus": lambda: with_soundfile(SPEECH, "OGG", "OPUS", RATE),
    "M4A": lambda: with_av(SPEECH, "ipod", "aac", rate=RATE),
    "Matroska": lambda: with_av(SPEECH, "matroska", "flac", rate=RATE),
}
WITH_LENGTH = {  # these say how long they are, so that what is missing at their end can be told
    **FORMATS,
    "Vorbis": lambda: with_soundfile(SPEECH, "OGG", "VORBIS", RATE),
    "AIFF": lambda: with_soundfile(SPEECH, "AIFF", "PCM_16", RATE),
    "AU": lambda: with_soundfile(SPEECH, "AU", "PCM_16", RATE),
    "CAF": lambda: with_soundfile(SPEECH, "CAF", "PCM_16", RATE),
    "Wave64": lambda: with_soundfile(SPEECH, "W64", "PCM_16", RATE),
}
TRIES = 9  # of each damage to each format
SECONDS = 20.0  # that one file of a second may take on a busy machine
NEAR = 0.1  # s


def read(data: bytes) -> tuple[np.ndarray, str | None]:
    """The samples, and what is said about them; none where the file is refused."""
    begun = time.monotonic()
    try:
        with AudioFile(io.BytesIO(data)) as file:
            samples = np.concatenate([np.empty(0, np.float32), *file.blocks()])
            line = file.warning
    except AudioError as error:
        samples, line = np.empty(0, np.float32), str(error)
    assert "\n" not in (line or "")
    assert time.monotonic() - begun < SECONDS
    return samples, line


@pytest.mark.parametrize("form", FORMATS)
def test_no_damage_raises_or_silences_speech_without_a_word(form: str):
    data = FORMATS[form]()
    for kind, how in enumerate(DAMAGES):
        for number in range(TRIES):
            wrong = damaged(data, how, np.random.default_rng([kind, number]))
            samples, line = read(wrong)
            assert np.isfinite(samples).all()
            if line is None:
                assert np.square(samples).mean() ** 0.5 > 0.3 * LEVEL, (how, number)


@pytest.mark.parametrize("form", WITH_LENGTH)
def test_a_missing_end_is_told(form: str):
    data = WITH_LENGTH[form]()
    assert read(data)[1] is None
    for share in (0.02, 0.3, 0.6):
        samples, line = read(data[: round(share * len(data))])
        assert line is not None, (share, len(samples) / RATE)


def test_a_file_that_claims_sound_and_gives_none_is_refused():
    data = with_soundfile(SPEECH, "AIFF", "PCM_16", RATE)
    with pytest.raises(AudioError, match=r"gave 0\.0 s of the 1\.2 s that it claims"):
        read_audio(io.BytesIO(data.replace(b"SSND", b"none")))


def test_the_last_frame_of_a_flac_is_missed():
    data = with_soundfile(SPEECH, "FLAC", "PCM_16", RATE)
    samples, line = read(data[:-9] + bytes(9))
    assert len(samples) > 0.7 * len(SPEECH)
    assert "that it claims" in line


def test_what_gives_nothing_at_all_is_refused():
    data = bytearray(FORMATS["FLAC"]())
    data[100:] = bytes(len(data) - 100)
    samples, line = read(bytes(data))
    assert not len(samples)
    assert line.startswith("sound data: ")
