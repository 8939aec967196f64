"""All streaming modules keep the contract: see `tests.streaming_contract`."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import soxr
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from asr.audio.resample import StreamResampler
from asr.nn.attention import KeyValueCache
from asr.nn.encoder import SUBSAMPLING, Chunking, EncoderOutput, EncoderState, Stem, StreamingEncoder, next_window
from asr.nn.features import SILENCE, LogMel, scale_frames
from asr.nn.gate import SpeechGate
from asr.nn.level import LevelState, follow_level
from asr.nn.masks import causal_mask
from asr.nn.positions import Rotary, relative_bucket
from asr.nn.transformer import Block
from asr.nn.vit import VisionTransformer
from tests import streaming_contract as contract
from tests.small import DECODER, GATE, noise, randomise, small_decoder, small_encoder, small_model
from tests.streaming_contract import Streaming

MEL = LogMel().design()
STEM = randomise(Stem(80, 24), 0)
BLOCK = randomise(Block(32, 4, 48, rotary=Rotary(4), buckets=64), 1)
ENCODERS = [small_encoder(), small_encoder(layers=3, ctc_layers=2, ctc_after=1)]
DEC, MODEL = small_decoder(), small_model()
MEMORY = torch.randn(1, 9, DECODER.d_model, generator=torch.Generator().manual_seed(0))
chunks, aheads = st.integers(1, 7), st.integers(0, 9)


def numbers(*width: int, mean: float = 0.0, spread: float = 1.0):
    return lambda batch, size, g: torch.randn(batch, size, *width, generator=g) * spread + mean


def stateful(module):
    """A step that needs not be told which input is the last."""
    return lambda x, state, last: module(x, state)


def level(chunk: int) -> Streaming:
    """The gain of each chunk."""

    def step(x: Tensor, state: LevelState, last: bool) -> tuple[Tensor, LevelState]:
        gains = []
        for part in x.split(chunk, 1):
            gain, state = follow_level(part, part.shape[1], state)
            gains.append(gain)
        return torch.stack(gains, 1), state

    return Streaming(
        lambda batch, size, g: 10 ** (6 * torch.rand(batch, size, generator=g) - 8),
        lambda batch: LevelState.start(batch, MEMORY),
        step,
        lambda heard: heard // chunk,
        size=1800,
        unit=chunk,
        hop=chunk,
    )


def blocks() -> Streaming:
    """One transformer block with a cache, against the masked pass."""

    def run(x: Tensor, cache: KeyValueCache | None, start: int) -> Tensor:
        positions = torch.arange(start, start + x.shape[1]).expand(x.shape[0], -1)
        keys = positions if cache is None else cache.claim(positions)
        mask = (causal_mask(positions, keys) & (keys >= 0)[:, None])[:, None]
        bucket = relative_bucket(positions[:, :, None] - keys[:, None])
        return BLOCK(x, positions=positions, bucket=bucket, mask=mask, cache=cache)

    def step(x: Tensor, state: tuple[KeyValueCache, int], last: bool) -> tuple[Tensor, tuple[KeyValueCache, int]]:
        return run(x, *state), (state[0], state[1] + x.shape[1])

    return Streaming(
        numbers(32),
        lambda batch: (KeyValueCache.empty(batch, 1, 4, 80, 8, MEMORY), 0),
        step,
        lambda heard: heard,
        size=40,
        whole=lambda x: run(x, None, 0),
    )


@dataclass
class Waiting:
    """An encoder's state, and frames `(batch, n, mels)` that wait for their chunk to be complete."""

    frames: Tensor
    encoder: EncoderState


