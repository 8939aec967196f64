"""The level meter: how fast its bar and its mark move, and what it says in words."""

import pytest

from asr.cli.meter import FALL, HOLD, QUIET_AFTER, QUIETEST, TELL_CLIPPED, Meter


def metered(*sounds: tuple[float, float], step: float = 0.1) -> Meter:
    """A meter after sounds of so many seconds at a root mean square, in decibels of full scale."""
    meter, now = Meter(), 0.0
    for seconds, decibels in sounds:
        for _ in range(round(seconds / step)):
            now += step
            meter.update(10 ** (decibels / 20), 0.0, now)
    return meter


def test_the_bar_rises_at_once_and_falls_slowly():
    assert metered((2, -60), (0.1, -10)).level == pytest.approx(-10)
    assert metered((2, -60), (0.1, -10), (1, -60)).level == pytest.approx(-10 - FALL)
    assert metered((2, -60), (0.1, -10), (9, -60)).level == pytest.approx(-60)


@pytest.mark.parametrize("step", [0.02, 0.1, 0.5])
def test_the_bar_falls_as_fast_whatever_the_blocks_are(step):
    assert metered((0.5, -10), (2, -60), step=step).level == pytest.approx(-10 - 2 * FALL)


def test_the_mark_holds_the_highest_level_and_then_falls_as_the_bar_does():
    assert metered((1, -10), (HOLD - 0.1, -60)).held == pytest.approx(-10)
    assert metered((1, -10), (HOLD + 1, -60)).held == pytest.approx(-10 - FALL, abs=FALL * 0.11)
    assert metered((1, -10), (0.5, -60), (0.1, -5)).held == pytest.approx(-5)


def test_silence_is_no_level_at_all():
    meter = Meter()
    meter.update(0.0, 0.0, 1.0)
    assert meter.bar(6, False) == "------"


def test_the_bar_runs_from_minus_60_to_0_decibels():
    bars = [metered((0.1, decibels)).bar(6, False) for decibels in (QUIETEST, -30, 0, 6)]
    assert bars == ["------", "###---", "######", "######"]


def test_the_mark_stands_beyond_the_bar():
    assert metered((0.1, 0), (1.2, -60)).bar(6, False) == "#####|"
    assert metered((0.1, -10), (1.5, -60)).bar(12, True) == "██████░░░▌░░"


def test_clipping_is_told_for_a_while():
    meter = Meter()
    meter.update(0.5, 1.0, 1.0)
    assert meter.clipping
    meter.update(0.5, 0.9, 0.9 + TELL_CLIPPED)
    assert meter.clipping
    meter.update(0.5, 0.9, 1.0 + TELL_CLIPPED)
    assert not meter.clipping


def test_what_is_quiet_for_long_is_told_until_it_is_louder():
    assert not metered((QUIET_AFTER - 0.2, -55)).quiet
    assert metered((QUIET_AFTER + 0.2, -55)).quiet
    assert not metered((QUIET_AFTER + 0.2, -55), (0.1, -30)).quiet
