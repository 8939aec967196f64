"""Hotwords of the server, and those that clients bring as their protocols say."""

import pytest
from websockets.sync.client import connect

from asr.audio.files import read_audio
from asr.recognition.options import StreamOptions
from asr.recognition.recognizer import Recognizer
from asr.serve.limits import BadMessage
from asr.serve.sockets import hotwords
from tests.recordings import RATE, SAMPLE
from tests.serve.running import loads, running
from tests.serve.test_protocols import rest

PCM = (read_audio(SAMPLE)[: round(4.7 * RATE)] * 32767).astype("<i2").tobytes()


def test_clients_bring_words_that_are_likelier_in_their_own_streams(english):
    options = StreamOptions(partials="off")
    with running(Recognizer(english), options=options) as server:

        def by_vosk(config: str) -> str:
            with connect(server.ws) as socket:
                socket.send(f'{{"config": {{"sample_rate": 16000{config}}}}}')
                socket.send(PCM)
                socket.recv(60)
                socket.send('{"eof": 1}')
                return loads(rest(socket)[-1])["text"]

        def by_deepgram(wish: str) -> str:
            with connect(f"{server.ws}/v1/listen?encoding=linear16&sample_rate=16000{wish}") as socket:
                socket.send(PCM)
                socket.send('{"type": "CloseStream"}')
                return loads(rest(socket)[0])["channel"]["alternatives"][0]["transcript"]

        plain = by_vosk("")
        wanted = "recognizer" if "recogniser" in plain else "recogniser"
        assert wanted in by_vosk(f', "phrase_list": ["{wanted}"]')
        assert wanted in by_deepgram(f"&keyterm={wanted}&keywords=nobody:2")
        assert by_vosk("") == plain


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("one", "give a list"),
        ([1], "give a list"),
        (["a"] * 101, "at most 100"),
        (["a" * 101], "of at most 100 letters"),
        (["a:9"], "the weight of keyterm is '9'"),
        (["a:b"], "the weight of keyterm is 'b'"),
        (["..."], "holds no letters"),
    ],
)
def test_what_are_no_hotwords_is_told(value, message):
    with pytest.raises(BadMessage, match=message):
        hotwords(value, "keyterm")


def test_a_weight_follows_a_colon():
    assert [(word.text, word.weight) for word in hotwords(["Lake  Titicaca", "Puno:0.5"], "keywords")] == [
        ("Lake Titicaca", 1.0),
        ("Puno", 0.5),
    ]
