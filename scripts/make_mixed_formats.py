"""A folder of recordings in many formats, made of manifests whose texts are known, to try batch decoding on.

    python scripts/make_mixed_formats.py OUT set/test.jsonl another/test.jsonl --limit 10
    asr transcribe OUT -d TEXTS -f txt,json
    python scripts/make_mixed_formats.py OUT --score TEXTS

writes OUT/FORMAT/SET/NAME.SUFFIX for each format and OUT/references.jsonl; --score prints the word error rate of each
format and set. `original` holds the samples as 32-bit floating-point WAV.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from fractions import Fraction
from pathlib import Path

import numpy as np
import soundfile
import soxr

from asr.evaluation.wer import error_rate
from asr.manifest import Manifest

RATE = 16000


def write_with_av(path: Path, samples: np.ndarray, rate: int, container: str, codec: str, bit_rate: int) -> None:
    """Samples `(samples,)` at 16 kHz through one of PyAV's encoders at `rate` hertz."""
    import av

    with av.open(str(path), "w", format=container) as file:
        track = file.add_stream(codec, rate=rate)
        track.codec_context.layout, track.bit_rate = "mono", bit_rate
        resampler = av.AudioResampler(format=track.codec_context.format, layout="mono", rate=rate, frame_size=960)
        frame = av.AudioFrame.from_ndarray(soxr.resample(samples, RATE, rate)[None], format="flt", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = rate, 0, Fraction(1, rate)
        for part in resampler.resample(frame) + resampler.resample(None):
            file.mux(track.encode(part))
        file.mux(track.encode(None))


def stereo_48k(path: Path, samples: np.ndarray) -> None:
    """Two channels, one louder than the other."""
    up = soxr.resample(samples, RATE, 48000, quality="VHQ")
    soundfile.write(path, np.stack([up, 0.6 * up], 1), 48000, subtype="PCM_24")


FORMATS = {
    "original": ("wav", lambda path, x: soundfile.write(path, x, RATE, subtype="FLOAT")),
    "wav": ("wav", lambda path, x: soundfile.write(path, x, RATE, subtype="PCM_16")),
    "flac": ("flac", lambda path, x: soundfile.write(path, x, RATE)),
    "wav-48k-stereo": ("wav", stereo_48k),
    "mp3": ("mp3", lambda path, x: write_with_av(path, x, RATE, "mp3", "libmp3lame", 64000)),
    "m4a": ("m4a", lambda path, x: write_with_av(path, x, 44100, "ipod", "aac", 96000)),
    "opus": ("opus", lambda path, x: write_with_av(path, x, RATE, "ogg", "libopus", 32000)),
    "webm": ("webm", lambda path, x: write_with_av(path, x, 48000, "webm", "libopus", 48000)),
    "wav-8k": ("wav", lambda path, x: soundfile.write(path, soxr.resample(x, RATE, 8000), 8000, subtype="PCM_16")),
}
LOSSLESS = ("wav", "flac", "wav-48k-stereo")


def make(out: Path, manifests: list[Path], limit: int | None) -> None:
    references = []
    for path in manifests:
        corpus, name = Manifest(path), path.parent.name
        for number, utterance in enumerate(corpus[:limit]):
            samples = corpus.read_audio(utterance, RATE)
            for form, (suffix, write) in FORMATS.items():
                place = Path(form, name, f"{number:04d}.{suffix}")
                (out / place).parent.mkdir(parents=True, exist_ok=True)
                write(out / place, samples)
                line = {"audio_filepath": str(place), "duration": utterance.duration, "text": utterance.text}
                references.append(json.dumps(line, ensure_ascii=False))
        print(f"{name}: {min(limit or len(corpus), len(corpus))} utterances", file=sys.stderr)
    (out / "references.jsonl").write_text("\n".join(references) + "\n", "utf-8")


def score(out: Path, texts: Path) -> int:
    """Word error rate of each format over all sets, and whether lossless copies are read like the originals."""
    errors: dict[str, dict[str, object]] = defaultdict(dict)
    missing = 0
    for utterance in Manifest(out / "references.jsonl"):
        form, name = Path(utterance.audio).parts[:2]
        text = (texts / utterance.audio).with_suffix(".txt")
        missing += not text.exists()
        one = error_rate(utterance.text, text.read_text("utf-8") if text.exists() else "")
        for group in (name, "all"):
            errors[form][group] = errors[form][group] + one if group in errors[form] else one
    for form, sets in errors.items():
        print(f"{form:15}", "  ".join(f"{name} {total.wer:.2f}" for name, total in sets.items()))
    worst = max(abs(errors[form]["all"].wer - errors["original"]["all"].wer) for form in LOSSLESS)
    print(f"lossless copies differ from the originals by at most {worst:.2f} in WER; {missing} texts are missing")
    return 0 if worst <= 0.5 and not missing else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("manifests", type=Path, nargs="*")
    parser.add_argument("--limit", type=int, help="utterances of each manifest")
    parser.add_argument("--score", type=Path, help="folder of the texts that were made of OUT")
    args = parser.parse_args()
    if args.score is not None:
        return score(args.out, args.score)
    make(args.out, args.manifests, args.limit)
    return 0


if __name__ == "__main__":
    sys.exit(main())
