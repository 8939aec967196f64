"""The commands of the READMEs: they can be pasted as they are printed, into bash and zsh, and do what they say."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer

from asr.cli.commands import app

ROOT = Path(__file__).parents[1]
READMES = [ROOT / name for name in ("README.md", "configs/README.md", "scripts/benchmarks/README.md")]
COMMANDS = typer.main.get_command(app)
SEPARATORS = {"|", ";", "&&", "||"}
MADE = ("runs/", "corpus/", "server.pem")  # by commands before
FROM_ELSEWHERE = {
    "books.txt",
    "test-other.biasing_100.tsv",
    "test-other.jsonl",
    "dev-clean.jsonl",
    "common-voice.jsonl",
}
LISTENS = (
    r"(?m)^asr (live|dictate|serve)(?! --input tests).*\n"  # until it is told to end, to what this machine may lack
)


def blocks(path: Path, language: str = "bash") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def bare(block: str) -> str:
    """The block without comments, and with lines that go on made one."""
    return re.sub(r"(?m)(^|[ \t]+)# ?.*$", "", block).replace("\\\n", " ")


def simple_commands(block: str) -> Iterator[list[str]]:
    """The words of each command, without variables before it and what its output goes to."""
    words = shlex.shlex(bare(block).replace("\n", " ; "), posix=True, punctuation_chars=True)
    words.whitespace_split = True
    command: list[str] = []
    for word in [*words, ";"]:
        if word in SEPARATORS:
            if command:
                yield command
            command = []
        elif command or not re.match(r"[A-Z_]+=", word):
            command.append(word)


ALL = [(path, block) for path in READMES for block in blocks(path)]
CALLS = [(path, call) for path, block in ALL for call in simple_commands(block)]
every_block = pytest.mark.parametrize(("path", "block"), ALL, ids=[f"{p.relative_to(ROOT)}-{b[:30]}" for p, b in ALL])


@every_block
@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_shells_take_every_block(path, block, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    read = subprocess.run([shell, "-n"], input=block, capture_output=True, text=True)
    assert (read.returncode, read.stderr) == (0, "")


@every_block
def test_nothing_in_a_block_is_left_to_be_filled_in_or_taken_for_a_pattern(path, block):
    unquoted = re.sub(r"'[^']*'|\"[^\"]*\"", "", bare(block))
    assert not re.search(r"[\[\]*?<]", unquoted)
    assert not re.search(r"\b(FILE|DIR|FOLDER|TEXT|OUT|SET|CORPORA|MANIFEST|MODEL|URL)\b", unquoted)


@pytest.mark.parametrize("call", [call for _, call in CALLS if call[0] == "asr"], ids=" ".join)
def test_asr_takes_the_options_of_every_command(call, tmp_path, monkeypatch):
    """What is in the repository is there; what a command before would have made is made up."""
    (tmp_path / "server.pem").touch()
    monkeypatch.chdir(tmp_path)
    command, arguments = COMMANDS, call[1:]
    while hasattr(command, "commands"):
        command, arguments = command.commands[arguments[0]], arguments[1:]
    command.make_context(command.name, arguments)


def test_files_that_commands_name_are_in_the_repository_or_made_before():
    """Or come from elsewhere, which the text says."""
    suffix = re.compile(r"[^$=]+\.(py|yaml|jsonl|txt|tsv|flac|wav|pem)")
    named = {word for _, call in CALLS for word in call[1:] if suffix.fullmatch(word)}
    unknown = {word for word in named if not word.startswith(MADE) and not (ROOT / word).exists()}
    assert unknown == FROM_ELSEWHERE


@pytest.fixture
def clone(tmp_path):
    """A folder with all that the repository has, in which commands may write."""
    for name in ("asr", "configs", "scripts", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def environment() -> dict[str, str]:
    """That of `source .venv/bin/activate`, with the package of this folder."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return os.environ | {"PATH": path, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}


