"""Spoken punctuation: commands are taken, words that are talked about stay words."""

import pytest

from asr.writing.rewriting import Writing
from asr.writing.tokens import join

COMMANDS = """
hello exclamation mark => hello!
We need eggs comma milk comma and bread full stop => We need eggs, milk, and bread.
Dear man, comma, new line, thank you, full stop, new paragraph, bye! => Dear man,\\nThank you.\\n\\nBye!
dear anna comma new line thank you full stop how are you question mark => dear anna,\\nthank you. how are you?
I went to the store period, then I came home period. => I went to the store. Then I came home.
I went to the store. Period. Then I came home. Period. => I went to the store. Then I came home.
i will see you tomorrow period => i will see you tomorrow.
She said, colon, open quote, I will come, close quote, full stop. => She said: “I will come”.
Hello. Full stop. Open parenthesis. Why? Question mark. Close parenthesis. => Hello. (Why?)
The first, open bracket, see below, close bracket, semicolon, dash, no. => The first [see below]; – no.
I see. Comma. But Peter said no. Full stop. Yes. => I see, but Peter said no. Yes.
I see. Comma. I will go. => I see, I will go.
a well hyphen known man => a well-known man
and so on ellipsis => and so on…
comma and then we left => , and then we left
what is that question mark => what is that?
new line => \\n
New paragraph. The end. => \\n\\nThe end.
Open quote => “
Hello, exclamation point, new line, bye => Hello!\\nBye
wait full stop question mark => wait.?
no comma i will not => no, i will not
his name comma i said comma was anna => his name, i said, was anna
at last full stop => at last.
it looks like a losing game period => it looks like a losing game.
I like that comma but not this period => I like that, but not this period
have a nice day period => have a nice day.
"""

TALKED_ABOUT = """
At the end of this period we used a comma separated list.
at the end of this period
It came to a full stop.
the american full stop is a period
he lived in the victorian period
during a busy period of three months
at a far earlier period than that
They were popular in that time period.
that question mark was an accident
I put a big question mark there
some may put a question mark
we opened a new line of thought
did you see the padres new line up
the fox and new line cinema
what is an oxford comma
a comma, a colon and a dash
I made a dash for the door.
dash it all
colon cancer is bad
comma separated values
your new paragraph
that comma was wrong
within a two year period
for the time period
an early period
a period of terror
"""


def write(text: str, **options: object) -> str:
    return join(token.text for token in Writing(spoken_punctuation=True, **options).write(text.split()))


@pytest.mark.parametrize("line", COMMANDS.strip().splitlines())
def test_commands_are_marks(line):
    said, expected = line.split(" => ")
    assert write(said) == expected.replace("\\n", "\n")


@pytest.mark.parametrize("said", TALKED_ABOUT.strip().splitlines())
def test_words_that_are_talked_about_stay_words(said):
    assert write(said) == said


def test_commands_part_numbers():
    assert write("twenty three comma forty five full stop", numbers="digits") == "23, 45."


def test_spoken_marks_stay_in_plain_text():
    said = "Well, Anna, comma, I'm here. Full stop. New line. Good-bye!"
    assert write(said, plain=True) == "well anna, i'm here.\ngood bye"
