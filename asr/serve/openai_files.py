"""OpenAI's REST interface to recordings: `POST /v1/audio/transcriptions` and `GET /v1/models`."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import anyio
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

from asr.audio.files import AudioFile
from asr.errors import AsrError
from asr.events import Final
from asr.formats import render
from asr.recognition.options import RECORDED
from asr.serve.limits import BadMessage, Limits, Refusal, Silent, TooLarge
from asr.serve.service import Service
from asr.serve.sockets import denial
from asr.writing.tokens import join

FORMATS = ("json", "text", "srt", "verbose_json", "vtt", "diarized_json")
STEP = 1.0  # s of a recording that are decoded at a time, so that live streams get their turn
FIELDS = 100  # of a form


class Files:
    """The handlers of recordings."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def models(self, request: Request) -> Response:
        """The one model that there is, by the name that is asked for."""
        one = {"id": request.path_params.get("model", self._service.model), "object": "model", "created": 0}
        one["owned_by"] = "asr"
        return JSONResponse(one if "model" in request.path_params else {"object": "list", "data": [one]})

    async def transcriptions(self, request: Request) -> Response:
        """The words of a recording."""
        service = self._service
        try:
            if service.ending:
                service.refuse_if_full()
            form = await _form(request, service.limits)
            sound, wishes = _file(form), _wishes(form)
            if wishes["stream"]:
                return StreamingResponse(self._events(sound, wishes), media_type="text/event-stream")
            async with service.upload():
                finals, seconds = [], 0.0
                async with aclosing(self._decode(sound)) as decoded:
                    async for final, seconds in decoded:  # noqa: B007 (the last is the length)
                        finals += [] if final is None else [final]
            return _answer(finals, seconds, wishes)
        except ClientDisconnect:
            return Response(status_code=400)
        except AsrError as error:
            refusal = error if isinstance(error, Refusal) else BadMessage(str(error))
            service.refused(refusal)
            return denial(refusal)

    async def _events(self, sound: io.BytesIO, wishes: dict[str, Any]) -> AsyncIterator[str]:
        """The words as server-sent events, an utterance each."""
        try:
            text, seconds, number = "", 0.0, 0
            async with self._service.upload(), aclosing(self._decode(sound)) as decoded:
                async for final, seconds in decoded:  # noqa: B007 (the last is the length)
                    if final is not None:
                        joined = join([text, final.text])
                        delta, text = joined[len(text) :], joined
                        yield _sse({"type": "transcript.text.delta", "delta": delta})
                        if wishes["format"] == "diarized_json":
                            yield _sse(_spoken(final, number))
                        number += 1
            yield _sse({"type": "transcript.text.done", "text": text, "usage": _usage(seconds)})
            yield "data: [DONE]\n\n"
        except AsrError as error:
            refusal = error if isinstance(error, Refusal) else BadMessage(str(error))
            self._service.refused(refusal)
            yield f"data: {denial(refusal).body.decode()}\n\n"

    async def _decode(self, sound: io.BytesIO) -> AsyncIterator[tuple[Final | None, float]]:
        """Finals, and the seconds that have been decoded; with each step, also if it has no final."""
        engine, own = self._service.engine, self._service.options
        options = replace(RECORDED, vad=own.vad, hotwords=own.hotwords)
        rate = engine.recognizer.sample_rate
        file = await asyncio.to_thread(AudioFile, sound, rate)
        with file:
            stream, blocks, seconds = engine.open(options), file.blocks(STEP), 0.0
            while (block := await asyncio.to_thread(next, blocks, None)) is not None:
                for event in await engine.advance(stream, block, rate):
                    if isinstance(event, Final):
                        yield event, seconds
                seconds = stream.seconds
                if seconds > self._service.limits.upload:
                    raise TooLarge(f"longer than {self._service.limits.upload:.0f} s: send it in parts")
                yield None, seconds
            for event in await engine.finish(stream):
                if isinstance(event, Final):
                    yield event, seconds
            yield None, seconds


