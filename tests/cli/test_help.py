"""What the command line says of itself: helps with examples and defaults, version, completions; and `--timestamps`."""

from __future__ import annotations

import inspect
import io
import re
import shlex
import shutil
import subprocess
import sys

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import asr as package
from asr.cli import main
from asr.cli.commands import app
from asr.cli.options import EVALUATE, MODEL, TRANSCRIBE, Defaults
from asr.events import Final
from asr.formats import open_writer
from asr.recognition.endpoint import EndpointRules
from asr.recognition.options import RECORDED, StreamOptions
from asr.recognition.recognizer import Recognizer
from tests.cli.runner import asr
from tests.recordings import SAMPLE

WIDTH = 80
GROUP = typer.main.get_command(app)
HEAVY = {"torch", "numpy", "soundfile", "av", "soxr", "sounddevice", "sentencepiece", "yaml", "rich.progress"}


def paths(command=GROUP, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The names of every command and group, `()` for the program itself."""
    inner = getattr(command, "commands", {})
    return [path, *(found for name in inner for found in paths(inner[name], (*path, name)))]


every_command = pytest.mark.parametrize("path", paths(), ids=lambda path: " ".join(path) or "asr")


def find(path: tuple[str, ...]):
    command = GROUP
    for name in path:
        command = command.commands[name]
    return command


def help_of(path: tuple[str, ...]) -> str:
    done = CliRunner().invoke(app, [*path, "--help"], prog_name="asr", env={"COLUMNS": str(WIDTH), "TERM": "dumb"})
    assert done.exit_code == 0
    return done.output


@every_command
def test_help_fits_the_terminal_and_nothing_in_it_is_cut(path):
    text = help_of(path)
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "…" not in text
    options = {name for parameter in find(path).params for name in parameter.opts if name.startswith("--")}
    assert options <= set(re.findall(r"--[a-z-]+", text))


@every_command
def test_help_begins_with_two_examples_that_parse(path):
    above = help_of(path).partition("╭")[0]
    examples = [line.strip()[2:] for line in above.splitlines() if line.strip().startswith("$ ")]
    assert len(examples) == 2
    assert examples[0].startswith(" ".join(("asr", *path)))
    for example in examples:
        program, *words = shlex.split(example)
        assert program == "asr"
        command = GROUP
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        command.make_context(command.name, words)  # raises what a user would be told


@every_command
def test_help_shows_every_default(path):
    shown = re.findall(r"\[default: (.+?)\]", re.sub(r"[\s│]+", " ", help_of(path)))
    defaults = []
    for parameter in find(path).params:
        default = getattr(parameter.default, "value", parameter.default)
        if isinstance(default, bool):
            names = parameter.secondary_opts if not default else parameter.opts
            default = names[0].removeprefix("--") if parameter.secondary_opts else None
        defaults += [] if default is None else [str(default)]
    assert sorted(shown) == sorted(defaults)


def test_the_defaults_are_those_of_the_library():
    def options(defaults: Defaults) -> StreamOptions:
        rules = EndpointRules(defaults.pause_ms / 1000, defaults.unheard_ms / 1000, defaults.longest_s)
        return StreamOptions(defaults.chunk_ms, defaults.look_ahead_ms, endpoint=rules, vad=defaults.vad)

    assert options(EVALUATE) == StreamOptions()
    assert options(TRANSCRIBE) == RECORDED
    assert inspect.signature(Recognizer.load).parameters["source"].default == MODEL


def test_help_loads_nothing_heavy():
    command = [sys.executable, "-X", "importtime", "-m", "asr", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "asr.cli" in loaded
    assert not loaded & HEAVY


def test_version_is_the_package_s():
    done = asr("--version")
    assert (done.returncode, done.stdout) == (0, f"asr {package.__version__}\n")


def typed(line: str, shell: str, monkeypatch) -> None:
    """Sets what a shell hands over when its key for completions is pressed at the end of a line."""
    words = shlex.split(line) + [""] * line.endswith(" ")
    for name, value in {
        "_ASR_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": "\n".join(words),
        "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "TERMINAL_WIDTH": "20",
    }.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("asr ", list(GROUP.commands)),
        ("asr tr", ["transcribe", "train"]),
        ("asr bench ", ["latency"]),
        ("asr transcribe --ti", ["--timestamps"]),
        ("asr live --partials d", ["decoder"]),
        ("asr transcribe -f txt,s", ["txt,srt"]),
    ],
)
def test_shells_complete_commands_options_and_values(shell, line, offered, monkeypatch, capsys):
    typed(line, shell, monkeypatch)
    with pytest.raises(SystemExit):
        main()
    out = capsys.readouterr().out
    pattern = r"""^(?:_arguments '\*: :\(\()?"(.+?)\"""" if shell == "zsh" else r"^([^\t\n]+)"
    assert re.findall(pattern, out, re.MULTILINE) == offered


def test_a_narrow_terminal_offers_no_parts_of_helps(monkeypatch):
    typed("asr transcribe --", "fish", monkeypatch)
    options = {name for parameter in find(("transcribe",)).params for name in parameter.opts + parameter.secondary_opts}
    assert {line.partition("\t")[0] for line in asr().stdout.splitlines()} <= options | {"--help"}


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_completes_with_the_script_that_is_installed(tmp_path):
    program = tmp_path / "asr"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m asr "$@"\n')
    program.chmod(0o755)
    script = f"""
        PATH={shlex.quote(str(tmp_path))}:$PATH
        source <(_ASR_COMPLETE=source_bash asr)
        COMP_WORDS=(asr transcribe --out) COMP_CWORD=2
        $(complete -p asr | sed 's/.*-F \\([^ ]*\\).*/\\1/') asr
        echo "${{COMPREPLY[*]}}"
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "--output --output-dir\n"


def line_of(start: float, end: float, channel: int | None = None) -> str:
    out = io.StringIO()
    writer = open_writer("txt", out, 1, timestamps=True)
    writer.begin("a.wav")
    writer.event(Final("Good morning.", start, end), channel)
    return out.getvalue()


def test_timestamps_stand_before_each_utterance():
    assert line_of(1.2, 4.8) == "[00:01.2 --> 00:04.8] Good morning.\n"
    assert line_of(59.96, 61.04) == "[01:00.0 --> 01:01.0] Good morning.\n"
    assert line_of(3599.9, 3700.3) == "[59:59.9 --> 01:01:40.3] Good morning.\n"
    assert line_of(0, 360_000, channel=2) == "[00:00.0 --> 100:00:00.0] Channel 2: Good morning.\n"


@given(st.floats(0, 400_000))
def test_timestamps_are_right_to_a_tenth_of_a_second(seconds):
    *hours, minutes, rest = line_of(seconds, seconds)[1:].partition(" ")[0].split(":")
    assert len(minutes) == 2
    assert len(rest) == 4
    assert float(rest) < 60
    shown = 3600 * int(hours[0] if hours else 0) + 60 * int(minutes) + float(rest)
    assert shown == pytest.approx(seconds, abs=0.05 + 1e-6)


def test_transcribe_prints_timestamps():
    done = asr("transcribe", "--timestamps", SAMPLE)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    times = [re.match(r"\[00:(\d\d\.\d) --> 00:(\d\d\.\d)\] \w", line) for line in lines]
    assert len(lines) > 1
    assert all(times)
    seconds = [float(time) for match in times for time in match.groups()]
    assert seconds == sorted(seconds)


@pytest.mark.parametrize("others", [["-f", "srt"], ["-f", "txt,srt", "-d", "texts"], ["-d", "texts"], ["--beside"]])
def test_timestamps_are_for_a_stream_of_text(others, tmp_path):
    done = asr("transcribe", "--timestamps", *others, SAMPLE, cwd=tmp_path)
    assert done.returncode == 2
    assert "--timestamps is for" in done.stderr
    assert list(tmp_path.iterdir()) == []
