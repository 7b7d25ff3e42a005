"""Every option and variable of vLLM has one class, and no form of an option gets round it."""

from collections import Counter
from collections.abc import Collection

import pytest

from inference_operator.api.container import EnvironmentVariable
from inference_operator.engines.model_access import hub_variables
from inference_operator.engines.options import Class, Classified, classified, unsafe_arguments, unsafe_variables
from inference_operator.engines.registry import ENGINES, VLLM
from inference_operator.engines.vllm.arguments import refusal_of_args
from inference_operator.engines.vllm.flags import (
    DANGEROUS_FLAGS,
    DANGEROUS_VARIABLES,
    MANAGED_FLAGS,
    MANAGED_VARIABLES,
    SECRET_FLAGS,
)
from inference_operator.engines.vllm.option_classes import (
    CLASSES,
    OPTION_CLASSES,
    VARIABLE_CLASSES,
    key_spellings,
    spellings,
)
from inference_operator.engines.vllm.options import OPTIONS, SPELLINGS, VERSION, resolve_option, written_option
from inference_operator.engines.vllm.vllm import ENVIRONMENT
from inference_operator.text_tables import text_of

REACH = (
    *("--logging-config", "--model-class-overrides", "--distributed-executor-backend", "--kv-events-config"),
    *("--model-loader-extra-config", "--chat-template", "--otlp-traces-endpoint", "--weight-transfer-config"),
    *("--additional-config", "--ec-manager-config", "--ec-transfer-config", "--hf-overrides", "--kv-transfer-config"),
    *("--generation-config", "--hf-config-path", "--io-processor-plugin", "--log-config-file", "--logits-processors"),
    *("--lora-modules", "--middleware", "--profiler-config", "--reasoning-parser-plugin", "--scheduler-cls"),
    *("--tokenizer", "--tool-parser-plugin", "--tool-server", "--worker-cls", "--worker-extension-cls"),
    *("--enable-sleep-mode", "--enable-log-requests", "--uvicorn-log-level", "--load-format", "--allowed-origins"),
)
"""Options that load code, read files, reach hosts, or show what users send."""
UNSAFE_KEYS = (
    *("--logging-config.pylogging_config_file", "--compilation-config.backend", "--compilation-config.inductor_passes"),
    *("-cc.backend", "-cc.inductor_passes.x", "-cc.debug_dump_path", "-cc.cache_dir", "-cc.inductor_compile_config.x"),
    *("--structured-outputs-config.reasoning_parser_plugin", "--model-loader-extra-config.tensorizer_uri"),
    *("--kv-events-config.endpoint", "--mm-processor-kwargs.trust_remote_code", "--media-io-kwargs.video.backend"),
    *("--default-chat-template-kwargs.chat_template", "--model-class-overrides.x", "--seed.x", "-O.backend"),
    *("--compilation-config.mode.x", "--compilation-config.mode+", "--compilation_config.mode"),
)
"""Keys that have one of these effects, and keys of no option."""
SAFE = (
    *("--seed", "--enforce-eager", "--no-enable-prefix-caching", "--enable-expert-parallel", "-ep", "-dcp"),
    *("--kv-cache-memory-bytes", "--attention-backend", "--tool-call-parser", "--reasoning-parser", "--enable-lora"),
    *(
        "--compilation-config.mode",
        "--compilation-config.cudagraph_mode",
        "-cc.mode",
        "-cc.pass_config.fuse_norm_quant",
    ),
    *("--limit-mm-per-prompt.image", "-ac.backend"),
    "--default-chat-template-kwargs.enable_thinking",
    *("-O0", "-O1", "-O2", "-O3"),
)
JSON = ("{}", "[1]", '{"a": 1}', ' \t\r\n{"a": 1}', "\n[")


