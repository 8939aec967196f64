"""A folder of recordings in many formats, made of manifests whose texts are known, to try batch decoding on.

    python scripts/benchmarks/make_mixed_formats.py runs/mixed runs/sample/train.jsonl --limit 10
    asr transcribe runs/mixed -d runs/mixed-texts -f txt,json
    python scripts/benchmarks/make_mixed_formats.py runs/mixed --score runs/mixed-texts

of manifests, one or more (README.md beside this file makes `runs/sample`), writes OUT/FORMAT/SET/NAME.SUFFIX for each
format and OUT/references.jsonl; --score prints the word error rate of each format and set. `original` holds the samples
as 32-bit floating-point WAV. With --deal each utterance is in one other format only, dealt in turn, so that large sets
can be decoded whole; each format is compared with the originals of its utterances. Formats of which TEXTS has no folder
are passed over.
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

from asr.evaluation.wer import ErrorRate, error_rate
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
ORIGINAL, LOSSLESS = "original", ("wav", "flac", "wav-48k-stereo")


def make(out: Path, manifests: list[Path], limit: int | None, deal: bool) -> None:
    references, copies = [], [name for name in FORMATS if name != ORIGINAL]
    for path in manifests:
        corpus, name = Manifest(path), path.parent.name
        for number, utterance in enumerate(corpus[:limit]):
            samples = corpus.read_audio(utterance, RATE)
            for form in (ORIGINAL, copies[number % len(copies)]) if deal else FORMATS:
                suffix, write = FORMATS[form]
                place = Path(form, name, f"{number:04d}.{suffix}")
                (out / place).parent.mkdir(parents=True, exist_ok=True)
                write(out / place, samples)
                line = {"audio_filepath": str(place), "duration": utterance.duration, "text": utterance.text}
                references.append(json.dumps(line, ensure_ascii=False))
        print(f"{name}: {min(limit or len(corpus), len(corpus))} utterances", file=sys.stderr)
    (out / "references.jsonl").write_text("\n".join(references) + "\n", "utf-8")


def score(out: Path, texts: Path) -> int:
    """Word error rates of each format and of its originals; whether lossless copies are read like these."""
    errors: dict[str, dict[str, ErrorRate]] = defaultdict(dict)  # format -> SET/NAME -> errors
    missing = 0
    for utterance in Manifest(out / "references.jsonl"):
        form, name = Path(utterance.audio).parts[0], "/".join(Path(utterance.audio).with_suffix("").parts[1:])
        if not (texts / form).exists():  # all of it was left out
            continue
        text = (texts / utterance.audio).with_suffix(".txt")
        missing += not text.exists()
        errors[form][name] = error_rate(utterance.text, text.read_text("utf-8") if text.exists() else "")
    if ORIGINAL not in errors:
        raise SystemExit(f"{texts}: no texts of the originals")
    worst = 0.0
    for form, those in errors.items():
        sets: dict[str, list[ErrorRate]] = defaultdict(list)
        for name, one in those.items():
            sets[name.partition("/")[0]].append(one)
        total, same = (sum((errors[f][name] for name in those), ErrorRate()).wer for f in (form, ORIGINAL))
        by_set = "  ".join(f"{name} {sum(of_set, ErrorRate()).wer:.2f}" for name, of_set in sets.items())
        print(f"{form:15} {len(those):5} files  {by_set}  all {total:.2f}, their originals {same:.2f}")
        worst = max(worst, abs(total - same) if form in LOSSLESS else 0)
    print(f"lossless copies differ from the originals by at most {worst:.2f} in WER; {missing} texts are missing")
    return 0 if worst <= 0.5 and not missing else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("manifests", type=Path, nargs="*")
    parser.add_argument("--limit", type=int, help="utterances of each manifest")
    parser.add_argument("--deal", action="store_true", help="each utterance as the original and in one other format")
    parser.add_argument("--score", type=Path, help="folder of the texts that were made of OUT")
    args = parser.parse_args()
    if args.score is not None:
        return score(args.out, args.score)
    make(args.out, args.manifests, args.limit, args.deal)
    return 0


if __name__ == "__main__":
    sys.exit(main())
