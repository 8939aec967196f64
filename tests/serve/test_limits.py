"""What happens when clients send too much, nothing, nonsense, or do not read; and when the server ends."""

import asyncio
import gc
import http.client
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import weakref
from contextlib import ExitStack, suppress

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from asr.serve.engine import Engine
from asr.serve.limits import Limits
from asr.serve.session import Session
from tests.serve.running import OPTIONS, PCM, SECOND, SOUND, loads, running, wait_until
from tests.sound_server import guarded

ADDRESSES = ("/", "/vosk", "/sherpa", "/v1/listen", "/v1/realtime", "/v1/captions", "/v1/watch")
START = '{"type": "start", "rate": 16000}'


@pytest.fixture(scope="module")
def strict(recognizer):
    """A server without patience."""
    limits = Limits(4, 1, 12, queued=20.0, unread_bytes=1 << 16, idle=1.0, opening=1.0, write=1.0)
    with running(recognizer, limits) as server:
        yield server


def closing(connection, most: float = 30) -> tuple[int, str]:
    """Code and reason with which the server closes."""
    with suppress(ConnectionClosed):
        while True:
            connection.recv(most)
    return connection.protocol.close_rcvd.code, connection.protocol.close_rcvd.reason


def test_more_sound_than_is_decoded_is_said_and_ends_the_stream(strict):
    with connect(f"{strict.ws}/v1/captions") as client:
        client.send(START)
        client.send(PCM * 4)
        code, reason = closing(client)
    assert code == 1013
    assert "faster than it is decoded" in reason


def test_who_sends_nothing_is_told_and_sent_away(strict):
    for paths in (ADDRESSES[:3], ADDRESSES[3:6]):  # there is room for four at a time
        with ExitStack() as stack:
            for client in [stack.enter_context(connect(strict.ws + path)) for path in paths]:
                code, reason = closing(client)
                assert code == 1008
                assert "nothing came for 1 s" in reason


def test_who_connects_and_asks_nothing_is_cut_off(strict):
    with ExitStack() as stack:
        clients = []
        for port, data in ((strict.port, b""), (strict.port, b"GET / HTTP/1.1\r\nHo"), (strict.wyoming, b"{")):
            clients.append(stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30)))
            clients[-1].sendall(data)
        for client in clients:
            with suppress(ConnectionResetError):
                while client.recv(1 << 16):
                    pass


def test_more_connections_than_there_may_be_are_refused(strict):
    with ExitStack() as stack:
        for _ in range(12):
            stack.enter_context(connect(f"{strict.ws}/v1/watch"))
        connection = http.client.HTTPConnection("127.0.0.1", strict.port, timeout=30)
        connection.request("GET", "/health")
        assert connection.getresponse().status == 503
        connection.close()
    wait_until(lambda: strict.measure("asr_connections") == 1)
    assert strict.measure('asr_refusals_total{reason="full"}') >= 1


def test_who_does_not_read_loses_partials_but_no_final_and_holds_nobody_up(recognizer):
    async def unread():
        engine = Engine(recognizer, 1)
        session = Session(engine, Limits(), OPTIONS)
        session.put(SOUND, 16000)
        session.end()
        await asyncio.wait([session._decoding])
        said = [segment async for segment in session]
        await session.close()
        engine.close()
        return said

    said = asyncio.run(unread())
    assert all(segment.final for segment in said)
    assert [segment.number for segment in said] == list(range(len(said)))


def test_who_vanishes_is_forgotten(strict):
    for path, first in (("/v1/captions", START), ("/vosk", '{"config": {}}'), ("/v1/listen", PCM[:SECOND])):
        client = connect(strict.ws + path)
        client.send(first)
        linger = struct.pack("ii", 1, 0)  # a reset instead of a farewell
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        client.socket.close()
    wait_until(lambda: strict.measure("asr_streams") == 0 and strict.measure("asr_connections") == 1)


@pytest.mark.parametrize("ended", [True, False])
def test_the_stream_of_a_client_who_has_gone_takes_no_memory(recognizer, ended):
    async def come_and_go():
        engine, opened = Engine(recognizer, 1), []
        opening = engine.open
        engine.open = lambda options: opened.append(weakref.ref(stream := opening(options))) or stream
        session = Session(engine, Limits(), OPTIONS)
        await session.put(SOUND[:16000], 16000)
        waiting = session.put(SOUND, 16000)
        if ended:
            session.end()
            await asyncio.wait([session._decoding])
        await session.close()
        engine._threads.shutdown()  # a step that was going on
        assert waiting.done()
        return opened

    gc.disable()
    try:
        assert [stream() for stream in asyncio.run(come_and_go())] == [None]
    finally:
        gc.enable()


