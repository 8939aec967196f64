"""What the calibration of confidences is measured by, on words whose figures are known."""

import numpy as np
import pytest

from asr.events import Word
from scripts.benchmarks.calibration import area, calibration_error, fit, rightness


def words(text: str) -> list[Word]:
    return [Word(word, 0.0, 0.0, 0.5) for word in text.split()]


def test_words_are_right_or_wrong_as_they_are_scored():
    assert rightness("the fox saw it", words("The Fox, saw ... the it.")) == [True, True, True, None, False, True]
    assert rightness("", words("so what")) == [False, False]
    assert rightness("so what", []) == []


def test_figures_of_known_words():
    sure, right = np.array([0.9] * 10 + [0.3] * 10), np.array([True] * 9 + [False] + [True] * 3 + [False] * 7)
    assert calibration_error(sure, right) == pytest.approx(0)
    assert area(sure, right) == pytest.approx((9 * 7 + (9 * 1 + 3 * 7) / 2) / (12 * 8))
    assert calibration_error(sure, ~right) == pytest.approx((0.8 + 0.4) / 2)


def test_the_fit_finds_the_odds():
    odds = np.repeat([[-1.0], [1.0]], 1000, axis=0)
    right = np.array([i < 269 for i in range(1000)] + [i < 731 for i in range(1000)])
    bias, weight = fit(odds, right)
    assert bias == pytest.approx(0, abs=0.01)
    assert weight == pytest.approx(1, abs=0.01)
