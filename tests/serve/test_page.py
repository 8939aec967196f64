"""The caption page in a real browser, with a file in the microphone's place."""

import os
from itertools import pairwise

import pytest
import soundfile

from asr.evaluation.wer import error_rate
from asr.recognition.options import StreamOptions
from asr.recognition.recognizer import Recognizer
from tests.recordings import RATE, SAMPLE, TEXTS
from tests.serve.browser import Browser
from tests.serve.running import SOUND, running

SAID = "[...document.querySelectorAll('#finals p')].map(line => line.lastChild.textContent).join(' ')"
STATUS = "document.getElementById('status').textContent"
PRESS = "document.getElementById('record').click()"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    sound = tmp_path_factory.mktemp("sound") / "microphone.wav"
    soundfile.write(sound, SOUND, RATE)
    with Browser(sound) as browser:
        yield browser


def test_words_come_are_kept_and_can_be_read_elsewhere(browser, server, recording):
    browser.open(server.http)
    browser.js("document.getElementById('share').click()")
    browser.js(PRESS)
    browser.until("document.getElementById('tentative').innerText.trim() !== ''")
    browser.until("finals.size > 0")
    assert browser.js(STATUS) == "Listening"
    browser.js(PRESS)
    browser.until(f"{STATUS} === 'Stopped'")
    said = browser.js(SAID)
    assert browser.js("text('txt')").split() == said.split()
    assert browser.js("text('vtt')").startswith("WEBVTT\n\n00:00:0")
    assert browser.js("text('srt')").startswith("1\n00:00:0")

    file = f"transcribe(new File([Uint8Array.from({list(recording)})], 'sound.wav'))"
    browser.js(file)
    assert browser.js("document.querySelectorAll('#files p').length") > 0
    browser.js("transcribe(new File(['nothing'], 'text.wav'))")
    assert "Not transcribed" in browser.js("document.getElementById('files').innerText")

    browser.open(f"{server.http}/watch")
    browser.until(f"{SAID}.endsWith({said!r})")
    assert not browser.js("document.getElementById('record').offsetParent")


def test_no_word_is_lost_or_doubled_when_the_connection_breaks(browser, server):
    browser.open(server.http)
    browser.js(PRESS)
    for count in (1, 2):
        browser.until("kept.length > 10 && document.getElementById('tentative').innerText.trim() !== ''")
        browser.js("socket.close()")  # in the middle of an utterance, whose words are all to be decoded again
        browser.until(f"finals.size >= {count}")
    browser.js(PRESS)
    browser.until(f"{STATUS} === 'Stopped'")
    spans = browser.js("[...finals].map(([key, said]) => [key, said.start, said.end])")
    assert [key for key, *_ in spans] == [f"/{number}" for number in range(len(spans))]
    assert all(after[1] >= before[2] - 0.01 for before, after in pairwise(spans))
    assert max(b[1] - a[2] for a, b in pairwise(spans)) < 0.5


def test_no_page_has_a_serious_fault_of_access(browser, server):
    axe = pytest.importorskip("axe_core_python")
    script = (os.path.dirname(axe.__file__) + "/axe.min.js").replace("\\", "/")
    for path in ("", "/watch"):
        for width, dark in ((1100, False), (1100, True), (360, False)):
            browser.look(width, 700, dark)
            browser.open(server.http + path)
            browser.js("settle('a', {text: 'Some words.', start: 1, end: 2}); show('These are', ' tentative')")
            with open(script, encoding="utf-8") as code:
                browser.js(code.read())
            faults = browser.js("axe.run().then(found => found.violations.map(fault => [fault.impact, fault.id]))")
            assert [fault for fault in faults if fault[0] in ("serious", "critical")] == []
            assert browser.js("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.slow
def test_what_is_said_into_the_microphone_is_read_off_the_page(english, tmp_path):
    sound, rate = soundfile.read(SAMPLE)
    soundfile.write(tmp_path / "microphone.wav", sound, rate)
    options = StreamOptions(partials="auto", vad=True)
    with running(Recognizer(english), options=options) as server, Browser(tmp_path / "microphone.wav") as browser:
        browser.open(server.http)
        browser.js(PRESS)
        browser.until(f"heard > {len(sound) / rate + 2} * rate")
        browser.js(PRESS)
        browser.until(f"{STATUS} === 'Stopped'", 200)
        assert error_rate(" ".join(TEXTS), browser.js(SAID)).wer < 10
