"""`infd crd`, `policy`, `key` and `arguments`: objects for installers, keys of users, their marks, rules of engines."""

import argparse
import hashlib
import json
import re
import secrets
import sys

from pydantic import ValidationError

from inference_operator.admission.administrator_policy import PolicyScope, administrator_policy
from inference_operator.admission.operator_policy import OperatorAccount, operator_policies
from inference_operator.admission.writer_policy import writer_policies
from inference_operator.api.crd import crd, editor_schema
from inference_operator.api.prometheus import PrometheusSettings
from inference_operator.api.router import KEYS_FILE
from inference_operator.cli.output import TABLES, dump, dumped, manifest_text, print_found, schema_text, table
from inference_operator.cli.parser import EXIT_NOT_FOUND, UsageError
from inference_operator.controller.resource_kind import KINDS
from inference_operator.engines.registry import ENGINES
from inference_operator.manifest import Manifest
from inference_operator.router.keys import MARK_LETTERS


def print_crd(options: argparse.Namespace) -> int:
    crds = (schema_text(crd(kind.api)) for kind in KINDS)
    print(json.dumps(editor_schema(), indent=1) + "\n" if options.json_schema else "".join(crds), end="")
    return 0


def print_policies(options: argparse.Namespace) -> int:
    if options.owner:
        found = administrator_policy(PolicyScope(options.namespace, options.name))
    elif options.operator:
        try:
            prometheus = PrometheusSettings.model_validate_json(options.prometheus)
        except ValidationError as error:
            raise UsageError(f"--prometheus is not the setting: {error.errors()[0]['msg']}") from error
        operator = OperatorAccount(
            options.namespace, options.name, options.account, tuple(options.pod_account), prometheus
        )
        found = operator_policies(operator)
    else:
        found = writer_policies((options.engines or ENGINES).option_classes)
    print(dump(found), end="")
    return 0


PREFIX = "sk-"
"""The start of keys of the OpenAI API, by which secret scanners find leaked ones."""
KEY_BYTES = 32
"""Random bytes of a key: as many as its SHA-256 has, so guessing is hopeless without a slow hash."""
_USER = re.compile("[A-Za-z0-9][A-Za-z0-9._@-]{0,62}")


def create_key(options: argparse.Namespace) -> int:
    """Print the line of a new key, or its Secret. Only the hash is in them, so the key itself is printed, once."""
    if not _USER.fullmatch(options.user):
        raise UsageError(
            f"`{options.user}` cannot be a user: use 1 to 63 letters, digits, `.`, `_`, `@` or `-`, and begin with a"
            " letter or digit"
        )
    if options.namespace and not options.secret:
        raise UsageError("--namespace needs --secret")
    key = PREFIX + secrets.token_urlsafe(KEY_BYTES)
    line = f"{options.user}: {hashlib.sha256(key.encode()).hexdigest()}"
    if options.output not in TABLES:
        secret = {"secret": _secret(options.secret, options.namespace, line)} if options.secret else {}
        print(dumped({"user": options.user, "key": key, "line": line, **secret}, options.output))
        return 0
    print(manifest_text(_secret(options.secret, options.namespace, line), "yaml") if options.secret else line)
    print(f"The API key of {options.user}, which is not shown again:\n{key}", file=sys.stderr)
    return 0


def print_marks(options: argparse.Namespace) -> int:
    lines = (
        re.fullmatch(rf"\s*({_USER.pattern})\s*:\s*([0-9A-Fa-f]{{64}})(\s*priority=(High|Low))?\s*", line)
        for line in sys.stdin
    )
    keys = [(line[1], line[2].lower()) for line in lines if line]
    marks = {user: hashlib.sha256(f"{keys[0][1]}:{user}".encode()).hexdigest()[:MARK_LETTERS] for user in dict(keys)}
    shown = [f"{mark} {user}" for user, mark in marks.items()]
    print_found([{"user": user, "mark": mark} for user, mark in marks.items()], options.output, shown)
    return 0


def _secret(name: str, namespace: str | None, line: str) -> Manifest:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {KEYS_FILE: line + "\n"}}


def print_rules(options: argparse.Namespace) -> int:
    engines = options.engines or ENGINES
    word = options.word.lower().replace("_", "-")
    rules = [rule for rule in engines[options.engine].option_rules if word in rule.name.lower().replace("_", "-")]
    if not rules:
        other = " It needs the right to create pods." if options.engine == engines.default else " It is refused."
        raise UsageError(
            f"No argument or variable of {options.engine} is listed as `{options.word}`.{other}", EXIT_NOT_FOUND
        )
    rows = [(rule.name, rule.who, rule.note.replace("`", "")) for rule in rules]
    lines = table([("NAME", "WHO MAY SET IT", "EFFECT, OR WHAT TO USE INSTEAD"), *rows])
    print_found(rules, options.output, lines)
    return 0
