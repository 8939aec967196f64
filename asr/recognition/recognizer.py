"""The recogniser: one model, many streams. Every front end feeds samples and gets events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import torch

from asr.audio.samples import Samples
from asr.errors import ConfigError, ModelError
from asr.events import Final
from asr.nn.features import FeatureConfig
from asr.nn.gate import SpeechGate
from asr.nn.precision import set_precision
from asr.nn.speech_model import SpeechModel
from asr.recognition.options import READ_TOGETHER, RECORDED, StreamOptions, check_options
from asr.recognition.stream import Stream

if TYPE_CHECKING:
    from asr.recognition.transcript import Recording, Transcript

MOST_THREADS = 1024  # with some more, starting them takes all memory


class Recognizer:
    """A model ready to recognise. Streams share it and may run in different threads.

    Attributes:
        model: what it computes with.
        precision: of the encoder's products: float32, bf16 or int8.
    """

    def __init__(self, model: SpeechModel, precision: str = "float32") -> None:
        self.model, self.precision = model, precision

    @classmethod
    def load(
        cls,
        source: str | Path = "en",
        *,
        device: str = "cpu",
        threads: int | None = None,
        precision: str = "auto",
    ) -> Recognizer:
        """A built-in model by name or one in a folder.

        Args:
            source: name or folder.
            device: where to compute.
            threads: limits the processor threads of the whole process.
            precision: of the encoder's products: `float32`, `bf16`, `int8`, or `auto`, the fastest on this processor
                that costs no words (`asr.nn.precision`). On a processor the attention decoder computes in int8, where
                torch can, unless this is `float32`.

        Raises:
            ModelError: no such model, or an unreadable one.
            ConfigError: no such precision, or this machine cannot have so many threads.
            AsrError: this machine has no such device.
        """
        if threads is not None:
            if not isinstance(threads, int) or isinstance(threads, bool) or not 1 <= threads <= MOST_THREADS:
                raise ConfigError(f"threads: must be a whole number from 1 to {MOST_THREADS}, not {threads!r}")
            torch.set_num_threads(threads)
        model = SpeechModel.load(source, device)
        if model.decoder is not None and precision != "float32":
            model.decoder.to_int8()
        return cls(model, set_precision(model.encoder.blocks, precision, model.device))

    @cached_property
    def gate(self) -> SpeechGate:
        """The built-in speech gate, loaded when it is first needed."""
        return SpeechGate.load().to(self.model.device)

    @property
    def sample_rate(self) -> int:
        """Hertz at which the model hears; `Stream.accept` takes any rate."""
        return self.model.config.features.sample_rate

    def stream(
        self,
        options: StreamOptions = StreamOptions(),
        warn: Callable[[str], None] | None = None,
        *,
        together: int = 1,
    ) -> Stream:
        """A new stream of one speaker or microphone.

        Args:
            options: how it is decoded.
            warn: is told a line when it cannot keep up with `auto`.
            together: utterances that are read at a time; more are faster where nobody waits for finals.

        Raises:
            ConfigError: these are no options.
        """
        check_options(options)
        return Stream(self.model, options, warn, self.gate_of(options), together)

    def gate_of(self, options: StreamOptions) -> SpeechGate | None:
        """The speech gate; None: the model's frames are none that it can read.

        Raises:
            ModelError: the same, where it is to decide what becomes words.
        """
        if (frames := self.model.config.features) == FeatureConfig():
            return self.gate
        if options.vad:
            raise ModelError(f"the speech gate reads {FeatureConfig()}, this model {frames}: switch the gate off")
        return None

    def transcribe(
        self, source: Recording, options: StreamOptions = RECORDED, *, rate: float | None = None
    ) -> Transcript:
        """The text of a whole recording, its utterances, words, times and confidences.

        Args:
            source: a file of any format (a path or an open file), samples (an array or a tensor of any usual type
                and layout, see `asr.audio.samples.as_array`), or an iterable of blocks of samples.
            options: how it is decoded. To change the default, which is for recordings, start from it:
                `dataclasses.replace(RECORDED, vad=True)`.
            rate: of samples (hertz); default: `sample_rate`.

        Raises:
            AudioError: the source cannot be opened or read, or is no sound, or `rate` is none that sound has. An empty
                array is no error: nothing is said in it.
        """
        from asr.recognition.transcript import Reader

        reader = Reader(source, rate)
        return reader.transcript(self.stream(options, reader.notes.append, together=READ_TOGETHER))

    def utterances(
        self, source: Recording, options: StreamOptions = RECORDED, *, rate: float | None = None
    ) -> Iterator[Final]:
        """As `transcribe`, but each final when it is decoded, in memory that does not grow: for hours of sound."""
        from asr.recognition.transcript import Reader

        reader = Reader(source, rate)
        return reader.finals(self.stream(options, reader.notes.append))

    def transcribe_batch(
        self,
        sources: Iterable[str | PathLike[str] | BinaryIO | Samples],
        options: StreamOptions = RECORDED,
    ) -> list[Transcript]:
        """As `transcribe` of each, but decoded together, which is faster: for some dozens of short recordings.

        Raises:
            AudioError: one of them cannot be opened or read, or is no sound.
            ConfigError: these are no options.
        """
        check_options(options)
        from asr.recognition.together import decode_together
        from asr.recognition.transcript import transcribe_recordings

        return transcribe_recordings(
            sources,
            self.sample_rate,
            lambda tracks: decode_together(self.model, self.gate_of(options), tracks, options),
            lambda samples: self.transcribe(samples, options),
        )
