"""How much of everything a server takes, and what it says when there is too much."""

from __future__ import annotations

from dataclasses import dataclass

from asr.errors import AsrError


@dataclass(frozen=True)
class Limits:
    """Bounds of everything that a client could make grow. Times in seconds, sizes in bytes.

    Attributes:
        streams: clients that are listened to at a time.
        uploads: recordings that are decoded at a time.
        connections: open at a time, whatever they do.
        queued: sound of one stream that waits to be decoded.
        queued_bytes: the same in bytes.
        unread_bytes: text that waits for a client to read it.
        message_bytes: of one message of a client.
        upload_bytes: of one recording, with all that is sent with it.
        upload: how long a recording may be.
        idle: without sound, or anything else that is waited for.
        opening: until a new connection has said what it wants.
        write: until a client has read what it was sent.
        closing: in which open utterances are finished when the server ends.
    """

    streams: int = 4
    uploads: int = 2
    connections: int = 256
    queued: float = 300.0
    queued_bytes: int = 16 << 20
    unread_bytes: int = 1 << 20
    message_bytes: int = 16 << 20
    upload_bytes: int = 64 << 20
    upload: float = 4 * 3600.0
    idle: float = 30.0
    opening: float = 10.0
    write: float = 10.0
    closing: float = 4.0


class Refusal(AsrError):
    """Why a client is not, or no longer, served: one line.

    Attributes:
        status: HTTP status, where nothing else has been answered yet.
        close_code: of a websocket (RFC 6455, section 7.4.1).
        kind: under which refusals are counted.
    """

    status, close_code, kind = 400, 1008, "other"


class BadMessage(Refusal):
    """A message that the protocol does not have, or that says something impossible."""

    kind = "message"


class Full(Refusal):
    """No room for one more."""

    status, close_code, kind = 503, 1013, "full"


class Overload(Refusal):
    """More sound than is decoded, or more text than is read."""

    status, close_code, kind = 503, 1013, "overload"


class Silent(Refusal):
    """Nothing came for too long."""

    status, kind = 408, "silent"


class TooLarge(Refusal):
    """A recording beyond what is taken."""

    status, close_code, kind = 413, 1009, "size"
