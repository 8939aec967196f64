import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from asr.errors import ConfigError, ManifestError
from asr.manifest import Utterance
from asr.training.augment import augment_samples, perturb_speed
from asr.training.config import AugmentConfig
from asr.training.data import Batch
from asr.training.noise import NoiseBank, coloured_noise
from tests.training.words import RATE, WORDS, speak, write_corpus, write_wav

HOP = 128
CPU = torch.device("cpu")
EACH = ("noise_probability", "babble_probability", "room_probability", "telephone_probability", "codec_probability")
COLOURED = NoiseBank()


def batch_of(*texts: str, targets: list[list[int]] | None = None, tail: int = 4000) -> Batch:
    sounds = [torch.from_numpy(speak(text)) for text in texts]
    sounding = torch.tensor([len(sound) for sound in sounds])
    samples = torch.zeros(len(sounds), int(sounding.max()) + tail)
    for row, sound in zip(samples, sounds, strict=True):
        row[: len(sound)] = sound
    targets = torch.tensor(targets or [[1]] * len(sounds))
    lengths = torch.tensor([targets.shape[1]] * len(sounds))
    utterances = tuple(Utterance("", len(sound) / RATE, text) for text, sound in zip(texts, sounds, strict=True))
    return Batch(samples, sounding + tail, sounding, targets, lengths, utterances, (), 0, 0)


@pytest.fixture
def batch() -> Batch:
    return batch_of("mako sinu teki", "numa", "kota sime", "tuno")


def power(samples: torch.Tensor) -> torch.Tensor:
    return samples.square().sum(1)


def band_power(samples: torch.Tensor, low: float, high: float) -> torch.Tensor:
    spectrum = torch.fft.rfft(samples).abs().square()
    hertz = torch.linspace(0, RATE / 2, spectrum.shape[1])
    return spectrum[:, (hertz >= low) & (hertz < high)].sum(1)


# ---- what holds for every change of the samples ----


@pytest.mark.parametrize("kind", EACH)
@given(seed=st.integers(0, 2**31))
def test_rows_change_keep_their_shape_stay_silent_after_their_end_and_within_one(kind, seed):
    batch = batch_of("mako sinu teki", "numa", "kota sime")
    torch.manual_seed(seed)
    loud = batch.samples / batch.samples.abs().amax(1, keepdim=True)
    changed = augment_samples(loud, batch.sounding, AugmentConfig(**{kind: 1.0}), COLOURED)
    assert changed.shape == loud.shape
    assert changed.isfinite().all()
    assert changed.abs().max() <= 1 + 1e-6
    for row, length in enumerate(batch.sounding):
        assert not torch.equal(changed[row], loud[row])
        assert not changed[row, length:].any()


@pytest.mark.parametrize("kind", EACH)
def test_the_same_seed_changes_the_same(batch, kind):
    config = AugmentConfig(**{kind: 0.7})
    results = []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        results.append(augment_samples(batch.samples, batch.sounding, config, COLOURED))
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


def test_a_probability_is_the_share_of_rows_that_change():
    batch = batch_of(*["numa"] * 400)
    changed = augment_samples(batch.samples, batch.sounding, AugmentConfig(codec_probability=0.3), COLOURED)
    share = (changed != batch.samples).any(1).float().mean()
    assert 0.2 < share < 0.4


def test_without_probabilities_nothing_is_changed_nor_drawn(batch):
    state = torch.get_rng_state()
    assert augment_samples(batch.samples, batch.sounding, AugmentConfig(), COLOURED) is batch.samples
    assert perturb_speed(batch, AugmentConfig(), HOP) is batch
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("kind", EACH)
def test_silence_does_no_harm(kind):
    silence, sounding = torch.zeros(2, 8000), torch.tensor([8000, 0])
    assert augment_samples(silence, sounding, AugmentConfig(**{kind: 1.0}), COLOURED).isfinite().all()


# ---- each of them ----


@pytest.mark.parametrize("kind", ["noise_probability", "babble_probability"])
@given(decibels=st.floats(-5, 40))
def test_noise_and_babble_come_at_the_ratio_that_is_asked_for(kind, decibels):
    batch = batch_of("mako sinu teki", "numa", "kota sime", "tuno")
    config = AugmentConfig(snr_db=(decibels, decibels), **{kind: 1.0})
    samples = batch.samples * 0.01  # so that nothing has to be turned down
    added = augment_samples(samples, batch.sounding, config, COLOURED) - samples
    measured = 10 * torch.log10(power(samples) / power(added))
    torch.testing.assert_close(measured, torch.full((4,), decibels), atol=0.1, rtol=0)


def test_babble_needs_others(batch):
    alone = batch_of("numa")
    config = AugmentConfig(babble_probability=1.0)
    assert augment_samples(alone.samples, alone.sounding, config, COLOURED) is alone.samples


def test_a_room_leaves_the_direct_sound_where_it_was():
    click = torch.zeros(50, RATE)
    click[:, 100] = 0.5
    torch.manual_seed(0)
    heard = augment_samples(click, torch.full((50,), RATE), AugmentConfig(room_probability=1.0), COLOURED)
    assert heard[:, :100].abs().max() < 1e-6
    torch.testing.assert_close(heard[:, 100], click[:, 100], atol=1e-5, rtol=0)
    early, late = power(heard[:, 101:2000]), power(heard[:, 10000:])
    assert (early > late).all()
    assert early.min() > 0


