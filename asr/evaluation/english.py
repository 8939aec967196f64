"""The form in which the field compares English texts: what is said alike is written alike.

After the rules of Whisper's normaliser (Radford et al. 2022, appendix C): numbers, abbreviations, currencies, noises in
brackets, contractions, British and American spelling. Letters of other scripts stay, in lower case.
"""

from __future__ import annotations

import re
import unicodedata

from asr.text import plain_letters
from asr.writing.numbers import decade, write_figures

_FILLERS = {"uh", "um", "hmm", "hm", "mm", "mmm", "mhm"}
# Abbreviations and variants of one word, each as it is spoken or as it is spelled in America.
_WORDS = """
mr=mister mrs=missus missis=missus dr=doctor prof=professor capt=captain gov=governor gen=general sen=senator
rep=representative rev=reverend lt=lieutenant col=colonel sgt=sergeant jr=junior sr=senior hon=honorable mt=mount
ave=avenue blvd=boulevard dept=department vs=versus etc=et_cetera ok=okay alright=all_right gonna=going_to
wanna=want_to gotta=got_to cannot=can_not can't=can_not won't=will_not shan't=shall_not let's=let_us grey=gray
tyre=tire tyres=tires plough=plow cheque=check cheques=checks programme=program programmes=programs jewellery=jewelry
aluminium=aluminum moustache=mustache pyjamas=pajamas whilst=while amongst=among towards=toward mum=mom
artefact=artifact fulfil=fulfill skilful=skillful judgement=judgment ageing=aging kerb=curb gaol=jail
sceptical=skeptical sulphur=sulfur practise=practice practised=practiced practising=practicing
"""
_SPELLING = [  # beginnings and ends of words; both texts go through them, so that a word too many does no harm
    (
        r"\b((?:dis|un|mis)?(?:col|fav|hon|lab|neighb|behavi|hum|rum|flav|harb|vap|vig|od|parl|sav|splend|tum|val))our",
        "or",
    ),
    (r"\b(ard|arm|clam|cand|endeav|ferv|ranc|rig|demean|misdemean)our", "or"),
    (r"([a-z]{4}[a-z]*?)is(?=(?:e|es|ed|er|ers|ing|ation|ations)\b)", "iz"),
    (r"\b(anal|paral|catal)ys(?=(?:e|es|ed|er|ers|ing)\b)", "yz"),
    (r"\b((?:kilo|centi|milli)?(?:cent|theat|met|lit|fib|calib|sab|somb|spect|lust|meag|manoeuv))re(?=s?\b)", "er"),
    (r"\b(cent|calib|meag|manoeuv)r(?=(?:ed|ing|able)\b)", "er"),
    (r"\b(catal|dial|anal|monol|prol|epil)ogue", "og"),
    (r"\b(def|off|lic|pret)ence", "ense"),
    (r"\b(trave|cance|labe|leve|mode|marve|signa|fue|counse|quarre|jewe)ll(?=(?:ed|ing|er|ers|or|ors)\b)", "l"),
    (r"\b(m|sm)ould(?=(?:s|ed|er|ers|ing|y|ering|ered)?\b)", "old"),
    (r"\b(an|leuk|h)aem", "em"),
    (r"\b(an|p|orthop|encyclop|medi|arch)ae", "e"),
    (r"\b(man)oeuv", "euv"),
]
_SPOKEN = {word: spoken.replace("_", " ") for word, spoken in (pair.split("=") for pair in _WORDS.split())}
_CURRENCIES = {"$": ("dollars", "cents"), "£": ("pounds", "pence"), "€": ("euros", "cents"), "¥": ("yen", "sen")}
_SIGNS = {"%": " percent ", "&": " and ", "°": " degrees ", "¢": " cents ", "+": " plus ", "@": " at ", "#": " number "}
_PRONOUNS = "i|you|he|she|it|we|they|that|there|who"
_RULES = [
    *((pattern, rf"\1{end}") for pattern, end in _SPELLING),
    (rf"\b({_PRONOUNS}|what|where|how|here|when)'s\b", r"\1 is"),
    (rf"\b({_PRONOUNS})'d\b", r"\1 would"),
    (r"n't\b", " not"),
    (r"'re\b", " are"),
    (r"'ve\b", " have"),
    (r"'ll\b", " will"),
    (r"\bi'm\b", "i am"),
    (r"\bper cent\b", "percent"),
    (r"\bo k\b", "okay"),
    (r"\bto (day|morrow|night)\b", r"to\1"),
    (r"\bgood bye\b", "goodbye"),
    (r"\bmc (?=[a-z])", "mc"),
    (r"\bst$", "street"),
    (r"\bst(?= [^\W\d])", "saint"),
    (r"\bno(?=\. ?\d)", "number"),
]
_RULES = [(re.compile(pattern), written) for pattern, written in _RULES]
_MONEY = re.compile(
    r"([$£€¥]) ?(\d+)(?:\.(\d\d)(?!\d))?((?:\.\d+)?(?: (?:hundred|thousand|million|billion|trillion)\b)?)"
)


def spoken_form(text: str) -> str:
    """A text as the field's normalisers compare it: words in lower case and figures, with single spaces.

    What has been brought to this form stays as it is.
    """
    while (after := _once(text)) != text:
        text = after
    return text


def _once(text: str) -> str:
    text = re.sub(r"\[[^\]]*\]|<[^>]*>|\([^)]*\)", " ", text)  # noises and remarks
    text = plain_letters(text)
    text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)
    text = _MONEY.sub(_spell_money, text)
    text = "".join(_SIGNS.get(character, character) for character in text)
    text = re.sub(r"\b(?:[a-z]\.){2,}", lambda found: found[0].replace(".", ""), text)  # a.m., U.S.
    text = re.sub(r"\bst\.?(?=\s*(?:[,;:!?]|$))", "street", text)
    text = re.sub(r"\bno\. ?(?=\d)", "number ", text)
    text = re.sub(r"(?<=\d)'(?=s\b)", "", text)  # 1980's
    text = "".join(c if _belongs(text, i, c) else " " for i, c in enumerate(text))
    text = re.sub(r"(?<![^\W\d_])'+|'+(?![^\W\d_])", "", text)
    text = re.sub(r"(?<=\d)(?=[^\W\d_])(?!(?:s|st|nd|rd|th)\b)|(?<=[^\W\d_])(?=\d)", " ", text)
    text = " ".join(_SPOKEN.get(word, word) for word in text.split() if word not in _FILLERS)
    for pattern, written in _RULES:
        text = pattern.sub(written, text)
    text = " ".join(write_figures([decade(word) for word in text.split()]))
    text = re.sub(r"(?<=\d) (dollar|pound|euro|cent)\b", r" \1s", text)
    return re.sub(r"\b(dollars|pounds|euros)(?: and)? (\d+) (?:cents|pence)\b", r"\1 \2", text)  # "two dollars fifty"


def _spell_money(found: re.Match) -> str:
    """`$5.50` -> `5 dollars 50 cents`, `$2.5 million` -> `2.5 million dollars`."""
    sign, whole, small, rest = found.groups()
    large, cents = _CURRENCIES[sign]
    if rest or small is None:
        return f" {whole}{'' if small is None else '.' + small}{rest} {large} "
    return f" {whole} {large} {int(small)} {cents} " if int(small) else f" {whole} {large} "


def _belongs(text: str, i: int, character: str) -> bool:
    """Whether a character is part of a word or of a number."""
    if character == ".":
        return 0 < i < len(text) - 1 and text[i - 1].isdecimal() and text[i + 1].isdecimal()
    return character == "'" or unicodedata.category(character)[0] in "LMN"
