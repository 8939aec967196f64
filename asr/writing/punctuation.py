"""Spoken punctuation: which words are commands ("comma", "new line") and which are talked about ("a comma").

The words around a command tell. After an article or the like it is a noun ("at the end of this period"), and so it is
before what a noun goes on with ("a comma separated list"). The marks and capitals that the recogniser writes by itself
tell where it heard a boundary. "Period" and "dash", which people use a lot, want one after them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from asr.writing.tokens import CLOSING, OPENING, Token, edges

_COMMANDS = """
,=comma .=full_stop .=fullstop .=period ?=question_mark !=exclamation_mark !=exclamation_point :=colon ;=semicolon
;=semi_colon …=ellipsis …=dot_dot_dot -=hyphen –=dash “=open_quote “=open_quotes ”=close_quote ”=close_quotes
(=open_parenthesis (=open_parentheses )=close_parenthesis )=close_parentheses [=open_bracket [=open_brackets
]=close_bracket ]=close_brackets
"""
COMMANDS = {tuple(words.split("_")): mark for mark, words in (line.split("=") for line in _COMMANDS.split())}
COMMANDS |= {("new", "line"): "\n", ("newline",): "\n", ("new", "paragraph"): "\n\n"}
LONGEST = max(map(len, COMMANDS))
LOOK_AHEAD = LONGEST + 1  # words that must be known for what one word becomes not to depend on what follows


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_DETERMINERS = _set(
    "a an the my your our their its every same such oxford serial missing inverted or per british american"
)
_PRONOUNS = _set(  # or determiners: a clause may end with one
    "this that these those each any some what which whose his her no another first second third last next"
)
_VERBS = _set("is was are were has had should belongs")
_ADJECTIVES = _set("big huge large small single double extra final brand completely")
_COMPOUNDS = _set("separated delimited splice splices cancer key character symbol sign signs button")
_NEW_LINES = _set("of is was up for in cinema item items manager")  # what other new lines go on with
_DOUBTFUL = {"period", "dash"}
_SPANS = _set(  # what a period is one of
    """time year month week hour minute sleep rest trial grace notice waiting transition early earlier late later long
    longer short shorter brief busy given recent actual certain indefinite limited fixed"""
)
_SPAN_ENDINGS = ("ian", "al", "ic", "ous", "ern", "ive", "ory", "ite", "ful", "man", "ent")
_SENTENCE, _CLAUSE = ".?!…", ",;:"


def find_marks(words: Sequence[str]) -> list[Token]:
    """Words of an utterance and the marks that are meant by some of them.

    Of a word beside a mark, marks that the recogniser has written by itself go; sentences begin with a capital, and
    what is no beginning of a sentence with none, where it had one for that reason only.
    """
    plain = [edges(word)[1].casefold() for word in words]
    tokens: list[Token] = []
    cased = ended = begins = False  # there are capitals; the recogniser had ended a sentence; a sentence begins
    i = 0
    while i < len(words):
        after_mark = bool(tokens) and tokens[-1].mark
        end = _command(words, plain, i, after_mark)
        if end is None:
            text = words[i]
            cased |= text != text.lower()
            if cased and after_mark:
                text = _begun(text) if begins else _continued(text) if ended else text
            tokens.append(Token(text, i, i + 1))
            i += 1
            continue
        mark = COMMANDS[tuple(plain[i:end])]
        if not after_mark:
            ended = begins = False
            if tokens:
                text = tokens[-1].text
                tokens[-1] = replace(tokens[-1], text=_without(text, mark))
                ended, begins = text[-1] in _SENTENCE, tokens[-1].text[-1] in _SENTENCE
        ended |= words[end - 1][-1] in _SENTENCE
        if mark not in OPENING:
            begins = mark[-1] in _SENTENCE + "\n"
        tokens.append(Token(mark, i, end, True))
        i = end
    return tokens


def attach(tokens: Sequence[Token]) -> list[Token]:
    """Marks at the words that they belong to."""
    attached: list[Token] = []
    ahead: Token | None = None  # what the next word begins with
    for token in tokens:
        if not token.mark or token.text == "–":
            attached.append(_merged(ahead, token))
            ahead = None
        elif ahead is not None or token.text in OPENING or (not attached and token.text[0] == "\n"):
            ahead = _merged(ahead, token)
        elif attached and token.text == "-":
            ahead = _merged(attached.pop(), token)
        elif attached and not (attached[-1].text[-1] == "\n" and token.text in CLOSING):
            attached[-1] = _merged(attached[-1], token)
        else:
            attached.append(token)
    return attached if ahead is None else [*attached, ahead]


def _command(words: Sequence[str], plain: Sequence[str], i: int, after_mark: bool) -> int | None:
    """Where the command ends that begins at word i, if one does."""
    for end in range(min(len(words), i + LONGEST), i, -1):
        if tuple(plain[i:end]) in COMMANDS and not any(edges(word)[2] for word in words[i : end - 1]):
            return end if _meant(words, plain, i, end, after_mark) else None
    return None


def _meant(words: Sequence[str], plain: Sequence[str], i: int, end: int, after_mark: bool) -> bool:
    """Whether words `[i, end)`, which are those of a command, are meant as one."""
    apart = after_mark or i == 0 or bool(edges(words[i - 1])[2])
    bounded = end == len(words) or bool(edges(words[end - 1])[2])
    bounded |= any(tuple(plain[end : end + size]) in COMMANDS for size in range(1, LONGEST + 1))
    if not bounded:
        bounded = words[end][:1].isupper() and plain[end].partition("'")[0] != "i"
    if not apart and _is_noun(plain[max(0, i - 2) : i]):
        return False
    if plain[i] in _DOUBTFUL:
        return bounded and (apart or not _is_span(plain[max(0, i - 3) : i]))
    if bounded:
        return True
    going_on = _COMPOUNDS | _NEW_LINES if plain[i] == "new" else _COMPOUNDS
    return plain[end] not in going_on and (apart or plain[i - 1] not in _PRONOUNS or plain[end] not in _VERBS)


def _is_noun(before: Sequence[str]) -> bool:
    """Whether what follows one or two words is a noun."""
    described = len(before) == 2 and before[1] in _ADJECTIVES and before[0] in _DETERMINERS | _PRONOUNS
    return before[-1] in _DETERMINERS or described


def _is_span(before: Sequence[str]) -> bool:
    """Whether a period after these words is one of time: "this period", "that war period", "the victorian period"."""
    *described, last = before
    if last in _PRONOUNS or last in _SPANS or described[-1:] == ["this"] or described[-1:] == ["that"]:
        return True
    return last.endswith(_SPAN_ENDINGS) and not (_DETERMINERS | _PRONOUNS).isdisjoint(described)


def _without(text: str, mark: str) -> str:
    """A word without the marks that the recogniser has written between it and a spoken mark."""
    if mark == "“":
        return text
    return text.rstrip(_CLAUSE + _SENTENCE if mark in CLOSING else _CLAUSE) or text


def _begun(text: str) -> str:
    return text[:1].upper() + text[1:]


def _continued(text: str) -> str:
    """A word that had its capital as the first of a sentence."""
    core = edges(text)[1]
    return text if core.partition("'")[0] == "I" or core[1:] != core[1:].lower() else text.lower()


def _merged(one: Token | None, other: Token) -> Token:
    return other if one is None else Token(one.text + other.text, one.first, other.last)
