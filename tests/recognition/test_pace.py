"""Whether a stream keeps up."""

from hypothesis import given
from hypothesis import strategies as st

from asr.recognition.pace import Pace


@given(st.lists(st.tuples(st.floats(0.01, 1), st.floats(0, 1)), max_size=50))
def test_who_computes_no_longer_than_the_sound_lasts_keeps_up(chunks):
    pace = Pace(most_behind=0.5)
    assert all(pace.keeps_up(sound, min(took, sound)) for sound, took in chunks)


def test_a_load_above_one_is_told_when_it_has_added_up():
    pace = Pace(most_behind=2.0)
    assert [pace.keeps_up(0.32, 0.64) for _ in range(7)] == [True] * 6 + [False]


def test_a_single_long_computation_is_made_up_for():
    pace = Pace(most_behind=2.0)
    assert pace.keeps_up(0.32, 2.0)
    assert all(pace.keeps_up(0.32, 0.1) for _ in range(20))
    assert pace.behind == 0
    assert pace.keeps_up(0.32, 2.0)
