"""Removes secrets from the messages of engines and kubelets before they reach a status, an Event or a log.

The patterns are wide: a word hidden without need is harmless, a leaked key is not.
"""

import re

HIDDEN = "[hidden]"

_BY_FORM = re.compile(
    r"""
      \bhf_[A-Za-z0-9]{8,} | \bapi_org_[A-Za-z0-9]{8,}                        # Hugging Face
    | \bgh[pousr]_[A-Za-z0-9]{16,} | \bgithub_pat_\w{16,}                      # GitHub
    | \bsk-[A-Za-z0-9_-]{16,}                                                  # OpenAI and compatible services
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b                                            # AWS
    | \bAIza[A-Za-z0-9_-]{30,}                                                 # Google
    | \bxox[abprs]-[A-Za-z0-9-]{10,}                                           # Slack
    | \beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?           # JSON web tokens (RFC 7519)
    | -----BEGIN[ ][A-Z ]*KEY-----.*?(?:-----END[ ][A-Z ]*KEY-----|\Z)         # PEM (RFC 7468)
    """,
    re.VERBOSE | re.DOTALL,
)

_VALUE = r"""(?!\[hidden\]|(?:None|null|True|False|true|false)\b)(?:\[[^\]]*\]|"[^"]*"|'[^']*'|[^\s,;&"')}\]]+)"""
_NAME = (
    r"token|secret|password|passwd|credentials?|signature|api[_-]?key|access[_-]?key(?:[_-]?id)?|secret[_-]?key"
    r"|private[_-]?key|account[_-]?key|\bkey|\bsig|\bpwd"
)
_BY_NAME = re.compile(rf"""(?i)((?:{_NAME})["']?\s*[=:]\s*){_VALUE}""")
"""`name=value`, `name: value` and `'name': ['value']`, with any text before the name."""

_BY_OPTION = re.compile(rf"""(?i)(--[\w-]{{0,32}}(?:token|secret|password|key)["']?,?\s+){_VALUE}""")
_AUTHORIZATION = re.compile(r"""(?i)(\bauthorization["']?\s*[=:]\s*["']?)(?!\[hidden\])(?:[a-z]+\s+)?[^\s,;"']+""")
_BEARER = re.compile(r"(?i)\b(bearer\s+)[A-Za-z0-9._~+/=-]{8,}")
_REFUSED = re.compile(
    r"""((?:invalid\ literal\ for\ int\(\)\ with\ base\ \d+: | could\ not\ convert\ string\ to\ float:     # Python
    | invalid\ \w{1,40}\ value: | invalid\ choice: | ignored\ explicit\ argument                     # argparse
    | [Ii]nvalid\ value | Illegal\ header\ value)\ b?)                                               # vLLM, h11
    (?:'(?:[^'\\\n]|\\.)*'?|"(?:[^"\\\n]|\\.)*"?)""",
    re.VERBOSE,
)
"""A value that a program refuses, which its message quotes. A variable's value may come from a Secret."""
_INPUT = re.compile(r"(\binput_value=)(?!\[hidden\])[^\n]+?(?=, input_type=|$)", re.MULTILINE)
"""The same in messages of pydantic."""
_IN_URL = re.compile(r"(?i)\b([a-z][a-z0-9+.-]{1,15}://)[^\s/@]+@")


def redacted(text: str) -> str:
    """The text with everything that looks like a secret replaced.

    Examples:
        >>> redacted("401 for https://me:secret@hub.example/x?token=abc with hf_AbCdEfGhIj, max_tokens=8")
        '401 for https://[hidden]@hub.example/x?token=[hidden] with [hidden], max_tokens=8'
    """
    text = _IN_URL.sub(rf"\1{HIDDEN}@", _BY_FORM.sub(HIDDEN, text))
    for pattern in (_REFUSED, _INPUT, _AUTHORIZATION, _BY_NAME, _BY_OPTION, _BEARER):
        text = pattern.sub(rf"\1{HIDDEN}", text)
    return text
