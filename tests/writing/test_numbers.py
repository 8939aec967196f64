"""Numbers in figures and in words: what people write for what is said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asr.writing.numbers import write_figures
from asr.writing.rewriting import Writing
from asr.writing.spelling import cardinal, ordinal
from asr.writing.tokens import join


def written(text: str, numbers: str) -> str:
    return join(token.text for token in Writing(numbers).write(text.split()))


FIGURES = """
I have twenty three apples. => I have 23 apples.
Twenty-three people came, and forty left. => 23 people came, and 40 left.
two hundred and fifty thousand men => 250,000 men
nine hundred ninety nine thousand nine hundred ninety nine => 999,999
two million three hundred thousand => 2,300,000
two million people => 2 million people
the two point six million shares => the 2.6 million shares
one billion two hundred million => 1,200,000,000
a hundred and one => 101
a hundred thousand => 100,000
thirty-five hundred => 3500
three hundred and sixty five days => 365 days
three thousand six hundred forty five point two nine => 3645.29
zero point three five points => 0.35 points
It cost two dollars fifty. => It cost $2.50.
It cost two dollars and five cents to make. => It cost $2.05 to make.
ninety one point five million dollars => $91.5 million
nineteen dollars a share => $19 a share
a twenty-dollar bill => a $20 bill
one dollar => $1
six euros twenty each => €6.20 each
five pounds fifty pence => £5.50
five pounds of flour => 5 pounds of flour
fifty cents => 50 cents
seventy three percent of them => 73% of them
five per cent, five percent => 5%, 5%
On March third, nineteen eighty four => On March 3rd, 1984
on march third nineteen eighty four => on march 3rd 1984
wednesday march eighteen nineteen oh eight => wednesday march 18 1908
the second of May => the 2nd of May
the twenty first of December => the 21st of December
the sixteenth century => the 16th century
nineteen oh eight => 1908
ten sixty six => 1066
twenty twenty four => 2024
two thousand and nineteen => 2019
the nineteen eighties => the 1980s
the nineteen eighty six third quarter => the 1986 third quarter
at five thirty we left => at 5:30 we left
It's three fifteen p m now. => It's 3:15 p.m. now.
five p.m. sharp => 5 p.m. sharp
ten thirty => 10:30
at three oh five => at 3:05
seven o'clock => 7 o'clock
seven three one zero nine eight zero => 7310980
nine oh seven seven four six four => 9077464
oh seven nine four six => 07946
double five six triple zero => 556000
zero seven => 07
My number is five five five, one two three four. => My number is 555, 1234.
three sixty degrees => 360 degrees
extension twelve thirty four => extension 1234
press one or two, dial nine => press 1 or 2, dial 9
chapter seven => chapter 7
ten to one, between nine and twelve => 10 to 1, between 9 and 12
nine or ten men => 9 or 10 men
a thirty-day option, a ninety-one-year-old man => a 30-day option, a 91-year-old man
minus five degrees => minus 5 degrees
"Twenty," he said. => "20," he said.
(forty two) => (42)
25 million dollars => $25 million
"""

WORDS = """
I have 23 apples. => I have twenty-three apples.
23 people, 40 dogs. 7 cats => Twenty-three people, forty dogs. Seven cats
It cost $2.50. => It cost two dollars and fifty cents.
just $1, or £1.01 => just one dollar, or one pound and one penny
a $91.5 million loss => a ninety-one point five million dollars loss
€2.5 billion. => Two point five billion euros.
a 64% share of 3,645.29 => a sixty-four percent share of three thousand six hundred forty-five point two nine
March 3rd, 1984 => March third, nineteen eighty-four
in 1900, 1908 and 2000 => in nineteen hundred, nineteen oh eight and two thousand
in 2005 or 2024 => in two thousand five or twenty twenty-four
the 1980s and the 80s => the nineteen eighties and the eighties
at 5:30 p.m., 12:00 or 3:05 => at five thirty p.m., twelve o'clock or three oh five
call 7310980 or 555-1234 => call seven three one zero nine eight zero or five five five one two three four
agent 007 => agent zero zero seven
the 21st, 100th and 112th => the twenty-first, one hundredth and one hundred twelfth
about 1000000 or 250,000 => about one million or two hundred fifty thousand
a 12-ounce cup => a twelve-ounce cup
"""

WORDS_STAY = """
One of them is the one I like.
No one knows, and this one in years
the first time and the second one
one or two persons
half past three and half past ten
one fifth of three quarters
a hundred times a thousand
wait a second
oh no oh dear
one, two, three
may first i ask you a question
we march second
"""


def lines(table: str) -> list[list[str]]:
    return [line.split(" => ") for line in table.strip().splitlines()]


@pytest.mark.parametrize(("said", "expected"), lines(FIGURES))
def test_numbers_in_figures(said, expected):
    assert written(said, "digits") == expected


@pytest.mark.parametrize("said", WORDS_STAY.strip().splitlines())
def test_small_numbers_of_ordinary_speech_stay_words(said):
    assert written(said, "digits") == said


@pytest.mark.parametrize(("said", "expected"), lines(WORDS))
def test_numbers_in_words(said, expected):
    assert written(said, "words") == expected


@pytest.mark.parametrize("said", ["WD40 and 3D", "v1.2.3", "12345678901234567890", "1/2", "٣"])
def test_what_is_no_number_is_not_read_as_one(said):
    assert written(said, "words") == said


@given(st.integers(0, 10**15 - 1))
def test_a_number_in_words_is_read_as_that_number(number):
    words = cardinal(number).replace("-", " ").split()
    assert write_figures(words) == [str(number)]
    if number < 10**6:
        ending = write_figures(ordinal(number).replace("-", " ").split())[0]
        assert ending[:-2] == str(number)


@given(st.integers(10, 10**6 - 1))
def test_figures_to_words_and_back_are_the_same_figures(number):
    figures = f"{number:,}" if number >= 10_000 else str(number)
    assert written(f"about {cardinal(number)} men", "digits") == f"about {figures} men"
    assert written(written(f"about {figures} men", "words"), "digits") == f"about {figures} men"
