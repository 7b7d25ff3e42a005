"""Validation of `spec.engine.args` and `spec.engine.env` against the tables of flags and variables."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from urllib.parse import urlsplit

from inference_operator.api.container import EnvironmentVariable
from inference_operator.api.engine import EngineSpec
from inference_operator.api.model import ModelSpec
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.engines.environment import not_allowed, refusal_of_variables
from inference_operator.engines.model_access import REMOVE, refusal_of_moved_cache
from inference_operator.engines.vllm import flags
from inference_operator.engines.vllm.adapters import refusal_of_hub_adapters
from inference_operator.engines.vllm.options import (
    SPELLINGS,
    VERSION,
    given_options,
    nearest,
    resolve_option,
    value_of,
    written_option,
)
from inference_operator.engines.vllm_image import version_of_image
from inference_operator.models.source import COMMIT, HUB_SCHEME

DOWNLOAD_DIR = "--download-dir"
REVISION, TOKENIZER, TOKENIZER_REVISION = "--revision", "--tokenizer", "--tokenizer-revision"
CODE_REVISION = "--code-revision"
CACHE_ROOT = "VLLM_CACHE_ROOT"
_IMAGE, _DIGEST = "oci://", "@sha256:"
_OPTION = re.compile(r"--[A-Za-z][\w-]{0,63}|-[A-Za-z]", re.ASCII)


def has_known_options(image: str) -> bool:
    return version_of_image(image) == VERSION


def refusal_of_args(args: Sequence[str], *, image: str, allowed: Collection[str] = ()) -> Refusal | None:
    """The refusal of the first argument that users may not set, or None.

    Args:
        image: the engine's image. Unknown options are refused only if its version is that of the tables.
        allowed: dangerous long options that the operator's settings allow.
    """
    for index, argument in enumerate(args):
        field = f"spec.engine.args[{index}]"
        following = next(iter(args[index + 1 : index + 2]), "-")
        refusal = _refusal(argument, field, has_known_options(image), allowed) or _no_value(argument, following, field)
        if refusal:
            return refusal
    return None


def refusal_of_remote_code(args: Sequence[str], model: ModelSpec) -> Refusal | None:
    """The refusal of code from a hub that could change from one start to the next, or None.

    Examples:
        >>> model = ModelSpec(source="hf://org/name", revision="main")
        >>> print(refusal_of_remote_code(["--trust-remote-code"], model).message)
        spec.model.revision: `--trust-remote-code` runs code of the repository, \
and the branch or tag `main` can change. \
Set it to a commit with 40 hexadecimal digits.
        >>> refusal_of_remote_code(["--trust-remote-code"], model.model_copy(update={"revision": "0" * 40})) is None
        True
    """
    options = [option for argument in args if (option := written_option(argument))]
    if not any(flags.REMOTE_CODE in resolve_option(option) for option in options):
        return None
    runs, cure = f"`{flags.REMOTE_CODE}` runs code of", "Set it to a commit with 40 hexadecimal digits."
    if model.source.startswith(HUB_SCHEME) and not COMMIT.fullmatch(model.revision or ""):
        branch = f"the branch or tag `{model.revision}`" if model.revision else "its default branch"
        problem = f"{runs} the repository, and {branch} can change."
        return Refusal(Reason.INVALID_SPEC, "spec.model.revision", problem, cure)
    if model.source.startswith(_IMAGE) and _DIGEST not in model.source:
        problem, named = f"{runs} the image, and its tag can change.", f"Name the image with its digest, `{_DIGEST}…`."
        return Refusal(Reason.INVALID_SPEC, "spec.model.source", problem, named)
    tokenizer = value_of(args, TOKENIZER) or ""
    of_model = tokenizer.startswith("/") or tokenizer in ("", model.source.removeprefix(HUB_SCHEME))
    if not of_model and not COMMIT.fullmatch(value_of(args, TOKENIZER_REVISION) or ""):
        problem = f"{runs} `{TOKENIZER}` too, and without `{TOKENIZER_REVISION}` or with a branch it can change."
        return Refusal(Reason.INVALID_SPEC, "spec.engine.args", problem, cure)
    for option in (TOKENIZER_REVISION, CODE_REVISION):
        chosen = value_of(args, option)
        if chosen is not None and not COMMIT.fullmatch(chosen):
            problem = f"{runs} the repository, and the branch or tag in `{option}` can change."
            return Refusal(Reason.INVALID_SPEC, "spec.engine.args", problem, cure)
    return None


def refusal_of_pickle(args: Sequence[str], model: ModelSpec) -> Refusal | None:
    """The refusal of a format of weights that unpickles files, without consent; or None.

    Examples:
        >>> model = ModelSpec(source="hf://org/name")
        >>> print(refusal_of_pickle(["--load-format=pt"], model).message)
        spec.engine.args: `--load-format=pt` loads pickle files, which can run code when they are loaded. \
