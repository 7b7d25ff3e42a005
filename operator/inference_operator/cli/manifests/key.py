"""`infd key create`: a new API key for a user of the routers, and the Secret that lets it in.

The command talks to no cluster, so it needs no rights: its output is what `kubectl apply` gets, or a line for whatever
manages the Secret. Only the hash is in the Secret, so the key is shown once.
"""

import argparse
import hashlib
import re
import secrets
import sys

import yaml

from inference_operator.api.router_keys import KEYS_FILE
from inference_operator.cli.parser import UsageError
from inference_operator.engines.registry import EngineRegistry

PREFIX = "sk-"
"""The start of keys of the OpenAI API, by which secret scanners find leaked ones."""

KEY_BYTES = 32
"""Random bytes of a key: as many as its SHA-256 has, so guessing is hopeless without a slow hash."""

_USER = re.compile("[A-Za-z0-9][A-Za-z0-9._@-]{0,62}")


def run(options: argparse.Namespace, _engines: EngineRegistry) -> int:
    """Print the line of a new key, or its Secret; the key itself goes to standard error."""
    if not _USER.fullmatch(options.user):
        raise UsageError(
            f"`{options.user}` cannot be a user: use 1 to 63 letters, digits, `.`, `_`, `@` or `-`, and begin with a"
            " letter or digit"
        )
    if options.namespace and not options.secret:
        raise UsageError("--namespace needs --secret")
    key = PREFIX + secrets.token_urlsafe(KEY_BYTES)
    line = key_line(options.user, key)
    print(_secret(options.secret, options.namespace, line) if options.secret else line)
    print(f"The API key of {options.user}, which is not shown again:\n{key}", file=sys.stderr)
    return 0


def key_line(user: str, key: str) -> str:
    """The line of the keys file for a key.

    Examples:
        >>> key_line("alice", "sk-1")
        'alice: 0f2c10bf3d128c719c6bfa4ecbae94b7fceebaea6e4438fef38a90e5acc326f3'
    """
    return f"{user}: {hashlib.sha256(key.encode()).hexdigest()}"


def _secret(name: str, namespace: str | None, line: str) -> str:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {KEYS_FILE: line + "\n"}}
    return yaml.safe_dump(secret, sort_keys=False, width=110).rstrip()
