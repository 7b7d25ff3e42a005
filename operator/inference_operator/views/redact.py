"""Finds secrets in texts of others and hides them, before the text reaches a status, an Event or a log.

1. The patterns are wide: a word hidden without need is harmless, a leaked key is not.
2. Their time grows with the length of the text and no faster, whatever the text is: what a pattern reads before it
   fails is bounded, or the next search begins near its end. A value whose end is missing ends with the text or a bound.
3. A pattern is tried only on texts that have one of its words.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

HIDDEN = "[hidden]"

_LONGEST = 4096
"""Characters of a quoted value or of a list that are hidden if its end is missing."""
_OVERLAP = 64
"""Characters of a value that are searched again: its end may be the name of the next value, as in `key: token: abc`."""


@dataclass(frozen=True, slots=True)
class _Rule:
    words: tuple[str, ...]
    """Words in lower case of which every text with such a secret has one."""
    pattern: re.Pattern[str]
    """Matches in a text in lower case. Its group `secret` is what is hidden; without one, all that matches."""

    def spans(self, lowered: str) -> Iterator[tuple[int, int]]:
        if not any(word in lowered for word in self.words):
            return
        group, at = "secret" if "secret" in self.pattern.groupindex else 0, 0
        while match := self.pattern.search(lowered, at):
            start, end = match.span(group)
            yield start, end
            at = max(start, end - _OVERLAP, match.start() + 1)


def _rule(words: str, pattern: str) -> _Rule:
    return _Rule(tuple(words.split()), re.compile(pattern, re.VERBOSE | re.DOTALL))


_FORMS = re.compile(
    r"""
      h(?<!\wh)f_[A-Za-z0-9]{8,} | a(?<!\wa)pi_org_[A-Za-z0-9]{8,}             # Hugging Face
    | g(?<!\wg)h[pousr]_[A-Za-z0-9]{16,} | g(?<!\wg)ithub_pat_\w{16,}          # GitHub
    | s(?<!\ws)k-[A-Za-z0-9_-]{16,}                                            # OpenAI and compatible services
    | A(?<!\wA)(?:KIA|SIA)[A-Z0-9]{16}                                         # AWS
    | A(?<!\wA)Iza[A-Za-z0-9_-]{30,}                                           # Google
    | x(?<!\wx)ox[abprs]-[A-Za-z0-9-]{10,}                                     # Slack
    | eyJ[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*+){0,4}                          # JSON web tokens (RFC 7519, RFC 7516)
    """,
    re.VERBOSE,
)
"""Keys that are recognised by their form, upper and lower case as they are. Each begins with a letter, by which the
search is fast, and looks behind that whether a word begins there."""

_QUOTED = rf"""
      "[^"\\]{{0,{_LONGEST}}}+(?:\\.[^"\\]{{0,{_LONGEST}}}+)*+"?
    | '[^'\\]{{0,{_LONGEST}}}+(?:\\.[^'\\]{{0,{_LONGEST}}}+)*+'?
    | \\{{1,8}}["'][^"'\\\n]*+                                                 # a string within a string
"""
_VALUE = rf"""(?!\[hidden\]|(?:none|null|true|false)\b)
    (?P<secret> \[[^\]]{{0,{_LONGEST}}}+\]? | {_QUOTED} | [^\s,;&"')}}\]]++ )"""
_NAME = r"""
    token | secret(?:[_-]?key)? | password | passwd | credentials? | signature | api[_-]?key
    | access[_-]?key(?:[_-]?id)? | private[_-]?key | account[_-]?key | k(?<!\wk)ey | s(?<!\ws)ig | p(?<!\wp)wd
"""
_BEGIN, _END = (rf"-----{side}\ [a-z ]*+(?<=key)-----" for side in ("begin", "end"))
_NAMES = "token secret passw credential signature key sig pwd"

_RULES = (
    # name=value, name: value and 'name': ['value'], with any text before the name
    _rule(_NAMES, rf"""(?:{_NAME})(?:\\{{0,8}}["'])?\s*+[=:]\s*+{_VALUE}"""),
    # --name value and '--name', 'value'
    _rule("--", rf"""--(?<![\w-]--)[\w-]*+(?:(?<=token)|(?<=secret)|(?<=password)|(?<=key))["']?,?\s++{_VALUE}"""),
    _rule(
        "authorization", r"""authorization["']?\s*+[=:]\s*+["']?(?!\[hidden\])(?P<secret>(?:[a-z]++\s++)?[^\s,;"']++)"""
    ),
    _rule("bearer", r"bearer\s++(?P<secret>[a-z0-9._~+/=-]{8,}+)"),
    # The user and the password of a URL
    _rule("@", r"://(?P<secret>[^\s/]+)@"),
    # A value that a program refuses, which its message quotes. A variable's value may come from a Secret.
    _rule(
        "invalid illegal convert ignored",
        rf"""(?:
            invalid\ literal\ for\ int\(\)\ with\ base\ \d{{1,2}}: | could\ not\ convert\ string\ to\ float: # Python
            | invalid\ \w{{1,40}}\ value: | invalid\ choice: | ignored\ explicit\ argument             # argparse
            | invalid\ value | illegal\ header\ value                                                # vLLM, h11
        )\ b?(?P<secret>{_QUOTED})""",
    ),
    # The same in messages of pydantic
    _rule("input_value=", r"input_value=(?!\[hidden\])(?P<secret>[^\n]*(?=,\ input_type=)|[^\n]++)"),
    # PEM (RFC 7468). Without an end, all that follows is hidden; without a beginning, all that precedes.
    _rule("-----begin", rf"{_BEGIN} .*? (?:{_END}|\Z)"),
    _rule("-----end", rf"\A (?:(?!{_BEGIN}).)*? {_END}"),
)

_PEM_LINE = re.compile(r"(?<![A-Za-z0-9+/])(?<!\bsha256:)[A-Za-z0-9+/]{64,76}\s*\Z")
"""The end of a whole line of PEM's content: 64 characters (RFC 7468), or up to 76 (RFC 1421, OpenSSH). A digest of an
image is none."""
_PEM_LINE_LENGTH = 64


def redacted(text: str) -> str:
    shown: list[str] = []
    at = 0
    for start, end in sorted(_spans(text)):
        if start >= at:
            shown += (text[at:start], HIDDEN)
        at = max(at, end)
    return "".join((*shown, text[at:]))


def _spans(text: str) -> Iterator[tuple[int, int]]:
    lowered = text.replace("\u0130", "i").lower()  # the only character with a longer lower case
    for rule in _RULES:
        yield from rule.spans(lowered)
    yield from (match.span() for match in _FORMS.finditer(text))
    yield from _pem_lines(text)


def _pem_lines(text: str) -> Iterator[tuple[int, int]]:
    """Lines of PEM's content, whose beginning and end a cut may have removed."""
    at = 0
    for line in text.split("\n"):
        if len(line) >= _PEM_LINE_LENGTH and " " not in line[-_PEM_LINE_LENGTH:].rstrip():
            match = _PEM_LINE.search(line, max(0, len(line) - 2 * _PEM_LINE_LENGTH))
            if match:
                yield at + match.start(), at + match.end()
        at += len(line) + 1
