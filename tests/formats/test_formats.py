"""Every format is what the tools of its field read: checked with parsers that are not ours."""

import io
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from asr.events import Endpoint, Final, Word
from asr.formats import FORMATS, open_writer, render
from asr.formats.cues import GAP, LINE, LONGEST, SHORTEST, make_cues


def final(text: str, start: float = 0.0, pace: float = 0.3) -> Final:
    """An utterance whose words follow each other without a pause."""
    words = text.split()
    timed = tuple(Word(w, start + i * pace, start + (i + 1) * pace, 0.9) for i, w in enumerate(words))
    return Final(text, start, start + len(words) * pace, timed)


TALK = [
    final("Good morning, everybody, and welcome to this talk about trains. It will not take long, I promise.", 0.5),
    final("Yes.", 9.0),
    final("R & D <costs> 5 --> 6 thousand.", 3700.25),
]
EVENTS = [(event, None) for f in TALK for event in (f, Endpoint(f.end, "pause"))]


def test_text_has_a_line_for_each_utterance():
    assert render("txt", "a.wav", EVENTS, 3710).splitlines() == [f.text for f in TALK]


def test_json_has_words_times_and_confidence():
    values = json.loads(render("json", "a.wav", EVENTS, 3710.0))
    assert values["file"] == "a.wav"
    assert values["duration"] == 3710
    assert values["text"] == " ".join(f.text for f in TALK)
    assert values["utterances"][1]["words"] == [{"text": "Yes.", "start": 9.0, "end": 9.3, "confidence": 0.9}]


def test_json_lines_are_the_events():
    lines = [json.loads(line) for line in render("jsonl", "a.wav", EVENTS, 3710).splitlines()]
    assert [line["type"] for line in lines] == ["final", "endpoint"] * 3
    assert {line["file"] for line in lines} == {"a.wav"}


def test_ctm_has_a_line_for_each_word():
    rows = [line.split() for line in render("ctm", "calls/my call.v2.wav", EVENTS, 3710).splitlines()]
    assert len(rows) == sum(len(f.words) for f in TALK)
    assert all(len(row) == 6 and row[:2] == ["my_call.v2", "1"] for row in rows)
    assert [float(x) for x in rows[-1][2:4]] == pytest.approx([TALK[2].words[-1].start, 0.3])


def test_tsv_is_a_table_in_milliseconds():
    rows = [line.split("\t") for line in render("tsv", "a.wav", EVENTS, 3710).splitlines()]
    assert rows[0] == ["start", "end", "text"]
    assert [row[2] for row in rows[1:]] == [f.text for f in TALK]
    assert [int(row[0]) for row in rows[1:]] == [500, 9000, 3700250]


def test_channels_are_told_apart():
    both = [(TALK[0], 1), (TALK[1], 2)]
    assert [row.split()[1] for row in render("ctm", "a", both, 10).splitlines()][-2:] == ["1", "2"]
    assert render("txt", "a", both, 10).splitlines()[1] == "Channel 2: Yes."
    assert [u["channel"] for u in json.loads(render("json", "a", both, 10))["utterances"]] == [1, 2]
    assert "Channel 2: Yes." in render("srt", "a", both, 10)


@pytest.mark.parametrize("name", FORMATS)
def test_silence_is_a_valid_file_too(name):
    text = render(name, "a.wav", [], 3.0)
    assert "None" not in text
    if name == "json":
        assert json.loads(text)["utterances"] == []


def test_several_inputs_in_one_stream():
    for name, times in {"json": 6, "jsonl": 4, "txt": 2, "ctm": 2, "tsv": 2}.items():
        out = io.StringIO()
        writer = open_writer(name, out, 2)
        for file in ("a.wav", "b.wav"):
            writer.begin(file)
            writer.event(TALK[1])
            writer.end(10.0)
        writer.close()
        assert out.getvalue().count("Yes.") == times


