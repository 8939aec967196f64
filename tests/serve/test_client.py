"""`asr live --server` and the stream behind it: the words of a local one, also over connections that break."""

from itertools import pairwise

import numpy as np
import pytest
import soundfile

from asr.audio.files import AudioFile
from asr.errors import AsrError
from asr.evaluation.wer import error_rate
from asr.events import Final
from asr.recognition.options import StreamOptions
from asr.recognition.recognizer import Recognizer
from asr.serve.client import RemoteStream
from asr.serve.limits import Limits
from tests.cli.runner import asr
from tests.recordings import RATE, SAMPLE, TEXTS
from tests.serve.running import SOUND, running, wait_until


def told(stream: RemoteStream, sound: np.ndarray, breaks: tuple[int, ...] = ()) -> list:
    """Events of a sound in pieces of half a second; the connection breaks before some of these."""
    events = []
    for number, start in enumerate(range(0, len(sound), RATE // 2)):
        if number in breaks:
            stream._socket.socket.shutdown(2)
        events += stream.accept(sound[start : start + RATE // 2], RATE)
    return events + stream.finish()


def test_a_stream_elsewhere_says_what_one_here_does(server, finals):
    said = [event for event in told(RemoteStream(server.http), SOUND) if isinstance(event, Final)]
    assert [final.text for final in said] == finals


def test_a_broken_connection_loses_no_word_and_doubles_none(english):
    sound, _ = soundfile.read(SAMPLE, dtype="float32")
    options = StreamOptions(chunk_ms=640, look_ahead_ms=0, partials="off")
    with running(Recognizer(english), options=options) as server:
        finals = [event for event in told(RemoteStream(server.ws), sound, (7, 20)) if isinstance(event, Final)]
    assert error_rate(" ".join(TEXTS), " ".join(final.text for final in finals)).wer < 10
    assert all(before.end <= after.start + 0.05 for before, after in pairwise(finals))


def test_a_server_that_restarts_is_waited_for(recognizer):
    with running(recognizer) as first:
        stream, port = RemoteStream(first.ws), first.port
        events = stream.accept(SOUND[: 3 * RATE], RATE)
        wait_until(lambda: first.measure("asr_sound_seconds_total") > 2)
    with running(recognizer, port=port) as second:
        events += stream.accept(SOUND[3 * RATE :], RATE) + stream.finish()
        assert second.port == port
    finals = [event for event in events if isinstance(event, Final)]
    assert finals[-1].end == pytest.approx(6, abs=0.1)
    assert all(before.end <= after.start + 0.05 for before, after in pairwise(finals))


def test_what_is_wrong_is_said_in_a_line(recognizer, server):
    for address, part in (("nowhere", "ws://host:port"), ("ws://127.0.0.1:9", "no server there")):
        with pytest.raises(AsrError, match=part):
            RemoteStream(address)
    with running(recognizer, Limits(streams=1), token="secret") as guarded:
        with pytest.raises(AsrError, match="a token is needed"):
            RemoteStream(guarded.ws, "wrong")
        assert RemoteStream(guarded.ws, "secret").finish() == []


def test_live_sends_its_sound_to_a_server(server, tmp_path):
    soundfile.write(tmp_path / "sound.wav", SOUND, RATE)
    done = asr("live", "--input", tmp_path / "sound.wav", "--fast", "--server", server.ws)
    assert done.returncode == 0, done.stderr
    with AudioFile(tmp_path / "sound.wav") as sound:
        blocks = np.concatenate(list(sound.blocks()))
    events = told(RemoteStream(server.ws), blocks)
    assert done.stdout.split() == " ".join(event.text for event in events if isinstance(event, Final)).split()
