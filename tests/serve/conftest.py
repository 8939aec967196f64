"""One server for all tests of protocols, with a small model of random weights."""

import io

import pytest
import soundfile

from asr.recognition.recognizer import Recognizer
from asr.serve.limits import Limits
from tests.recordings import RATE
from tests.serve.running import OPTIONS, SOUND, running
from tests.small import small_model


@pytest.fixture(scope="session")
def recognizer() -> Recognizer:
    return Recognizer(small_model(0))


@pytest.fixture(scope="session")
def server(recognizer):
    with running(recognizer, Limits(streams=8, upload_bytes=1 << 20)) as server:
        yield server


@pytest.fixture(scope="session")
def finals(recognizer) -> list[str]:
    """What a stream makes of `SOUND`, an utterance each."""
    stream = recognizer.stream(OPTIONS)
    said = stream.accept((SOUND * 32767).astype("<i2"), RATE) + stream.finish()
    return [event.text for event in said if hasattr(event, "words")]


@pytest.fixture(scope="session")
def recording() -> bytes:
    """`SOUND` as a WAV file."""
    file = io.BytesIO()
    soundfile.write(file, SOUND, RATE, format="WAV", subtype="PCM_16")
    return file.getvalue()
