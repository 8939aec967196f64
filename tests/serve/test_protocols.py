"""Protocols with their own, unchanged clients, or with what those send: all give the words of a stream."""

import asyncio
import base64
import io
from contextlib import suppress

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.serve.running import PCM, SECOND, floats, loads, pieces


def rest(socket) -> list[dict]:
    """All messages until the server closes."""
    messages = []
    with suppress(ConnectionClosed):
        while True:
            messages.append(socket.recv(60))
    return messages


def test_captions_number_the_segments_and_settle_them(server, finals):
    with connect(f"{server.ws}/v1/captions") as socket:
        socket.send('{"type": "start", "rate": 16000}')
        for piece in pieces(PCM):
            socket.send(piece)
        socket.send('{"type": "end"}')
        ready, *segments = map(loads, rest(socket))
    assert ready["type"] == "ready"
    ended = [segment for segment in segments if segment["final"]]
    assert [segment["settled"] for segment in ended] == finals
    assert [segment["number"] for segment in ended] == list(range(len(finals)))
    assert any(not segment["final"] for segment in segments)
    assert " ".join(word["text"] for segment in ended for word in segment["words"]) == " ".join(finals)


def test_who_goes_on_after_a_lost_connection_keeps_numbers_and_times(server):
    with connect(f"{server.ws}/v1/captions") as socket:
        socket.send('{"type": "start", "rate": 16000, "segment": 7, "at": 100.0}')
        socket.send(PCM)
        socket.send('{"type": "end"}')
        segments = [message for message in map(loads, rest(socket)) if message["type"] == "segment"]
    assert segments[0]["number"] == 7
    assert segments[-1]["end"] == pytest.approx(106, abs=0.1)


def test_those_who_watch_read_what_is_shared_and_nothing_else(server, finals):
    with connect(f"{server.ws}/v1/watch") as watcher:
        for share in ("false", "true"):
            with connect(f"{server.ws}/v1/captions") as socket:
                socket.send(f'{{"type": "start", "rate": 16000, "speaker": "test-{share}", "share": {share}}}')
                socket.send(PCM)
                socket.send('{"type": "end"}')
                rest(socket)
        seen = []
        while len(seen) < len(finals):
            message = loads(watcher.recv(60))
            assert message["speaker"] != "test-false"
            seen += [message["settled"]] if message["final"] and message["speaker"] == "test-true" else []
    assert seen == finals
    with connect(f"{server.ws}/v1/watch") as late:  # what was said before is still there
        while (message := loads(late.recv(60)))["speaker"] != "test-true":
            assert message["speaker"] != "test-false"
        assert message["settled"] == finals[0]


def test_vosk_gives_one_reply_to_each_message_of_sound(server, finals):
    with connect(server.ws) as socket:
        socket.send('{"config": {"sample_rate": 16000, "words": true}}')
        replies = []
        for piece in pieces(PCM):
            socket.send(piece)
            replies.append(loads(socket.recv(60)))
        socket.send('{"eof" : 1}')
        replies.append(loads(socket.recv(60)))
        assert rest(socket) == []
    results = [reply for reply in replies if reply.get("text")]
    assert " ".join(reply["text"] for reply in results) == " ".join(finals)
    assert {"conf", "start", "end", "word"} == set(results[0]["result"][0])
    assert all(set(reply) == {"partial"} for reply in replies if "text" not in reply)


def test_vosk_takes_a_wav_without_configuration_at_its_own_rate(server, recording):
    with connect(server.ws) as socket:
        socket.send(recording)
        socket.recv(60)
        socket.send('{"eof": 1}')
        assert "text" in loads(socket.recv(60))