def paste(commands: str, folder: Path) -> str:
    """What commands print; all of them end well."""
    commands = re.sub(r"(?m)^(source|pip) .*\n", "", commands)
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", commands], cwd=folder, env=environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


(LINES,) = (block for block in blocks(READMES[0]) if "asr inspect" in block)
ANSWERS = {
    "asr live --input": "\nThe trains are running on time and the weather is fine.\n",
    "asr transcribe --timestamps": "[00:00.0 --> 00:04.9] Good morning, this is a short recording",
    "asr transcribe -f jsonl": '"text": "Good", "start": 0.312',
    "asr transcribe tests/data -d": "",
    "asr transcribe": "\nThe trains are running on time and the weather is fine.\n",
    "asr inspect": "mean of the heads",
    "asr classify": " s  other ",
    "asr bench": "word end",
}


@pytest.mark.slow
@pytest.mark.parametrize("line", [one for one in bare(re.sub(LISTENS, "", LINES)).splitlines() if "asr " in one])
def test_the_command_line_answers_as_the_readme_says(clone, line):
    assert next(answer for begin, answer in ANSWERS.items() if begin in line) in paste(line, clone)
    if " -d " in line:
        assert {path.name for path in clone.glob("runs/texts/sample.*")} == {"sample.txt", "sample.srt", "sample.json"}


@pytest.mark.slow
def test_the_python_program_is_as_the_readme_shows_it(clone):
    (program,) = blocks(READMES[0], "python")
    out = paste(f"python - <<'END'\n{program}END\n", clone)
    assert out.startswith("Good morning, this is a short recording")
    assert "0.0-4.9 s: Good morning" in out
    assert "Partial(" in out


@contextmanager
def serving(command: str, folder: Path) -> Iterator[str]:
    """Where `asr serve ...` serves, at ports that are free."""
    words = shlex.split(re.sub(r"port \d+", "port 0", command), comments=True)
    words = [sys.executable, "-m", *words, *([] if "--port" in words else ["--port", "0"])]
    server = subprocess.Popen(words, cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True)
    try:
        yield re.search(r"serving (\S+)/ ", server.stderr.readline())[1]
        server.send_signal(signal.SIGINT)
        assert server.wait(30) == 0
    finally:
        server.kill()
        server.wait()


@pytest.mark.slow
def test_the_server_is_as_the_readme_shows_it(clone):
    pytest.importorskip("openai")
    (block,) = (block for block in blocks(READMES[0]) if "asr serve" in block)
    here, others = re.findall(r"(?m)^asr serve.*", block)
    (clients,) = re.findall(r"(?ms)^curl.*?(?=^openssl)", block)
    with serving(here, clone) as url:
        out = paste(clients.replace("http://127.0.0.1:8080", url), clone)
    assert out.startswith("1\n00:00:00,")
    assert "Good morning, this is a short recording for a streaming speech recogniser. It listens" in out
    paste(re.search(r"(?m)^openssl.*", block)[0], clone)
    with serving(others, clone) as url:
        assert url.startswith("https://0.0.0.0:")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="there is no espeak-ng")
def test_training_is_as_its_guide_shows_it(clone):
    """All of it, where the teacher's package is there; else as far as it goes without."""
    commands = blocks(READMES[1])
    if find_spec("moonshine_cpp") is None:
        commands = [block for block in commands if "import_moonshine" not in block]
    out = [paste(block, clone) for block in commands]
    assert "we meet on monday at the harbour\n" in out[0]
    assert "WER 0.00 %" in out[0]
    assert "We meet on Monday at the harbour." in out[2]


@pytest.mark.slow
def test_figures_are_measured_as_printed(clone):
    """Those that take minutes at most and want nothing from elsewhere."""
    first, *others = blocks(READMES[2])
    kept = [
        b for b in others if re.match(r"asr (evaluate|bench)|python scripts/benchmarks/(make_mixed|bench_batch)", b)
    ]
    assert len(kept) >= 4
    paste(first + "".join(kept), clone)
