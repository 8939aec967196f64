"""The tiny recipe learns 20 utterances by heart, and what it has learnt can be streamed."""

import json

import pytest
import torch

from asr.audio.files import read_audio
from asr.evaluation.wer import ErrorRate, error_rate
from asr.nn.speech_model import SpeechModel
from asr.search.ctc import ctc_greedy
from tests.training.run_asr import train
from tests.training.words import RATE, write_corpus

TAIL = RATE // 4  # samples of zeros after the end of a stream


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"), 20)


@pytest.fixture(scope="module")
def run(manifest, tmp_path_factory):
    run = tmp_path_factory.mktemp("tiny")
    settings = (f"data.train=[{manifest}]", f"data.dev=[{manifest}]", "tokenizer.pieces=24", "schedule.steps=300")
    status, errors = train(run, settings=settings)
    assert status == 0, errors
    return run


def test_the_dev_error_rate_comes_down_to_nothing(run):
    entries = [json.loads(line) for line in (run / "log.jsonl").read_text("utf-8").splitlines()]
    last = [entry for entry in entries if "dev_wer" in entry][-1]
    assert last["dev_wer"] < 2  # one of 60 words
    assert last["dev_wer_streaming"] < 2
    assert all(entry["skipped"] is None for entry in entries if "loss" in entry)


@pytest.mark.parametrize(("chunk", "look_ahead"), [(13, 13), (27, 0)])
def test_the_model_reads_the_words_chunk_by_chunk(run, manifest, chunk, look_ahead):
    model, errors = SpeechModel.load(run / "model"), ErrorRate()
    for line in manifest.read_text("utf-8").splitlines():
        entry = json.loads(line)
        samples = torch.from_numpy(read_audio(manifest.parent / entry["audio_filepath"], RATE))
        state, posteriors = model.start(chunk=chunk, look_ahead=look_ahead), []
        for block in samples.split(1600):
            output, state = model(block[None], state)
            posteriors.append(output.log_probs[0])
        output, _ = model(torch.zeros(1, TAIL), state, final=True)
        text = model.tokenizer.decode(ctc_greedy(torch.cat([*posteriors, output.log_probs[0]])))
        errors += error_rate(entry["text"], text)
    assert errors.wer < 2
