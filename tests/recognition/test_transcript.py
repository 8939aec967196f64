"""`Recognizer.transcribe` and its kin: the same words whatever form the sound comes in."""

import io

import numpy as np
import pytest
import torch

from asr.audio.files import read_audio
from asr.errors import AudioError
from asr.evaluation.wer import error_rate
from asr.events import Final
from asr.recognition.recognizer import Recognizer, StreamOptions
from tests.recordings import RATE, SAMPLE, check_equal, speech_like
from tests.small import small_model

TEXT = SAMPLE.with_suffix(".txt").read_text()


def test_a_file_has_text_words_times_and_confidence(english):
    transcript = Recognizer(english).transcribe(SAMPLE)
    assert error_rate(TEXT, transcript.text).wer == 0
    assert str(transcript) == transcript.text == " ".join(word.text for word in transcript.words)
    assert len(transcript) == len(list(transcript)) == len(TEXT.splitlines())
    assert transcript.seconds == pytest.approx(len(read_audio(SAMPLE)) / RATE)
    assert transcript.words[-1].end <= transcript.seconds
    assert 0.5 < transcript.confidence <= 1
    assert transcript.warning is None


def test_paths_files_arrays_blocks_and_rates_give_the_same(tmp_path):
    import soundfile
    import soxr

    recognizer, samples, options = Recognizer(small_model(1)), speech_like(5, 8), StreamOptions(second_pass=False)
    soundfile.write(tmp_path / "a.wav", samples, RATE, subtype="FLOAT")
    expected = recognizer.transcribe(tmp_path / "a.wav", options)
    assert len(expected)
    check_equal(list(recognizer.transcribe(samples, options)), list(expected))
    check_equal(list(recognizer.transcribe(np.stack([samples, samples], 1), options)), list(expected))
    check_equal(list(recognizer.transcribe((b for b in np.array_split(samples, 50)), options)), list(expected))
    check_equal(list(recognizer.utterances(str(tmp_path / "a.wav"), options)), list(expected))
    with open(tmp_path / "a.wav", "rb") as file:
        check_equal(list(recognizer.transcribe(file, options)), list(expected))
    at_48k = recognizer.transcribe(soxr.resample(samples, RATE, 48000), options, rate=48000)
    assert at_48k.seconds == pytest.approx(8.0, abs=0.01)
    with pytest.raises(ValueError, match="rate"):
        recognizer.transcribe(tmp_path / "a.wav", rate=8000)


def test_a_batch_is_what_each_is_alone(monkeypatch):
    monkeypatch.setattr("asr.recognition.transcript.LONG_SECONDS", 6.0)
    recognizer, options = Recognizer(small_model(1)), StreamOptions()
    recordings = [speech_like(i, seconds) for i, seconds in enumerate((3.0, 7.5, 0.0, 5.0, 1.0))]
    for samples, batched in zip(recordings, recognizer.transcribe_batch(recordings, options), strict=True):
        alone = recognizer.transcribe(samples, options)
        check_equal(list(batched), list(alone))
        assert batched.seconds == pytest.approx(alone.seconds)


def test_finals_come_before_the_sound_has_ended():
    recognizer, given = Recognizer(small_model(1)), []

    def endless():
        while True:
            given.append(0)
            yield np.concatenate([speech_like(1, 3), np.zeros(2 * RATE, np.float32)])

    assert next(recognizer.utterances(endless(), StreamOptions(second_pass=False))).text
    assert len(given) < 20


def test_what_cannot_be_read_is_an_error(tmp_path):
    with pytest.raises(AudioError, match="no such file"):
        Recognizer(small_model(1)).transcribe(tmp_path / "missing.wav")