def test_a_table_of_several_inputs_says_which():
    out = io.StringIO()
    writer = open_writer("tsv", out, 2)
    for name in ("a.wav", "b\tc.wav"):
        writer.begin(name)
        writer.event(TALK[1])
        writer.end(10.0)
    writer.close()
    assert [line.split("\t") for line in out.getvalue().splitlines()] == [
        ["file", "start", "end", "text"],
        ["a.wav", "9000", "9300", "Yes."],
        ["b c.wav", "9000", "9300", "Yes."],
    ]


def test_ctm_is_in_the_order_that_sclite_wants():
    """By recording, channel and start, though what is said comes in the order of its ends."""
    out = io.StringIO()
    writer = open_writer("ctm", out, 2)
    for name in ("b.wav", "a.wav"):
        writer.begin(name)
        for event, channel in ((TALK[1], 2), (TALK[0], 1), (final("No.", 1.0), 2)):
            writer.event(event, channel)
        writer.end(10.0)
    writer.close()
    rows = [line.split() for line in out.getvalue().splitlines()]
    keys = [(row[0], row[1], float(row[2])) for row in rows]
    assert keys == sorted(keys)
    assert len(rows) == 2 * (len(TALK[0].words) + 2)
    single = render("ctm", "a.wav", [(TALK[1], 2), (TALK[0], 1)], 10)
    assert [line.split()[1] for line in single.splitlines()] == ["1"] * len(TALK[0].words) + ["2"]


@pytest.mark.parametrize("name", ["ctm", "tsv", "jsonl"])
def test_a_line_break_in_a_text_makes_no_line(name):
    broken = Final("two\nwords\u2028here", 0.0, 1.0, (Word("two\nwords", 0.0, 0.5, 1.0), Word("here", 0.5, 1.0, 1.0)))
    plain = Final("two words here", 0.0, 1.0, (Word("two_words", 0.0, 0.5, 1.0), Word("here", 0.5, 1.0, 1.0)))
    lines, expected = (render(name, "a.wav", [(f, None)], 1.0).split("\n") for f in (broken, plain))
    assert len(lines) == len(expected)
    if name != "jsonl":
        assert lines == expected


def test_in_texts_a_line_break_makes_a_line_and_none_at_the_ends():
    finals = [Final(text, 0.0, 1.0) for text in ("Dear\u2028Anna,\nhello.\n", "\nBye.\n\n", "Yes.")]
    assert render("txt", "a.wav", [(final, None) for final in finals], 1.0) == "Dear Anna,\nhello.\nBye.\n\nYes.\n"


@pytest.mark.parametrize("name", ["ctm", "srt", "vtt"])
def test_a_line_break_that_was_said_alone_is_no_word(name):
    words = Word("Yes.\n", 0.0, 0.5, 1.0), Word("No.", 0.5, 1.0, 1.0)
    said, alone = Final("Yes.\nNo.", 0.0, 1.0, words), Final("\n", 2.0, 3.0, (Word("\n", 2.0, 3.0, 1.0),))
    assert render(name, "a.wav", [(said, None), (alone, None)], 4.0) == render(name, "a.wav", [(said, None)], 4.0)


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "utf-8"])
@pytest.mark.parametrize("name", ["json", "jsonl"])
def test_json_loses_nothing_on_a_stream_that_lacks_letters(name, encoding):
    """Nor what is no text in the name of a file, which the system hands over as lone surrogates."""
    said, file = "naïve 語 😀 \x81", "caf\udce9.wav"
    data = io.BytesIO()
    writer = open_writer(name, io.TextIOWrapper(data, encoding, write_through=True), 1)
    writer.begin(file)
    writer.event(final(said))
    writer.end(1.0)
    writer.close()
    assert ("naïve" in data.getvalue().decode(encoding)) == (encoding != "ascii")
    values = json.loads(data.getvalue().decode(encoding))
    assert file == (values[0] if name == "json" else values)["file"]
    assert said in ((values[0] if name == "json" else values)["text"])


