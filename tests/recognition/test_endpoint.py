"""Endpoints: nothing is lost or doubled, and each rule ends an utterance when it says so."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asr.recognition.endpoint import Endpointer, EndpointRules, Segment

SECONDS = 0.024


def run(positions, rules=EndpointRules()) -> list[Segment]:  # noqa: B008
    """Segments for `(loud, heard, power)` positions."""
    endpointer = Endpointer(rules, SECONDS)
    found = [endpointer.accept(*position) for position in positions] + [endpointer.finish()]
    return [segment for segment in found if segment is not None]


def speech(seconds: float):
    """Loud, with a piece now and then."""
    return [(True, i % 8 == 0, 1.0) for i in range(round(seconds / SECONDS))]


def silence(seconds: float):
    return [(False, False, 1e-6)] * round(seconds / SECONDS)


@given(
    st.lists(st.tuples(st.booleans(), st.booleans(), st.floats(0, 1)), max_size=400), st.floats(0.2, 3), st.floats(1, 4)
)
def test_segments_follow_each_other_and_cover_all_that_was_heard(positions, pause, longest):
    rules = EndpointRules(pause=pause, unheard=2.0, longest=longest)
    segments = run(positions, rules)
    covered = set()
    for before, after in zip([Segment(0, 0, ""), *segments], segments, strict=False):
        assert before.end <= after.start < after.end <= len(positions)
        assert (after.end - after.start) * SECONDS <= longest + SECONDS
        covered |= set(range(after.start, after.end))
    assert {i for i, (_, heard, _) in enumerate(positions) if heard} <= covered


def test_a_pause_ends_an_utterance_and_a_margin_stays_on_both_sides():
    segments = run(silence(3) + speech(2) + silence(1.8) + speech(1) + silence(3))
    assert [s.reason for s in segments] == ["pause", "pause"]
    first, second = segments
    assert first.start * SECONDS == pytest.approx(3 - 0.3, abs=0.06)
    assert first.end * SECONDS == pytest.approx(5 + 0.3, abs=0.06)
    assert second.start * SECONDS == pytest.approx(6.8 - 0.3, abs=0.06)


@pytest.mark.parametrize(("noise", "reach"), [(0.5, 0.5), (4, 1.0)])
def test_what_a_gate_does_not_call_speech_widens_an_utterance_but_opens_none(noise, reach):
    murmur = [(False, False, 1.0, True)] * round(noise / SECONDS)
    assert run(silence(3) + murmur + silence(3)) == []
    (segment,) = run(silence(3) + murmur + speech(2) + murmur + silence(6))
    assert segment.start * SECONDS == pytest.approx(3 + noise - reach - 0.3, abs=0.06)
    assert segment.end * SECONDS == pytest.approx(5 + noise + min(reach + 0.3, EndpointRules().pause), abs=0.06)


def test_a_short_pause_does_not_end_an_utterance():
    assert len(run(speech(1) + silence(0.9) + speech(1))) == 1


def test_silence_and_clicks_make_no_utterance():
    assert run(silence(20)) == []
    assert run(([*silence(1), (True, False, 1.0)]) * 10) == []


def test_a_single_heard_position_is_an_utterance():
    assert len(run([*silence(1), (False, True, 0.1), *silence(2)])) == 1


def test_noise_in_which_nothing_is_heard_ends_by_the_unheard_rule():
    noise = [(True, False, 0.1)] * round(12 / SECONDS)
    segments = run(noise)
    assert len(segments) == 3
    assert all((s.end - s.start) * SECONDS == pytest.approx(5.0, abs=0.1) for s in segments[:2])


def test_a_long_utterance_is_cut_at_its_best_pause():
    segments = run(speech(20) + silence(0.5) + speech(15))
    assert [s.reason for s in segments] == ["length", "end"]
    assert 20 <= segments[0].end * SECONDS <= 20.5
    assert segments[1].start == segments[0].end


def test_rules_can_be_switched_off():
    endless = EndpointRules(math.inf, math.inf, math.inf)
    assert [s.reason for s in run(speech(40) + silence(20) + speech(1), endless)] == ["end"]