def test_tensors_and_layouts_give_the_same():
    recognizer, samples, options = Recognizer(small_model(1)), speech_like(5, 8), StreamOptions(second_pass=False)
    expected = list(recognizer.transcribe(samples, options))
    read_only = samples.copy()
    read_only.flags.writeable = False
    tensor = torch.from_numpy(samples)
    forms = [samples[None], np.stack([samples, -samples]), read_only, samples.astype(np.float64), tensor, tensor[None]]
    for form, batched in zip(forms, recognizer.transcribe_batch(forms, options), strict=True):
        check_equal(list(recognizer.transcribe(form, options)), expected)
        check_equal(list(batched), expected)
        stream = recognizer.stream(options)
        finals = [event for event in stream.accept(form, RATE) + stream.finish() if isinstance(event, Final)]
        check_equal(finals, expected)


NO_RECORDING = {
    "bytes": b"\0" * 3200,
    "three axes": np.zeros((2, 3, 4)),
    "no channels": np.zeros((0, 9)),
    "text": np.array(["a"]),
    "a number": 7,
    "nothing": None,
    "a dict": {"array": np.zeros(800), "sampling_rate": RATE},
    "samples and their rate": (np.zeros(800), RATE),
    "a list of names": ["a.wav", "b.wav"],
    "a file opened as text": io.StringIO("abc"),
}


@pytest.mark.parametrize("wrong", NO_RECORDING.values(), ids=NO_RECORDING)
def test_what_is_no_recording_is_one_error_at_every_entrance(wrong):
    recognizer = Recognizer(small_model(1))
    entrances = [
        lambda: recognizer.transcribe(wrong),
        lambda: list(recognizer.utterances(wrong)),
        lambda: recognizer.transcribe_batch([np.zeros(800), wrong]),
        lambda: recognizer.stream().accept(wrong, RATE),
    ]
    for entrance in entrances:
        with pytest.raises(AudioError):
            entrance()


@pytest.mark.parametrize("nothing", [[], np.zeros(0), np.zeros((0, 2)), torch.zeros(0)])
def test_no_samples_are_a_recording_without_words_at_every_entrance(nothing):
    recognizer = Recognizer(small_model(1))
    stream = recognizer.stream()
    assert recognizer.transcribe(nothing).text == recognizer.transcribe_batch([nothing])[0].text == ""
    assert not stream.accept(nothing, RATE) + stream.finish()


def test_a_list_of_numbers_is_samples_at_every_entrance():
    recognizer, samples, options = Recognizer(small_model(1)), speech_like(5, 3), StreamOptions(second_pass=False)
    expected = list(recognizer.transcribe(samples, options))
    assert expected
    check_equal(list(recognizer.transcribe(samples.tolist(), options)), expected)
    check_equal(list(recognizer.transcribe_batch([samples.tolist()], options)[0]), expected)


@pytest.mark.parametrize("wrong", ["a.wav", b"abc", io.BytesIO(b"abc"), None, {"a.wav": 1}])
def test_one_recording_is_no_batch(wrong):
    with pytest.raises(AudioError, match="a batch is a list of recordings"):
        Recognizer(small_model(1)).transcribe_batch(wrong)


@pytest.mark.parametrize("rate", [0, -1, 1, float("nan"), float("inf"), 1e9])
def test_an_impossible_rate_is_one_error_at_every_entrance(rate):
    recognizer, samples = Recognizer(small_model(1)), speech_like(1, 1)
    for entrance in (
        lambda: recognizer.transcribe(samples, rate=rate),
        lambda: next(recognizer.utterances(samples, rate=rate)),
        lambda: recognizer.transcribe([samples], rate=rate),
        lambda: recognizer.stream().accept(samples, rate),
    ):
        with pytest.raises(AudioError, match="sample rate"):
            entrance()


@pytest.mark.parametrize("wild", [np.nan, np.inf, 1e30, 1e5, 1e3, 30.0])
def test_a_wild_sample_loses_no_word_and_is_told(english, wild):
    recognizer = Recognizer(english)
    sentence = 0.02 * read_audio(SAMPLE)[: 16000 * 5]
    expected = recognizer.transcribe(sentence).text
    assert len(expected.split()) > 5
    sentence[20000] = wild
    transcript = recognizer.transcribe(sentence)
    assert error_rate(expected, transcript.text).wer == 0
    assert transcript.warning