@pytest.mark.parametrize("form", ["srt", "vtt"])
def test_subtitles_are_read_by_other_parsers(form):
    pysubs2, webvtt, srt = (pytest.importorskip(name) for name in ("pysubs2", "webvtt", "srt"))
    text = render(form, "a.mp4", EVENTS, 3710)
    said = " ".join(f.text for f in TALK)
    if form == "srt":
        cues = list(srt.parse(text))
        assert [cue.index for cue in cues] == list(range(1, len(cues) + 1))
        assert " ".join(cue.content.replace("\n", " ") for cue in cues) == said.replace("-->", "->")
        assert cues[-1].start.total_seconds() == pytest.approx(3700.25)
    else:
        import html

        cues = webvtt.from_string(text).captions
        shown = " ".join(html.unescape(cue.raw_text).replace("\n", " ") for cue in cues)
        assert shown == said
        assert cues[-1].start_in_seconds == pytest.approx(3700.25, abs=1)
    loaded = pysubs2.SSAFile.from_string(text, format_=form)
    assert len(loaded) == len(cues)
    assert loaded[-1].start == 3700250


def test_a_long_sentence_breaks_at_its_commas_and_stops():
    cues = make_cues([TALK[0].words])
    assert [" ".join(cue.lines) for cue in cues] == [
        "Good morning, everybody, and welcome to this talk about trains.",
        "It will not take long, I promise.",
    ]
    assert cues[0].lines[0] == "Good morning, everybody,"


def test_the_last_subtitle_ends_with_its_recording():
    short = Final("Late words.", 2.3, 2.8, (Word("Late", 2.3, 2.6, 1.0), Word("words.", 2.6, 2.8, 1.0)))
    (cue,) = make_cues([short.words], seconds=2.7)
    assert (cue.start, cue.end) == (2.3, 2.7)
    assert "00:00:02,300 --> 00:00:02,700" in render("srt", "a.wav", [(short, None)], 2.7)


def test_lines_are_as_wide_as_they_look():
    """A Chinese letter takes two columns: half as many of them fill a line."""
    cues = make_cues(
        [final("我们今天要讨论的是语音识别系统的设计与实现以及它们在实际应用中的表现如何 好的", pace=2.0).words]
    )
    lines = [line for cue in cues for line in cue.lines]
    assert len(lines[0]) == LINE // 2
    assert all(cell_len(line) <= LINE for line in lines)
    assert "".join(lines).replace(" ", "").endswith("表现如何好的")


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "word,", "longer.", "語語語"]), st.floats(0.4, 3)), min_size=1, max_size=40
    )
)
def test_no_subtitle_outlasts_its_recording(said):
    now, words = 0.0, []
    for text, seconds in said:
        words.append(Word(text, now, now + seconds, 1.0))
        now += seconds
    for close in (now, now - 0.3):
        cues = make_cues([words], seconds=close)
        assert all(cue.start < cue.end <= close for cue in cues)
        assert " ".join(line for cue in cues for line in cue.lines) == " ".join(word.text for word in words)


word = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=12) | st.just("x" * 100) | st.just("end.")


@given(
    st.lists(st.lists(st.tuples(word, st.floats(0, 2), st.floats(0, 9)), min_size=1, max_size=30), max_size=6),
    st.sampled_from(["", "Channel 1: "]),
)
def test_subtitles_keep_to_the_limits_and_lose_no_word(utterances, prefix):
    """Whatever the words and their times: line lengths, durations, gaps, order."""
    now, spoken = 0.0, []
    for said in utterances:
        words = []
        for text, pause, duration in said:
            words.append(Word(text, now + pause, now + pause + duration, 1.0))
            now += pause + duration
        spoken.append(words)
    cues = make_cues(spoken, prefix)
    for cue in cues:
        assert len(cue.lines) <= 2
        assert all(0 < cell_len(line) <= LINE for line in cue.lines)
        assert SHORTEST - 1e-6 <= cue.end - cue.start <= LONGEST + 1e-6
    for before, after in itertools.pairwise(cues):
        assert after.start - before.end >= GAP - 1e-6
    shown = "".join(" ".join(cue.lines).removeprefix(prefix) for cue in cues).replace(" ", "")
    assert shown == "".join(w.text for words in spoken for w in words)
