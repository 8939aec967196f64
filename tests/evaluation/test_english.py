"""What is said alike is written alike before it is scored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asr.evaluation.english import spoken_form


@pytest.mark.parametrize(
    "alike",
    [
        ("twenty five", "twenty-five", "25"),
        ("nineteen hundred", "1900"),
        ("nineteen eighty four", "nineteen eighty-four", "1984"),
        ("nineteen oh five", "1905"),
        ("two thousand and nineteen", "two thousand nineteen", "twenty nineteen", "2019"),
        ("the nineteen eighties", "the 1980s", "the 1980's"),
        ("one hundred and one", "a hundred and one", "101"),
        ("one thousand two hundred and thirty four", "1,234", "1234"),
        ("three million two hundred thousand and five", "3200005", "3,200,005"),
        ("four two five", "425", "4 2 5"),
        ("five five five one two three four", "555-1234", "555 1234"),
        ("three point one four", "3.14"),
        ("the twenty first of May", "the 21st of May"),
        ("two hundred and first", "201st"),
        ("three thirty p.m.", "3:30 PM"),
        ("Mr. Smith and Mrs. Jones", "mister Smith & missus Jones"),
        ("Dr. Who lives at 5 Main St.", "doctor who lives at five main street"),
        ("St. Paul", "Saint Paul"),
        ("$5", "five dollars"),
        ("$1", "one dollar"),
        ("$5.50", "five dollars and fifty cents"),
        ("$2.50", "two dollars fifty"),
        ("£3.05", "three pounds five pence"),
        ("three pounds twenty pence", "three pounds twenty"),
        ("$2.5 million", "two point five million dollars"),
        ("£3,000", "three thousand pounds"),
        ("5 %", "five per cent", "five percent"),
        ("No. 5", "#5", "number five"),
        ("OK", "okay", "O.K.", "ok"),
        ("[laughter] well <noise> then (coughs)", "uh well, um, then"),
        ("McConnell", "mc connell", "Mc Connell"),
        ("I can't, won't and didn't", "I cannot, will not and did not"),
        ("it's what they've said; I'd go, let's", "it is what they have said I would go let us"),
        ("The colour of neighbours' theatres", "the color of neighbors theaters"),
        ("organised travellers analysed the catalogue", "organized travelers analyzed the catalog"),
        ("defence of grey aluminium programmes", "defense of gray aluminum programs"),
        ("practised manoeuvres, manoeuvred and centred", "practiced maneuvers maneuvered and centered"),
        ("to-day", "today"),
        ("Caf\u00e9 na\u00efve", "cafe naive"),
        ("Привет, Мир! 25", "привет мир 25"),
    ],
)
def test_alike(alike):
    assert len({spoken_form(text) for text in alike}) == 1, [spoken_form(text) for text in alike]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("between five and ten", "between 5 and 10"),
        ("one hundred and two hundred", "100 and 200"),
        ("two and a half", "2 and a half"),
        ("a million", "1000000"),
        ("oh no", "oh no"),
        ("hundreds of thousands", "hundreds of thousands"),
        ("John's dogs' o'clock", "john's dogs o'clock"),
        ("eleventh twelfth twentieth 3rd", "11th 12th 20th 3rd"),
        ("B2B", "b 2 b"),
        ("\u0939\u093f\u0928\u094d\u0926\u0940 \u0966", "\u0939\u093f\u0928\u094d\u0926\u0940 0"),
        ("[noise]", ""),
        ("", ""),
    ],
)
def test_written(text, written):
    assert spoken_form(text) == written


@pytest.mark.parametrize(
    ("one", "other"), [("nineteen", "ninety"), ("5 dollars", "5 pounds"), ("it's", "its"), ("fifteen", "fifty")]
)
def test_what_is_said_differently_stays_different(one, other):
    assert spoken_form(one) != spoken_form(other)


vocabulary = """
a and zero oh one two three nine ten eleven nineteen twenty thirty ninety hundred thousand million first second third
twentieth hundredth thousandth eighties point dollar dollars cents percent $ 5 $5.50 0 00 1,000 3.5 1984 21st 80s % & .
, - ' st. St no. No. mr. mc Mc ok o k a.m. it's i'd can't colour organise per cent to day uh [x] ( ) x é и й 語 ² ½ İ ß
"""


@given(st.lists(st.sampled_from(vocabulary.split()), max_size=9).map(" ".join) | st.text(max_size=30))
def test_normalising_twice_is_normalising_once(text):
    once = spoken_form(text)
    assert spoken_form(once) == once
    assert once == " ".join(once.split())


@given(st.integers(0, 10**12))
def test_every_number_is_read_as_it_is_spelled(number):
    assert spoken_form(spelled(number)) == str(number)


SMALL = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def spelled(number: int) -> str:
    for scale, word in (
        (10**12, "trillion"),
        (10**9, "billion"),
        (10**6, "million"),
        (1000, "thousand"),
        (100, "hundred"),
    ):
        if number >= scale:
            rest = spelled(number % scale) if number % scale else ""
            return f"{spelled(number // scale)} {word} {rest}".strip()
    if number < 20:
        return SMALL[number]
    return TENS[number // 10 - 2] + (f"-{SMALL[number % 10]}" if number % 10 else "")