Remove it, or set `spec.model.allowPickle: true` if you trust the author of the model.
        >>> refusal_of_pickle(["--load-format=safetensors"], model) is None
        True
    """
    chosen = value_of(args, flags.LOAD_FORMAT) or ""
    if model.allow_pickle or chosen.lower() not in flags.PICKLE_FORMATS:
        return None
    problem = f"`{flags.LOAD_FORMAT}={chosen}` loads pickle files, which can run code when they are loaded."
    cure = "Remove it, or set `spec.model.allowPickle: true` if you trust the author of the model."
    return Refusal(Reason.PICKLE_WEIGHTS, "spec.engine.args", problem, cure)


def refusal_of_env(env: Sequence[EnvironmentVariable], *, allowed: Collection[str] = ()) -> Refusal | None:
    return refusal_of_variables(
        env, managed=flags.MANAGED_VARIABLES, dangerous=flags.DANGEROUS_VARIABLES, allowed=allowed
    )


def _refusal(argument: str, field: str, known: bool, allowed: Collection[str]) -> Refusal | None:  # noqa: FBT001
    option = written_option(argument)
    if option is None:
        return _two_in_one(argument, field)
    names = resolve_option(option)
    # vLLM refuses an ambiguous abbreviation. The refusal names the most serious of its options.
    if (flag := _among(names, flags.MANAGED_FLAGS)) is not None:
        sets = "is" if option == flag else f"sets `{flag}`, which is"
        problem = f"`{_shown(option)}` {sets} managed by the operator."
        return Refusal(Reason.MANAGED_ARGUMENT, field, problem, flags.MANAGED_FLAGS[flag])
    if (flag := _among(names, flags.SECRET_FLAGS)) is not None:
        cure = f"Set `{flags.SECRET_FLAGS[flag]}` in `spec.engine.env` from a Secret, with `valueFrom.secretKeyRef`."
        return Refusal(Reason.SECRET_IN_SPEC, field, f"`{flag}` would show a secret to all readers of the pod.", cure)
    if (flag := _among(names, flags.DANGEROUS_FLAGS)) is not None and flag not in allowed:
        return not_allowed(field, flag, flags.DANGEROUS_FLAGS[flag], "allowedArguments")
    return _unknown(option, field, names) if known and len(names) != 1 else None


def _no_value(argument: str, following: str, field: str) -> Refusal | None:
    """The refusal of a key after a dot without a value: vLLM takes the next argument for it, even an option.

    So the revision that the operator adds would be lost (vLLM 0.32.0, utils/argparse_utils.py).
    """
    if written_option(argument) is None or "=" in argument or "." not in argument or not following.startswith("-"):
        return None
    shown = _shown(argument.partition(".")[0].replace("_", "-"))
    problem = f"a key of `{shown}` has no value."
    return Refusal(Reason.UNKNOWN_ARGUMENT, field, problem, f"Write `{shown}.KEY=VALUE`.")


def _two_in_one(argument: str, field: str) -> Refusal | None:
    first, _, rest = argument.partition(" ")
    if not rest or "=" in first or not resolve_option(written_option(first) or " "):
        return None
    problem = f"`{first}` and its value are one argument, which vLLM does not understand."
    return Refusal(Reason.UNKNOWN_ARGUMENT, field, problem, f"Write `{first}=...`, or two items of the list.")


def _unknown(option: str, field: str, names: Sequence[str]) -> Refusal:
    if names:
        problem, cure = f"`{_shown(option)}` can mean {_listed(names)}.", "Write the full name."
    elif option in flags.REMOVED_FLAGS:
        problem, cure = f"vLLM {VERSION} no longer has `{option}`.", flags.REMOVED_FLAGS[option]
    else:
        problem = f"vLLM {VERSION} has no argument `{_shown(option)}`."
        near = nearest(option)
        cure = f"Did you mean {_listed(near)}?" if near else "Remove it, or name an image that has it."
        if near and near[0] in flags.MANAGED_FLAGS:
            cure = f"Did you mean `{near[0]}`? {flags.MANAGED_FLAGS[near[0]]}"
    return Refusal(Reason.UNKNOWN_ARGUMENT, field, problem, cure)


def _shown(option: str) -> str:
    """The option as a message shows it: a value may follow a short one directly, and a long one may be no option.

    Examples:
        >>> _shown("--nosuch-flag"), _shown("-tp"), _shown("-n2"), _shown("--a b")
        ('--nosuch-flag', '-tp', '-n…', '--a…')
    """
    if option in SPELLINGS:
        return option
    shown = _OPTION.match(option)
    start = shown[0] if shown else "-"
    return start if start == option else f"{start}…"


def _among(names: Sequence[str], table: Mapping[str, str]) -> str | None:
    return next((flag for flag in table if SPELLINGS.get(flag, flag) in names), None)


def _listed(names: Sequence[str]) -> str:
    quoted = [f"`{name}`" for name in names]
    return f"{', '.join(quoted[:-1])} or {quoted[-1]}" if len(quoted) > 1 else quoted[0]


def refusal_of_cached(spec: EngineSpec) -> Refusal | None:
    """The refusal of what would make vLLM look for its model elsewhere than on the claim, or None."""
    if value_of(spec.args, DOWNLOAD_DIR) is not None:
        problem = f"`{DOWNLOAD_DIR}` is managed by the operator with `spec.cache`."
        return Refusal(Reason.MANAGED_ARGUMENT, "spec.engine.args", problem, REMOVE)
    return refusal_of_moved_cache(spec.env, {CACHE_ROOT}) or refusal_of_hub_adapters(spec.args)


def commit_arguments(args: Sequence[str], commit: str) -> Iterator[str]:
    """Arguments that make vLLM load this commit, branch or tag of the model and its tokenizer; none without one.

    A tokenizer of the user's own keeps its revision.

    Examples:
        >>> list(commit_arguments([], "1234abcd"))
        ['--revision=1234abcd', '--tokenizer-revision=1234abcd']
        >>> list(commit_arguments(["--tokenizer=org/other"], "1234abcd")), list(commit_arguments([], ""))
        (['--revision=1234abcd'], [])
    """
    if not commit:
        return
    yield f"{REVISION}={commit}"
    if value_of(args, TOKENIZER) is None and value_of(args, TOKENIZER_REVISION) is None:
        yield f"{TOKENIZER_REVISION}={commit}"


TRACES = "--otlp-traces-endpoint"
"""URL of a collector (vLLM 0.32.0, vllm/config/observability.py). vLLM continues the trace of a `traceparent`."""


def traces_arguments(args: Sequence[str], default: str) -> Iterator[str]:
    """The argument for the administrator's collector, unless the arguments of the spec name one."""
    if default and value_of(args, TRACES) is None:
        yield f"{TRACES}={default}"


def refusal_of_traces(args: Sequence[str]) -> Refusal | None:
    """The refusal of a collector's address that is no URL, or None: vLLM starts with it, and every span is lost."""
    for given in given_options(args, TRACES):
        if not is_url(given.value or ""):
            problem = f"the value of `{TRACES}` is not the URL of a collector."
            cure = "Write scheme, host and port, such as `http://otel-collector.monitoring:4317`."
            return Refusal(Reason.INVALID_SPEC, f"spec.engine.args[{given.index}]", problem, cure)
    return None


def is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of the port
        return False
