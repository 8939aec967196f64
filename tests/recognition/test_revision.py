"""The revised memory of a stream is that of larger chunks with more future, and partials read it."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.recognition.recognizer import Recognizer, StreamOptions
from asr.recognition.revision import CHUNK, LOOK_AHEAD, Revision
from tests.small import cuts, small_decoder, small_model, small_reader

POSITION = 384  # samples


def sound(seed: int, positions: int) -> torch.Tensor:
    return 0.1 * torch.randn(1, positions * POSITION, generator=torch.Generator().manual_seed(seed))


@settings(max_examples=20)
@given(st.integers(0, 99), st.integers(1, 200), st.data())
@torch.no_grad()
def test_it_is_the_memory_of_its_chunks_whatever_the_blocks_and_what_is_forgotten(seed, positions, data):
    model, samples = small_model(), sound(seed, positions)
    expected, _ = model(samples, model.start(chunk=CHUNK, look_ahead=LOOK_AHEAD))
    revision, features, heard, kept = Revision(model), None, 0, 0
    for size in cuts(data.draw, positions, 60):
        log_power, features = model.features(samples[:, heard * POSITION :][:, : size * POSITION], features)
        revision.hear(log_power, heard)
        heard += size
        end = revision.until(heard)
        assert heard - LOOK_AHEAD - CHUNK < end <= max(0, heard - LOOK_AHEAD)
        if kept < end:
            kept = data.draw(st.integers(kept, end - 1))
            revision.memory.forget(kept)
            better = revision.memory.between(kept, end)
            torch.testing.assert_close(better, expected.memory[0, kept:end], atol=1e-4, rtol=0)


@given(st.integers(0, 20), st.integers(0, 8), st.integers(1, 5))
@torch.no_grad()
def test_a_decoder_goes_on_as_if_it_had_never_read_another_memory(seed, at, size):
    decoder, g = small_decoder(seed), torch.Generator().manual_seed(seed)
    memory, better = torch.randn(1, 14, 32, generator=g), torch.randn(1, size, 32, generator=g)
    pieces = torch.randint(0, 40, (1, 6), generator=g)
    state = decoder.start(memory)
    decoder.revise(better, at, state)
    revised = torch.cat([memory[:, :at], better, memory[:, at + size :]], 1)
    torch.testing.assert_close(decoder(pieces, state)[0], decoder(pieces, decoder.start(revised))[0])


def test_what_partials_read_is_revised_up_to_a_second_before_what_is_heard():
    """The default look-ahead of 13 positions is heard too; with as much look-ahead as revision has, there is none."""
    recognizer, samples = Recognizer(small_reader(0)), sound(1, 300)
    stream = recognizer.stream(StreamOptions(partials="decoder", endpoint=None))
    stream.accept(samples[0].numpy(), 16000)
    now, partials = stream._segmenter._segments.now, stream._segmenter._partials
    revised = partials._revised
    assert now - (LOOK_AHEAD - 13) - CHUNK < revised <= now - (LOOK_AHEAD - 13)
    with torch.no_grad():
        model = recognizer.model
        late, _ = model(samples, model.start(chunk=CHUNK, look_ahead=LOOK_AHEAD))
        soon, _ = model(samples, model.start(chunk=13, look_ahead=13))
    expected = torch.cat([late.memory[0, :revised], soon.memory[0, revised:now]])
    torch.testing.assert_close(partials._memory.values, expected, atol=1e-4, rtol=0)
    patient = recognizer.stream(StreamOptions(320, 24 * LOOK_AHEAD, partials="decoder"))
    patient.accept(samples[0].numpy(), 16000)
    assert patient._segmenter._partials._revision is None