def test_sherpa_gives_numbered_segments_and_says_done(server, finals):
    with connect(server.ws) as socket:
        for piece in pieces(floats(PCM), 2 * SECOND // 4):
            socket.send(piece)
        socket.send("Done")
        *messages, last = rest(socket)
    assert last == "Done!"
    ended = [message for message in map(loads, messages) if message["is_final"]]
    assert [message["text"] for message in ended] == finals
    assert [message["segment"] for message in ended] == list(range(len(finals)))


def test_deepgram_s_client_reads_results_of_samples(server, finals):
    results, metadata = listen(server, PCM, encoding="linear16", sample_rate=16000, interim_results=True)
    said = [result for result in results if result.is_final]
    assert [result.channel.alternatives[0].transcript for result in said] == finals
    assert len(results) > len(said)
    assert said[0].channel.alternatives[0].words[0].punctuated_word == finals[0].split()[0]
    assert metadata.duration == pytest.approx(6, abs=0.1)


def test_deepgram_s_client_may_send_a_file(server, recording, finals):
    results, _ = listen(server, recording)
    assert all(result.is_final for result in results)
    assert " ".join(result.channel.alternatives[0].transcript for result in results) == " ".join(finals)


def test_deepgram_finalizes_when_told(server):
    with connect(f"{server.ws}/v1/listen?encoding=linear16&sample_rate=16000") as socket:
        socket.send(PCM[:SECOND])
        socket.send('{"type": "Finalize"}')
        first = loads(socket.recv(60))
        socket.send('{"type": "Finalize"}')
        second = loads(socket.recv(60))
        socket.send('{"type": "CloseStream"}')
        assert [loads(message)["type"] for message in rest(socket)] == ["Metadata"]
    assert first["from_finalize"]
    assert first["channel"]["alternatives"][0]["transcript"]
    assert second["from_finalize"]
    assert not second["channel"]["alternatives"][0]["transcript"]


def listen(server, data, **wishes):
    """Results and metadata that Deepgram's client gets for sound."""
    sdk = pytest.importorskip("deepgram")
    from deepgram.environment import DeepgramClientEnvironment

    here = {"base": server.http, "production": server.ws, "agent": server.ws, "agent_rest": server.http}
    known = DeepgramClientEnvironment.__init__.__code__.co_varnames
    environment = DeepgramClientEnvironment(**{name: where for name, where in here.items() if name in known})
    client, messages = sdk.DeepgramClient(api_key="any", environment=environment), []
    with client.listen.v1.connect(model="nova-3", **wishes) as socket:
        for piece in pieces(data):
            socket.send_media(piece)
        socket.send_close_stream()
        messages = list(socket)
    *results, metadata = messages
    assert metadata.type == "Metadata"
    return results, metadata


@pytest.fixture
def client(server):
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=f"{server.http}/v1", api_key="any", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def transcript(recognizer, recording):
    """What the recogniser makes of the recording as a file."""
    return recognizer.transcribe(io.BytesIO(recording))


def test_openai_s_client_reads_all_six_formats(client, recording, transcript):
    def ask(format, **more):
        file = ("sound.wav", recording)
        return client.audio.transcriptions.create(model="tiny", file=file, response_format=format, **more)

    assert ask("json").text == transcript.text
    assert ask("text") == f"{transcript.text}\n"
    assert "-->" in ask("srt")
    assert ask("vtt").startswith("WEBVTT")
    full = ask("verbose_json", timestamp_granularities=["word", "segment"])
    assert [word.word for word in full.words] == [word.text for word in transcript.words]
    assert [segment.text for segment in full.segments] == [final.text for final in transcript]
    assert ask("diarized_json").segments[0].speaker == "A"


def test_openai_s_client_reads_the_words_as_they_come(client, recording, transcript):
    events = client.audio.transcriptions.create(model="tiny", file=("a.wav", recording), stream=True)
    *deltas, done = list(events)
    assert "".join(event.delta for event in deltas) == done.text == transcript.text


def test_openai_s_client_is_told_what_is_wrong(client, recording):
    openai = pytest.importorskip("openai")
    for file, format, part in ((b"no sound at all", "json", "sound"), (recording, "yaml", "response_format")):
        with pytest.raises(openai.BadRequestError) as error:
            client.audio.transcriptions.create(model="tiny", file=("a.wav", file), response_format=format)
        assert part in error.value.body["message"]
    with pytest.raises(openai.APIStatusError) as error:
        client.audio.transcriptions.create(model="tiny", file=("a.wav", bytes(2 << 20)))
    assert error.value.status_code == 413
    assert [model.id for model in client.models.list()] == ["tiny"]


@pytest.mark.parametrize("turns", [True, False])
def test_openai_s_realtime_client_gets_items_whose_deltas_make_the_transcript(client, finals, turns):
    with client.realtime.connect(extra_query={"intent": "transcription"}) as connection:
        assert connection.recv().type == "session.created"
        settings = {"format": {"type": "audio/pcm", "rate": 16000}}
        settings |= {} if turns else {"turn_detection": None}
        connection.session.update(session={"type": "transcription", "audio": {"input": settings}})
        assert connection.recv().type == "session.updated"
        connection.input_audio_buffer.commit()
        assert connection.recv().type == "error"
        for piece in pieces(PCM):
            connection.input_audio_buffer.append(audio=base64.b64encode(piece).decode())
        connection.input_audio_buffer.commit()
        deltas, texts, kinds = {}, [], []
        while sum(len(text.split()) for text in texts) < len(" ".join(finals).split()):
            event = connection.recv()
            kinds.append(event.type)
            if event.type.endswith("transcription.delta"):
                deltas[event.item_id] = deltas.get(event.item_id, "") + event.delta
            elif event.type.endswith("transcription.completed"):
                texts.append(event.transcript)
                assert deltas[event.item_id] == event.transcript
    assert texts == (finals if turns else [" ".join(finals)])
    assert ("input_audio_buffer.speech_started" in kinds) == turns
    assert "input_audio_buffer.committed" in kinds


def test_wyoming_s_client_gets_the_transcript(server, finals):
    pytest.importorskip("wyoming")
    from wyoming.asr import Transcribe, Transcript
    from wyoming.audio import AudioChunk, AudioStart, AudioStop
    from wyoming.client import AsyncTcpClient
    from wyoming.info import Describe, Info

    async def talk():
        form = {"rate": 16000, "width": 2, "channels": 1}
        async with AsyncTcpClient("127.0.0.1", server.wyoming) as client:
            await client.write_event(Describe().event())
            info = Info.from_event(await client.read_event())
            texts = []
            for sound in (PCM, b""):  # several utterances, also empty ones, on a connection
                await client.write_event(Transcribe(language="en").event())
                await client.write_event(AudioStart(**form).event())
                for piece in pieces(sound):
                    await client.write_event(AudioChunk(**form, audio=piece).event())
                await client.write_event(AudioStop().event())
                while not Transcript.is_type((event := await client.read_event()).type):
                    pass
                texts.append(Transcript.from_event(event).text)
                while (await client.read_event()).type != "transcript-stop":
                    pass
            return info, texts

    info, texts = asyncio.run(talk())
    assert info.asr[0].models[0].languages == ["en"]
    assert texts == [" ".join(finals), ""]