def unclassified(names: Collection[str], classes: Collection[Classified]) -> tuple[str, ...]:
    """The names that have not exactly one class, and those of classes that do not exist.

    Examples:
        >>> unclassified(["--seed", "--new"], [Classified("--seed", Class.SAFE), Classified("--old", Class.SAFE)])
        ('--new', '--old')
    """
    given = [one.name for one in classes]
    return tuple(sorted(name for name in {*names, *given} if given.count(name) != 1 or name not in names))


def unsafe(*args: str) -> tuple[str, ...]:
    return unsafe_arguments(args, CLASSES)


def unsafe_names(*names: str) -> tuple[str, ...]:
    return unsafe_variables(names, CLASSES)


def test_variables_that_are_made_for_a_secret_are_safe() -> None:
    assert CLASSES.secret_variables <= CLASSES.safe_variables


def test_every_option_of_vllm_has_exactly_one_class() -> None:
    assert unclassified(OPTIONS, OPTION_CLASSES) == ()


def test_every_variable_of_vllm_has_exactly_one_class() -> None:
    """`python -m e2e.engines.vllm_options` writes the table of all variables."""
    names = text_of("inference_operator.engines.vllm", f"variables-{VERSION}.txt").split()
    assert set(names) <= {one.name for one in VARIABLE_CLASSES}
    assert [name for name, count in Counter(one.name for one in VARIABLE_CLASSES).items() if count > 1] == []


def test_a_new_version_does_not_pass_until_each_new_option_has_a_class_and_each_old_one_has_none() -> None:
    new, old = "--load-anything", OPTIONS[0]
    assert unclassified([*OPTIONS, new], OPTION_CLASSES) == (new,)
    assert unclassified(OPTIONS[1:], OPTION_CLASSES) == (old,)
    assert unclassified([*OPTIONS, new], [*OPTION_CLASSES, *classified(f"{new} safe\n")]) == ()
    assert unclassified(OPTIONS, [*OPTION_CLASSES, *classified("--seed pods code\n")]) == ("--seed",)


@pytest.mark.parametrize("table", ["--seed", "--seed nobody", "--seed pods", "--seed pods magic"])
def test_a_line_without_a_known_class_and_reason_is_no_line_of_a_table(table: str) -> None:
    with pytest.raises((ValueError, KeyError, IndexError)):
        list(classified(table))


def test_the_lists_of_the_policy_hold_every_spelling_of_an_option_and_nothing_else() -> None:
    for one in OPTION_CLASSES:
        exact = set(spellings(one.name))
        assert exact <= CLASSES.safe if one.kind is Class.SAFE else not exact & CLASSES.safe
        assert exact <= CLASSES.managed if one.kind is Class.MANAGED else not exact & CLASSES.managed
        assert set(key_spellings(one)) <= CLASSES.safe
    plain = {spelling for spelling in CLASSES.safe if "." not in spelling and not spelling.startswith("-O")}
    assert plain | CLASSES.managed <= SPELLINGS.keys()
    assert all(written_option(spelling) in SPELLINGS for spelling in CLASSES.safe)


def test_managed_flags_are_refused_to_everybody_and_dangerous_ones_need_the_right_too() -> None:
    assert {*MANAGED_FLAGS, *SECRET_FLAGS} <= CLASSES.managed
    assert not DANGEROUS_FLAGS.keys() & (CLASSES.safe | CLASSES.managed)
    assert CLASSES.managed_variables == MANAGED_VARIABLES.keys()
    assert not DANGEROUS_VARIABLES.keys() & (CLASSES.safe_variables | CLASSES.managed_variables)
    for spelling in CLASSES.managed:
        assert unsafe(spelling, f"{spelling}=1") == ()
        assert refusal_of_args([spelling], image="vllm:v0.32.0")


@pytest.mark.parametrize("option", REACH)
def test_an_option_that_reaches_beyond_the_model_needs_the_right_in_every_form(option: str) -> None:
    underscored = option[:2] + option[2:].replace("-", "_")
    short = [option[:length] for length in range(3, len(option)) if option in resolve_option(option[:length])]
    names = [*spellings(option), underscored, *(one for one in short if one not in SPELLINGS)]
    forms = [form for name in names for form in (name, f"{name}=a", f"{name}=", f"{name}.key", f"{name}.key=a")]
    assert unsafe(*forms) == tuple(forms)
    assert unsafe(option, "a") == (option,)
    for value in JSON:
        assert unsafe(option, value) == (option, value)
        assert unsafe(f"{option}={value}") == (f"{option}={value}",)


