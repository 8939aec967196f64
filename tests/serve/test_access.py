"""Who may come in, and how the server says no."""

import hmac
import ssl
import subprocess
import urllib.error
import urllib.request

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from asr.errors import AsrError
from asr.serve.limits import Limits
from tests.cli.runner import asr
from tests.serve.running import OPTIONS, Place, Server, loads, running, wait_until


@pytest.fixture(scope="module")
def guarded(recognizer):
    with running(recognizer, Limits(streams=1), token="open sesame") as server:
        yield server


def status(server, path: str, **headers: str) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(server.http + path, headers=headers), timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def refused(address: str, **options) -> int:
    """Status with which a handshake is refused."""
    with pytest.raises(InvalidStatus) as error, connect(address, **options):
        pass
    return error.value.response.status_code


def test_pages_and_health_are_open_and_nothing_else_is(guarded):
    assert [status(guarded, path) for path in ("/", "/watch", "/health")] == [200, 200, 200]
    for path in ("/v1/models", "/metrics", "/v1/audio/transcriptions"):
        assert status(guarded, path) == 401
        assert status(guarded, path, Authorization="Bearer open") == 401
    assert status(guarded, "/v1/models", Authorization="Bearer open sesame") == 200


@pytest.mark.parametrize("path", ["/", "/vosk", "/sherpa", "/v1/listen", "/v1/realtime", "/v1/captions", "/v1/watch"])
def test_no_websocket_opens_without_the_token(guarded, path):
    assert refused(guarded.ws + path) == 401
    assert refused(f"{guarded.ws}{path}?token=wrong") == 401


def test_the_token_comes_by_header_query_or_subprotocol(guarded, recognizer):
    address = f"{guarded.ws}/v1/watch"
    for scheme in ("Bearer", "Token"):
        connect(address, additional_headers={"Authorization": f"{scheme} open sesame"}).close()
    connect(f"{address}?token=open%20sesame").close()
    with running(recognizer, token="secret") as server:
        for protocols in (["token", "secret"], ["realtime", "openai-insecure-api-key.secret"]):
            with connect(f"{server.ws}/v1/watch", subprotocols=protocols) as socket:
                assert socket.subprotocol == protocols[0]


def test_tokens_are_compared_in_constant_time(guarded, monkeypatch):
    compared = []
    real = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append((a, b)) or real(a, b))
    status(guarded, "/v1/models", Authorization="Bearer guess")
    assert compared == [(b"guess", b"open sesame")]


def test_pages_of_other_sites_are_kept_out(server):
    assert refused(f"{server.ws}/v1/captions", origin="http://elsewhere.example") == 403
    assert status(server, "/v1/models", Origin="http://elsewhere.example") == 403
    connect(f"{server.ws}/v1/watch", origin=server.http).close()


def test_pages_that_are_named_may_come_in(recognizer):
    friend, asked = "https://friend.example", "Access-Control-Allow-Origin"
    with running(recognizer, token="secret", origins=(friend,)) as server:
        headers = {"Origin": friend, "Access-Control-Request-Method": "POST"}
        headers["Access-Control-Request-Headers"] = "authorization"
        request = urllib.request.Request(f"{server.http}/v1/audio/transcriptions", headers=headers, method="OPTIONS")
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert answer.headers[asked] == friend
        connect(f"{server.ws}/v1/watch?token=secret", origin=friend).close()
        assert refused(f"{server.ws}/v1/watch?token=secret", origin="https://other.example") == 403


def test_a_page_under_a_name_of_its_own_is_kept_out(server):
    headers = {"Host": "rebound.example", "Origin": "http://rebound.example"}
    assert status(server, "/v1/models", **headers) == 403


def test_without_room_the_handshake_is_refused_and_room_returns(guarded):
    address = f"{guarded.ws}/v1/captions?token=open%20sesame"
    with connect(address) as first:
        first.send('{"type": "start", "rate": 16000}')
        assert loads(first.recv(30))["type"] == "ready"
        with pytest.raises(InvalidStatus) as error, connect(address):
            pass
        assert error.value.response.status_code == 503
        assert error.value.response.headers["Retry-After"] == "2"
        assert b"no room: 1 open" in error.value.response.body
        first.socket.close()  # vanishes without a word
    wait_until(lambda: not guarded.service._sessions)


def test_tls_is_spoken_with_a_certificate(recognizer, tmp_path):
    pem = tmp_path / "server.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", pem, "-out", pem]
    try:
        made = subprocess.run(command, capture_output=True).returncode == 0
    except FileNotFoundError:
        made = False
    if not made:
        pytest.skip("no openssl here")
    trust = ssl.create_default_context(cafile=pem)
    with running(recognizer, Limits(streams=1), certificate=pem) as server:
        connect(f"wss://localhost:{server.port}/v1/watch", ssl=trust).close()


def test_an_address_in_use_and_a_missing_token_are_said_in_a_line(server, recognizer):
    done = asr("serve", "--host", "0.0.0.0")
    assert done.returncode == 2
    assert "--token" in done.stderr
    with pytest.raises(AsrError, match="choose another --port"):
        Server(recognizer, Place("127.0.0.1", server.port), Limits(), OPTIONS, 1)