def test_a_telephone_passes_its_band():
    noise = coloured_noise(6, RATE, RATE, CPU) * 0.01
    heard = augment_samples(noise, torch.full((6,), RATE), AugmentConfig(telephone_probability=1.0), COLOURED)
    for low, high in ((0, 180), (3600, 8000)):
        assert (band_power(heard, low, high) < 1e-3 * power(heard) * RATE).all()
    torch.testing.assert_close(band_power(heard, 400, 3300), band_power(noise, 400, 3300), rtol=0.02, atol=0)


def test_a_codec_is_audible_but_far_below_the_speech(batch):
    torch.manual_seed(1)
    coded = augment_samples(batch.samples, batch.sounding, AugmentConfig(codec_probability=1.0), COLOURED)
    ratio = 10 * torch.log10(power(batch.samples) / power(coded - batch.samples))
    assert (ratio > 20).all()
    assert (ratio < 70).all()


# ---- speed ----


@given(st.sampled_from([0.8, 0.9, 0.95, 1.05, 1.1, 1.25]))
def test_speed_scales_what_sounds_and_keeps_the_tail(factor):
    batch = batch_of("mako sinu teki", "numa")
    faster = perturb_speed(batch, AugmentConfig(speed=(factor,)), HOP)
    assert ((faster.sounding - batch.sounding / factor).abs() <= 1).all()
    assert torch.equal(faster.sample_lengths - faster.sounding, batch.sample_lengths - batch.sounding)
    assert faster.samples.shape == (2, int(faster.sample_lengths.max()))
    for row, length in enumerate(faster.sounding):
        assert not faster.samples[row, length:].any()
    torch.testing.assert_close(power(faster.samples), power(batch.samples) / factor, rtol=0.05, atol=0)


def test_speed_moves_the_pitch():
    tone = torch.sin(2 * torch.pi * 440 * torch.arange(RATE) / RATE)[None] * 0.5
    length = torch.tensor([RATE])
    batch = Batch(tone, length, length, torch.tensor([[1]]), torch.tensor([1]), (Utterance("", 1.0, "a"),), (), 0, 0)
    faster = perturb_speed(batch, AugmentConfig(speed=(1.1,)), HOP).samples[0]
    loudest = torch.fft.rfft(faster).abs().argmax() * RATE / len(faster)
    assert abs(float(loudest) - 484) < 2


def test_a_batch_whose_targets_would_not_fit_keeps_its_speed():
    room = int(batch_of("numa").sample_lengths) // HOP // 3
    fits, full = (batch_of("numa", targets=[[1] * count]) for count in (room // 4, (room + 1) // 2))
    config = AugmentConfig(speed=(1.1,))
    assert perturb_speed(fits, config, HOP) is not fits
    assert perturb_speed(full, config, HOP) is full  # a blank between all of the equal pieces
    assert perturb_speed(full, AugmentConfig(speed=(0.9,)), HOP) is not full


# ---- noise ----


def test_a_bank_holds_recordings_at_one_level_up_to_its_cap(tmp_path):
    manifest = write_corpus(tmp_path, 6)  # of different levels
    bank = NoiseBank.load([str(manifest)], RATE, 3.0)
    assert len(bank.pool) == 3 * RATE
    assert torch.equal(bank.pool, NoiseBank.load([str(manifest)], RATE, 3.0).pool)
    whole = NoiseBank.load([str(manifest)], RATE, 1000.0)
    assert abs(float(whole.pool.square().mean()) - 1) < 0.01
    torch.manual_seed(0)
    drawn = whole.draw(3, RATE, CPU)
    assert drawn.shape == (3, RATE)
    assert not torch.equal(drawn[0], drawn[1])


def test_a_bank_of_silence_is_refused(tmp_path):
    manifest = write_corpus(tmp_path, 1)
    write_wav(tmp_path / "00.wav", speak(WORDS[0]) * 0)
    with pytest.raises(ManifestError, match="all of the recordings are silent"):
        NoiseBank.load([str(manifest)], RATE, 10.0)


def test_noise_without_a_bank_is_white_pink_or_brown():
    torch.manual_seed(0)
    noise = coloured_noise(60, RATE, RATE, CPU)
    torch.testing.assert_close(power(noise) / RATE, torch.ones(60), rtol=1e-3, atol=0)
    octaves = 10 * torch.log10(band_power(noise, 500, 1000) / band_power(noise, 2000, 4000))
    colours = torch.round(octaves / 6)  # of each two octaves: -6 dB white, 0 dB pink, 6 dB brown
    assert set(colours.tolist()) == {-1.0, 0.0, 1.0}


@pytest.mark.parametrize("ratio", [(5.0,), (10.0, 5.0), (1.0, 2.0, 3.0)])
def test_impossible_ratios_are_refused(ratio):
    with pytest.raises(ConfigError, match=r"augment\.snr_db"):
        AugmentConfig(snr_db=ratio)