def nonsense(g: random.Random) -> str | bytes:
    """A message that no protocol has, or nearly one that some have."""
    words = ["type", "config", "eof", "audio", "session", "start", "rate", "Finalize", "sample_rate", "update", "on"]
    words += [
        "input_audio_buffer.append",
        "input_audio_buffer.commit",
        "session.update",
        "transcription_session.update",
    ]
    values = [None, True, -1, 1e308, "NaN", "", [], {}, "\x00", "é" * 50, 10**30, *words]

    def value(depth: int = 0):
        kind = g.randrange(4 if depth < 3 else 1)
        if kind == 1:
            return [value(depth + 1) for _ in range(g.randrange(3))]
        if kind > 1:
            return {g.choice(words): value(depth + 1) for _ in range(g.randrange(4))}
        return g.choice(values)

    text = json.dumps(value())
    return g.choice(
        [
            text,
            text[: g.randrange(len(text) + 1)],
            json.dumps({"type": g.choice(words), "session": value(), "audio": value(), "rate": value()}),
            json.dumps({"config": value()}),
            "[" * 2000,
            g.randbytes(g.randrange(200)),
            b"RIFF" + g.randbytes(60),
            b"fLaC" + g.randbytes(60),
            START,
        ]
    )


def attack(server, path: str, messages: int, seed: int) -> None:
    """Sends messages, over new connections where the server ends one; it never says anything of its inside."""
    g, sent = random.Random(seed), 0
    while sent < messages:
        with connect(server.ws + path, open_timeout=30) as client:
            with suppress(ConnectionClosed):
                for _ in range(g.randrange(1, 8)):
                    sent += 1
                    client.send(nonsense(g))
                    with suppress(TimeoutError):
                        assert "Traceback" not in str(client.recv(0))
            closed = client.protocol.close_rcvd
            assert closed is None or closed.code != 1011


@pytest.mark.parametrize("messages", [40, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("path", ADDRESSES)
def test_nonsense_kills_no_server(server, path, messages, caplog):
    attack(server, path, messages, len(path))
    wait_until(lambda: server.measure("asr_streams") == 0)
    assert not [record for record in caplog.records if record.exc_info], caplog.text


@pytest.mark.parametrize("messages", [40, pytest.param(1000, marks=pytest.mark.slow)])
def test_nonsense_over_wyoming_kills_no_server(server, messages, caplog):
    g = random.Random(5)
    events = [b"\n", b"{}\n", b'{"type": 1}\n', b'{"type": "audio-chunk"}\n', b'{"type": "a", "payload_length": 1e9}\n']
    events += [b'{"type": "audio-start", "data": {"rate": "x"}}\n', b'{"type": "audio-start", "data": [1]}\n', b"[]\n"]
    events += [b'{"type": "audio-start", "data_length": 3}\nabc', b'{"type": "audio-start", "data": {"width": [2]}}\n']
    events += [b'{"type": "x", "data_length": -1}\n', b"x" * 70_000 + b"\n", b'{"type": "x", "payload_length": 9}\nab']
    for _ in range(messages):
        with socket.create_connection(("127.0.0.1", server.wyoming), timeout=30) as client:
            client.sendall(g.choice([*events, g.randbytes(300)]))
            client.shutdown(socket.SHUT_WR)
            answer = b""
            with suppress(ConnectionResetError):
                while part := client.recv(1 << 16):
                    answer += part
            assert b"Traceback" not in answer
    assert not [record for record in caplog.records if record.exc_info], caplog.text


def test_what_no_form_can_be_is_refused(server):
    bodies = (
        (b"", "multipart/form-data"),
        (b"--x\r\n\r\n", "multipart/form-data; boundary=x"),
        (b"nothing", "multipart/form-data; boundary=x"),
        (
            b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\na\r\n--x--\r\n',
            "multipart/form-data; boundary=x",
        ),
        (b"{}", "application/json"),
    )
    for body, kind in bodies:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        connection.request("POST", "/v1/audio/transcriptions", body, {"Content-Type": kind})
        answer = connection.getresponse()
        assert answer.status == 400
        assert json.loads(answer.read())["error"]["message"]
        connection.close()


def test_sigterm_finishes_what_is_being_said(recognizer, tmp_path):
    recognizer.model.save(tmp_path)
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    options = ["--port", "0", "--no-vad", "--second-pass", "off", "--partials", "ctc", "--model", tmp_path]
    command = [sys.executable, "-m", "asr", "serve", *options]
    process = guarded(subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment))
    line = process.stderr.readline()
    assert "serving http://127.0.0.1:" in line
    with connect(line.split()[2].rstrip("/").replace("http", "ws") + "/v1/captions") as client:
        client.send(START)
        client.send(PCM[: 3 * SECOND])
        while loads(client.recv(60))["type"] != "segment":
            pass
        process.send_signal(signal.SIGTERM)
        messages = []
        with suppress(ConnectionClosed):
            while True:
                messages.append(loads(client.recv(60)))
    assert client.protocol.close_rcvd.code == 1012
    assert messages[-1]["final"]
    assert messages[-1]["settled"]
    assert process.wait(20) == 0
    assert process.stderr.read() == ""
