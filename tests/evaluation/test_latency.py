"""Latency: what a simulated clock says of a scripted stream, and the command on the sample."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asr.evaluation.latency import LatencyReport, Spoken, in_place, measure_latency
from asr.events import Endpoint, Final, Partial, Word
from asr.recognition.recognizer import StreamOptions
from tests.cli.runner import asr
from tests.recordings import SAMPLE


class Scripted:
    """A recogniser whose stream says what a script has for each second."""

    sample_rate = 16000

    def __init__(self, script):
        self.script = dict(script)

    def stream(self, options):
        self.heard, self.chunks = 0, 0
        return self

    def accept(self, samples, rate):
        before, self.heard = self.heard, self.heard + len(samples) / rate
        self.chunks = int(self.heard + 1e-6)
        due = [second for second in self.script if before < second <= self.heard + 1e-9]
        return [event for second in due for event in self.script[second]]


def test_words_are_timed_from_their_end_to_the_partial_that_first_shows_them():
    words = (Word("one", 0.1, 0.5, 1.0), Word("two", 0.6, 0.9, 1.0), Word("three", 1.0, 1.4, 1.0))
    script = {
        1.0: [Partial("One", "", 0, 1.0)],
        2.0: [Partial("One to", "", 0, 2.0)],
        3.0: [Partial("one two", "one", 0, 3.0)],
        4.0: [Final("One, two three.", 0, 1.5, words), Endpoint(1.5, "pause")],
    }
    report = LatencyReport()
    recording = Spoken(np.zeros(16000 * 2, np.float32), "one too three")
    measure_latency(Scripted(script.items()), [recording], StreamOptions(), report)
    assert report.algorithmic == pytest.approx([0.5, 2.1])
    assert report.words == pytest.approx([0.5, 2.1], abs=0.05)
    assert (report.unseen, report.final_words) == (1, 3)
    assert report.taken_back == 1  # "to"
    assert report.unstable_ratio == pytest.approx(1 / 3)
    assert report.stable_taken_back == 0
    assert report.finals == pytest.approx([0], abs=0.05)
    assert report.ends == pytest.approx([4 - 1.4], abs=0.05)
    assert len(report.chunks) == 4  # of five seconds, the final's apart
    assert report.sound == pytest.approx(5)
    assert report.last_errors.word_errors == 2  # one two
    assert report.soon_errors.word_errors == 2  # one at 1.5 s, to at 1.9 s, nothing at 2.4 s
    assert report.final_errors.word_errors == 1


def test_words_stand_in_each_others_place():
    assert in_place(["a", "b", "c"], ["a", "x", "c"]) == [["a"], ["x"], ["c"]]
    assert in_place(["a", "b", "c"], ["a", "c", "d"]) == [["a"], [], ["c", "d"]]
    assert in_place(["a", "b"], []) == [[], []]
    assert in_place(["a"], ["b", "c"]) == [["b", "c"]]


@given(st.lists(st.sampled_from("abc"), min_size=1), st.lists(st.sampled_from("abcd")))
def test_every_word_has_one_place(spoken, written):
    assert [word for place in in_place(spoken, written) for word in place] == written


def test_a_stable_word_that_is_taken_back_is_counted():
    script = {1.0: [Partial("a b", "a", 0, 1)], 2.0: [Partial("c b", "c", 0, 2)]}
    report = LatencyReport()
    measure_latency(Scripted(script.items()), [Spoken(np.zeros(16000, np.float32))], StreamOptions(), report)
    assert report.stable_taken_back == 1


def test_the_command_measures_this_machine(tmp_path):
    out = tmp_path / "latency.json"
    done = asr("bench", "latency", SAMPLE, "--modes", "640+0", "--partials", "ctc", "--json", out)
    assert done.returncode == 0, done.stderr
    result = json.loads(out.read_text())["640+0"]
    assert result["final_words"] >= 30
    assert result["stable_words_taken_back"] == 0
    assert 0 < result["chunks_p50_ms"] <= result["chunks_p99_ms"]
    assert result["final_wer"] == 0  # against the finals themselves: the sample has no reference
    assert result["load"] > 0
    assert "640+0" in done.stdout.splitlines()[-1]
    assert asr("bench", "latency", SAMPLE, "--modes", "fast").returncode == 2