def encoder(module: StreamingEncoder, chunk: int, look_ahead: int) -> Streaming:
    """Frames to memory and log-probabilities, against the masked pass."""

    def both(output: EncoderOutput) -> Tensor:
        return torch.cat([output.memory, output.log_probs], 2)

    def step(x: Tensor, state: Waiting, last: bool) -> tuple[Tensor, Waiting]:
        frames, inner = torch.cat([state.frames, x], 1), state.encoder
        outputs = [x.new_zeros(len(x), 0, module.config.d_model + module.config.vocabulary)]
        while (window := next_window(frames.shape[1], chunk, look_ahead, last))[1]:
            output, inner = module(frames[:, : window[0] * SUBSAMPLING], inner, window[1])
            outputs.append(both(output))
            frames = frames[:, window[1] * SUBSAMPLING :]
        return torch.cat(outputs, 1), Waiting(frames, inner)

    return Streaming(
        numbers(80),
        lambda batch: Waiting(torch.zeros(batch, 0, 80), module.start(batch, chunk)),
        step,
        lambda heard: max(0, heard // SUBSAMPLING - look_ahead) // chunk * chunk,
        size=120,
        least=SUBSAMPLING,
        hop=SUBSAMPLING,
        whole=lambda x: both(module.encode(x, chunking=Chunking(chunk, look_ahead))),
    )


def model(chunk: int, look_ahead: int, gain: float | None) -> Streaming:
    """Samples to log-probabilities, with a level that is known (against the masked pass) or followed."""

    def step(x: Tensor, state, last: bool):
        output, state = MODEL(x, state, final=last)
        return output.log_probs, state

    def whole(x: Tensor) -> Tensor:
        frames = scale_frames(MODEL.features(x)[0], gain)
        return MODEL.encoder.encode(frames, chunking=Chunking(chunk, look_ahead)).log_probs

    return Streaming(
        noise,
        lambda batch: MODEL.start(batch, chunk=chunk, look_ahead=look_ahead, gain=gain),
        step,
        lambda heard: max(0, heard // 384 - look_ahead) // chunk * chunk,
        size=16000,
        least=384,
        hop=384,
        whole=None if gain is None else whole,
    )


def gate(late: int) -> Streaming:
    module = randomise(SpeechGate(VisionTransformer(GATE), late), 0)
    return Streaming(
        numbers(GATE.image[0], mean=-6, spread=2),
        module.start,
        stateful(module),
        lambda heard: heard // module.step * module.positions,
        size=72,
        hop=SUBSAMPLING,
        silence=SILENCE,
    )


def resampler(source: int, target: int) -> Streaming:
    """One resampler a row, which never start anew; its filter holds back up to 0.16 s."""

    def step(x: Tensor, state: list[StreamResampler], last: bool) -> tuple[Tensor, list[StreamResampler]]:
        rows = [torch.from_numpy(row(part.numpy(), last=last)) for row, part in zip(state, x, strict=True)]
        return torch.stack(rows), state

    return Streaming(
        noise,
        lambda batch: [StreamResampler(source, target) for _ in range(batch)],
        step,
        lambda heard: int((heard / source - 0.16) * target),
        size=9000,
        whole=lambda x: torch.from_numpy(soxr.resample(x.numpy().T, source, target, quality="HQ").T.copy()),
    )


rates = st.sampled_from([8000, 11025, 16000, 22050, 44100, 48000, 96000])
MODULES = {
    "log-mel": st.just(Streaming(noise, MEL.start, stateful(MEL), lambda heard: heard // 128, size=6000, hop=128)),
    "level": st.builds(level, st.integers(5, 60)),
    "stem": st.just(
        Streaming(
            numbers(80),
            lambda batch: STEM.start(batch, MEMORY),
            stateful(STEM),
            lambda heard: heard // SUBSAMPLING,
            size=120,
            unit=SUBSAMPLING,
            hop=SUBSAMPLING,
        )
    ),
    "block": st.just(blocks()),
    "encoder": st.builds(encoder, st.sampled_from(ENCODERS), chunks | st.just(40), aheads),
    "decoder": st.just(
        Streaming(
            lambda batch, size, g: torch.randint(0, DECODER.vocabulary, (batch, size), generator=g),
            lambda batch: DEC.start(MEMORY.expand(batch, -1, -1)),
            stateful(DEC),
            lambda heard: heard,
            size=40,
            whole=lambda x: DEC.score(x, MEMORY.expand(len(x), -1, -1)),
        )
    ),
    "model": st.builds(model, chunks, aheads, st.sampled_from([None, 3.0])),
    "gate": st.builds(gate, st.integers(0, 2)),
    "resampler": st.builds(resampler, rates, st.sampled_from([8000, 16000, 24000])),
}
modules = pytest.mark.parametrize("kind", MODULES)


@modules
@settings(max_examples=25)
@given(st.data())
def test_however_the_input_is_cut_the_same_comes_out(kind, data):
    contract.check_cuts(data.draw(MODULES[kind]), data)


@modules
@settings(max_examples=3)
@given(st.data())
def test_one_input_at_a_time(kind, data):
    contract.check_one_by_one(data.draw(MODULES[kind]))


@modules
@settings(max_examples=20)
@given(st.data())
def test_the_future_never_changes_what_has_come_out(kind, data):
    contract.check_future(data.draw(MODULES[kind]), data)


@modules
@settings(max_examples=8)
@given(st.data())
def test_batch_mates_change_nothing(kind, data):
    contract.check_batch_mates(data.draw(MODULES[kind]), data)


@pytest.mark.parametrize("kind", [kind for kind in MODULES if kind not in ("block", "decoder", "resampler")])
@settings(max_examples=20)
@given(st.data())
def test_a_reset_row_is_fresh_and_the_others_go_on(kind, data):
    contract.check_reset(data.draw(MODULES[kind]), data)


@pytest.mark.parametrize("kind", [kind for kind in MODULES if kind not in ("block", "decoder")])
@settings(max_examples=5)
@given(st.data())
def test_a_state_does_not_grow(kind, data):
    contract.check_memory(data.draw(MODULES[kind]))