@pytest.mark.parametrize("key", UNSAFE_KEYS)
def test_a_key_that_reaches_beyond_the_model_needs_the_right(key: str) -> None:
    assert unsafe(key, "a") == (key,)
    assert unsafe(f"{key}=a") == (f"{key}=a",)


@pytest.mark.parametrize("name", SAFE)
def test_a_safe_name_needs_no_right_and_json_or_another_spelling_of_it_does(name: str) -> None:
    assert unsafe(name, "a", "8", "-1", "-0.5", "") == unsafe(f"{name}=a", f"{name}=", f"{name}=-1") == ()
    for value in JSON:
        assert unsafe(name, value) == (value,)
        assert unsafe(f"{name}={value}") == (f"{name}={value}",)
    others = (f"{name[:-1]}~", f"{name} 8", f"{name}\n", f"{name[:2]}{name[2:].swapcase()}~")
    assert unsafe(*others) == others


def test_safe_abbreviations_and_underscores_need_the_right_too() -> None:
    for written in (
        "--enforce-eag",
        "--kv_cache_memory_bytes=1",
        "--see=1",
        "-e",
        "-O",
        "-O=2",
        "-",
        "--",
        "-1x",
        "-ep1",
    ):
        assert unsafe(written) == (written,)


def test_a_module_as_an_executor_needs_the_right_and_so_does_a_plain_name() -> None:
    written = ("--distributed-executor-backend=mine.Executor", "--distributed-executor-backend=mp")
    assert unsafe(*written) == written


@pytest.mark.parametrize(
    "name",
    [
        *("LD_PRELOAD", "PYTHONPATH", "VLLM_PLUGINS", "VLLM_LOGGING_CONFIG_PATH", "VLLM_LOGGING_STREAM"),
        *(
            "HTTPS_PROXY",
            "http_proxy",
            "HF_ENDPOINT",
            "AWS_ENDPOINT_URL",
            "SSL_CERT_FILE",
            "HF_HOME",
            "VLLM_CACHE_ROOT",
        ),
        *(
            "TRITON_CACHE_DIR",
            "NCCL_NET_PLUGIN",
            "OMP_TOOL_LIBRARIES",
            "PATH",
            "VLLM_USE_MODELSCOPE",
            "NEW",
            "hf_token",
        ),
        *("VLLM_MEDIA_URL_ALLOW_REDIRECTS", "VLLM_SERVER_DEV_MODE", "VLLM_NIC_SELECTION_VARS"),
    ],
)
def test_a_variable_that_reaches_beyond_the_model_or_has_no_class_needs_the_right(name: str) -> None:
    assert name not in CLASSES.safe_variables | CLASSES.managed_variables
    assert unsafe_names(name, "HF_TOKEN") == (name,)


def test_tokens_tuning_and_managed_variables_need_no_right() -> None:
    assert unsafe_names("HF_TOKEN", "VLLM_API_KEY", "NCCL_DEBUG", "OMP_NUM_THREADS", "VLLM_USE_DEEP_GEMM", "HOME") == ()


def test_every_variable_that_reaches_the_hub_has_a_class_by_choice() -> None:
    chosen = {one.name for one in VARIABLE_CLASSES}
    names = [
        *ENVIRONMENT,
        "HF_TOKEN",
        "HF_ENDPOINT",
        "HTTPS_PROXY",
        "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
    ]
    variables = hub_variables([EnvironmentVariable(name=name, value="1") for name in names])
    assert {variable.name for variable in variables} <= chosen


def test_the_engine_gives_its_classes() -> None:
    assert ENGINES[VLLM].option_classes is CLASSES