async def _form(request: Request, limits: Limits) -> FormData:
    """The form of a request, read in time into memory of which there is enough.

    Raises:
        Refusal: it is none, or too large, or does not come.
    """
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise BadMessage("send multipart/form-data with a file")

    async def body() -> AsyncIterator[bytes]:
        size, pieces = 0, request.stream()
        while True:
            try:
                with anyio.fail_after(limits.idle):
                    piece = await anext(pieces, None)
            except TimeoutError:
                raise Silent(f"nothing came for {limits.idle:.0f} s") from None
            if piece is None:
                return
            size += len(piece)
            if size > limits.upload_bytes:
                raise TooLarge(f"more than {limits.upload_bytes >> 20} MiB: send it in parts, or compressed")
            yield piece

    parser = MultiPartParser(
        request.headers, body(), max_files=1, max_fields=FIELDS, max_part_size=limits.message_bytes
    )
    parser.spool_max_size = limits.upload_bytes  # sound is not written to the disk
    try:
        return await parser.parse()
    except (MultiPartException, KeyError, ValueError, UnicodeError) as error:
        raise BadMessage(f"no form that can be read: {getattr(error, 'message', 'damaged')}") from None


def _file(form: FormData) -> io.BytesIO:
    file = form.get("file")
    if not isinstance(file, UploadFile):
        raise BadMessage("the form has no file")
    sound = io.BytesIO(file.file.read())
    sound.name = "the file"
    return sound


def _wishes(form: FormData) -> dict[str, Any]:
    format = form.get("response_format") or "json"
    if format not in FORMATS:
        raise BadMessage(f"no response_format {str(format)[:40]!r}: choose of {', '.join(FORMATS)}")
    finer = form.getlist("timestamp_granularities[]") + form.getlist("timestamp_granularities")
    return {"format": format, "stream": form.get("stream") in ("true", "True", "1"), "words": "word" in finer}


def _answer(finals: list[Final], seconds: float, wishes: dict[str, Any]) -> Response:
    text, format = join(final.text for final in finals), wishes["format"]
    if format == "text":
        return PlainTextResponse(f"{text}\n" if text else "")
    if format in ("srt", "vtt"):
        written = render(format, "", [(final, None) for final in finals], seconds)
        return PlainTextResponse(written, media_type="text/vtt" if format == "vtt" else "text/plain")
    if format == "diarized_json":
        spoken = [_spoken(final, number) for number, final in enumerate(finals)]
        return JSONResponse({"task": "transcribe", "duration": seconds, "text": text, "segments": spoken})
    answer: dict[str, Any] = {"text": text, "usage": _usage(seconds)}
    if format == "verbose_json":
        answer |= {"task": "transcribe", "language": "english", "duration": seconds}
        answer["segments"] = [_segment(final, number) for number, final in enumerate(finals)]
        if wishes["words"]:
            words = [word for final in finals for word in final.words]
            answer["words"] = [{"word": word.text, **_times(word.start, word.end)} for word in words]
    return JSONResponse(answer)


def _segment(final: Final, number: int) -> dict[str, Any]:
    times = _times(final.start, final.end)
    unknown = {"tokens": [], "temperature": 0.0, "avg_logprob": 0.0, "compression_ratio": 1.0, "no_speech_prob": 0.0}
    return {"id": number, "seek": 0, **times, "text": final.text, **unknown}


def _spoken(final: Final, number: int) -> dict[str, Any]:
    times = _times(final.start, final.end)
    return {"type": "transcript.text.segment", "id": f"seg_{number}", **times, "text": final.text, "speaker": "A"}


def _times(start: float, end: float) -> dict[str, float]:
    return {"start": round(start, 3), "end": round(end, 3)}


def _usage(seconds: float) -> dict[str, Any]:
    return {"type": "duration", "seconds": round(seconds, 3)}


def _sse(event: dict[str, Any]) -> str:
    return f"data: {json.dumps(event, ensure_ascii=False)}\n\n"
