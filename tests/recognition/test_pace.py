"""Whether a stream keeps up, and when it tries again."""

from hypothesis import given
from hypothesis import strategies as st

from asr.recognition.pace import LONGEST_PATIENCE, PATIENCE, Pace


def easy(pace: Pace, chunks: int, sound: float, took: float) -> list[bool]:
    """What the pace says after each of some chunks."""
    said = []
    for _ in range(chunks):
        pace.keep(sound, took)
        said.append(pace.easy)
    return said


@given(st.lists(st.tuples(st.floats(0.01, 1), st.floats(0, 1)), max_size=50))
def test_who_computes_no_longer_than_the_sound_lasts_keeps_up(chunks):
    pace = Pace(most_behind=0.5)
    for sound, took in chunks:
        pace.keep(sound, min(took, sound))
        assert not pace.easy


def test_a_load_above_one_is_told_when_it_has_added_up():
    assert easy(Pace(most_behind=2.0), 7, 0.32, 0.64) == [False] * 6 + [True]


def test_a_single_long_computation_is_made_up_for():
    pace = Pace(most_behind=2.0)
    assert easy(pace, 1, 0.32, 2.0) == [False]
    assert not any(easy(pace, 20, 0.32, 0.1))
    assert pace.behind == 0
    assert easy(pace, 1, 0.32, 2.0) == [False]


def test_after_a_burst_of_load_there_is_room_again():
    pace = Pace()
    assert easy(pace, 10, 0.5, 1.0)[-1]
    calm = easy(pace, 2 * round(PATIENCE) + 20, 0.5, 0.1)
    assert calm[:20] == [True] * 20
    assert calm.index(False) <= 2 * PATIENCE + 10
    assert not calm[-1]


def test_a_machine_with_little_room_is_left_alone():
    pace = Pace()
    assert easy(pace, 10, 0.5, 1.0)[-1]
    assert all(easy(pace, 2000, 0.5, 0.4))


def test_a_machine_that_is_too_slow_is_tried_ever_more_rarely():
    """An hour in which the decoder takes twice as long as the sound lasts, and CTC a tenth of it."""
    pace, trials, before = Pace(), 0, False
    for _ in range(7200):
        pace.keep(0.5, 0.05 if pace.easy else 1.0)
        trials += before and not pace.easy
        before = pace.easy
    assert 3 <= trials <= 10
    assert pace.patience == LONGEST_PATIENCE


def test_what_went_well_for_long_is_trusted_again():
    pace = Pace(patience=200.0)
    easy(pace, round(LONGEST_PATIENCE) + 1, 1.0, 0.5)
    assert pace.patience == PATIENCE
