"""What the models see in a recording: everything that `asr inspect` draws."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from asr.errors import ConfigError
from asr.events import Word
from asr.nn.gate import SpeechGate
from asr.nn.positions import relative_bucket
from asr.nn.speech_model import SpeechModel
from asr.recognition.recognizer import Recognizer
from asr.recognition.track import GateTrack

FURTHEST = 400  # positions either way over which the relative bias is shown: it has no more to say beyond


@dataclass(frozen=True)
class Inspection:
    """One stretch of a recording as the models see it. Positions are `seconds` long and begin at `start`.

    Attributes:
        start: where the stretch begins in the recording (seconds).
        seconds: length of a position.
        frames: the encoder's input `(frames, mels)`: log10 power, scaled, at the level that the encoder expects.
        hertz: `(mels,)`, the frequency in the middle of each.
        words: what is recognised, with times from the beginning of the recording.
        speech: the gate's probability `(positions,)` of speech.
        posteriors: CTC's `(positions, vocabulary)`, blank first.
        pieces: what each CTC output but the blank stands for: piece i is output i + 1.
        attention: `(positions, positions)`, rows are queries: who attends to whom, with full context.
        layer: the encoder block that attends, counted from 1.
        head: its head, counted from 1; 0 = the mean of all.
        bias: `(heads, 2 FURTHEST + 1)` the learned bias for query - key from -FURTHEST to FURTHEST.
    """

    start: float
    seconds: float
    frames: Tensor
    hertz: Tensor
    words: tuple[Word, ...]
    speech: Tensor
    posteriors: Tensor
    pieces: list[str]
    attention: Tensor
    layer: int
    head: int
    bias: Tensor


@torch.inference_mode()
def inspect_samples(
    recognizer: Recognizer, gate: SpeechGate, samples: Tensor, *, start: float = 0.0, layer: int = 8, head: int = 0
) -> Inspection:
    """Looks into the models while they hear samples `(time,)` at the model's rate, as one chunk with full context.

    Args:
        recognizer: the recogniser.
        gate: the speech gate.
        samples: a stretch of a recording.
        start: where it begins (seconds).
        layer: encoder block, from 1; the last ones belong to the CTC branch.
        head: from 1; 0 = the mean of all.

    Raises:
        ConfigError: no such layer or head, or a stretch that is too short.
    """
    model = recognizer.model
    heads, layers = model.config.encoder.heads, len(model.encoder.blocks)
    if not 1 <= layer <= layers:
        raise ConfigError(f"layer {layer}: this encoder has layers 1 to {layers}")
    if not 0 <= head <= heads:
        raise ConfigError(f"head {head}: this encoder has heads 1 to {heads}, and 0 stands for the mean of all")
    log_power, _ = model.features(samples[None].to(model.device))
    if log_power.shape[1] < 3:
        raise ConfigError("too short to inspect: a tenth of a second is needed")
    output = model.encode(log_power, taps=(model.config.encoder.read_by(layer),))
    positions = output.log_probs.shape[1]
    track = GateTrack(gate)
    track.accept(log_power.to(gate.vit.token.device))
    finals = recognizer.transcribe(samples.cpu().numpy())
    words = [Word(w.text, w.start + start, w.end + start, w.confidence) for final in finals for w in final.words]
    weights = attention_weights(model, output.taps[0], layer)
    distance = torch.arange(-FURTHEST, FURTHEST + 1, device=log_power.device)
    block = model.encoder.blocks[layer - 1]
    return Inspection(
        start,
        model.position_seconds,
        model.scale(log_power)[0].cpu(),
        model.features.centres.cpu(),
        tuple(words),
        track.between(0, positions).cpu(),
        output.log_probs[0].exp().cpu(),
        [model.tokenizer.decode([output]) for output in range(1, len(model.tokenizer))],
        (weights.mean(0) if head == 0 else weights[head - 1]).cpu(),
        layer,
        head,
        block.relative(relative_bucket(distance, model.config.encoder.buckets)[None, None])[0, :, 0].cpu(),
    )


def attention_weights(model: SpeechModel, x: Tensor, layer: int) -> Tensor:
    """Whom the positions of a block's input `(1, positions, d_model)` attend to: `(heads, positions, positions)`."""
    block = model.encoder.blocks[layer - 1]
    positions = torch.arange(x.shape[1], device=x.device)[None]
    bucket = relative_bucket(positions[:, :, None] - positions[:, None], model.config.encoder.buckets)
    _, weights = block.att(block.norm_att(x), positions=positions, bias=block.relative(bucket), return_weights=True)
    return weights[0]
