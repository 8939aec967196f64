"""Streaming speech recognition: a causal-masked transformer that writes while you speak."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asr.errors import AsrError
    from asr.events import Endpoint, Event, Final, Partial, Word
    from asr.recognition.endpoint import EndpointRules
    from asr.recognition.options import RECORDED, StreamOptions
    from asr.recognition.recognizer import Recognizer
    from asr.recognition.stream import Stream
    from asr.recognition.transcript import Transcript
    from asr.search.hotwords import Hotword
    from asr.writing.rewriting import Writing

_HOMES = {  # what each module gives; loaded when it is first asked for, so that `import asr` costs nothing
    "asr.errors": ("AsrError",),
    "asr.events": ("Endpoint", "Event", "Final", "Partial", "Word"),
    "asr.recognition.endpoint": ("EndpointRules",),
    "asr.recognition.options": ("RECORDED", "StreamOptions"),
    "asr.recognition.recognizer": ("Recognizer",),
    "asr.recognition.stream": ("Stream",),
    "asr.recognition.transcript": ("Transcript",),
    "asr.search.hotwords": ("Hotword",),
    "asr.writing.rewriting": ("Writing",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "RECORDED",
    "AsrError",
    "Endpoint",
    "EndpointRules",
    "Event",
    "Final",
    "Hotword",
    "Partial",
    "Recognizer",
    "Stream",
    "StreamOptions",
    "Transcript",
    "Word",
    "Writing",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("asr")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
