"""Which arguments and variables of a spec reach vLLM, and the messages for those that do not."""

import pytest

from inference_operator.api.container import EnvironmentVariable
from inference_operator.api.engine import EngineSpec
from inference_operator.api.model import ModelSpec
from inference_operator.api.reasons import Reason
from inference_operator.engines.vllm.arguments import (
    has_known_options,
    refusal_of_args,
    refusal_of_env,
)
from inference_operator.engines.vllm.flags import (
    DANGEROUS_FLAGS,
    DANGEROUS_VARIABLES,
    MANAGED_FLAGS,
    MANAGED_VARIABLES,
    REMOVED_FLAGS,
    SECRET_FLAGS,
)
from inference_operator.engines.vllm.options import OPTIONS, SPELLINGS, nearest, resolve_option, written_option
from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.settings import Settings
from tests.testing.for_each import for_each
from tests.testing.managed_flags import managed_flag

KNOWN, FOREIGN = "docker.io/vllm/vllm-openai:v0.32.0", "example.com/vllm:mine"
TABLES = {
    Reason.MANAGED_ARGUMENT: MANAGED_FLAGS,
    Reason.SECRET_IN_SPEC: SECRET_FLAGS,
    Reason.ARGUMENT_NOT_ALLOWED: DANGEROUS_FLAGS,
}
REFUSED = {SPELLINGS[flag]: reason for reason, table in TABLES.items() for flag in table}


def reason_of(*args: str, image: str = KNOWN) -> Reason | None:
    refusal = refusal_of_args(args, image=image)
    return refusal.reason if refusal else None


def message_of(*args: str, image: str = KNOWN) -> str:
    refusal = refusal_of_args(args, image=image)
    return refusal.message if refusal else ""


def test_the_flag_tables_name_only_existing_options_and_each_option_once() -> None:
    assert REFUSED.keys() <= set(OPTIONS)
    assert len(REFUSED) == sum(len(table) for table in TABLES.values())
    assert not set(REMOVED_FLAGS) & SPELLINGS.keys()
    assert not set(MANAGED_VARIABLES) & set(DANGEROUS_VARIABLES)


@for_each(SPELLINGS)
def test_every_spelling_of_an_option_has_the_same_reason_for_refusal(spelling: str) -> None:
    reason = REFUSED.get(SPELLINGS[spelling])
    underscored = spelling[:2] + spelling[2:].replace("-", "_")
    for written in (spelling, f"{spelling}=x", f"{spelling}=", underscored):
        for image in (KNOWN, FOREIGN):
            assert reason_of(written, image=image) is reason, f"{written} for {image}"


@for_each(REFUSED)
def test_every_abbreviation_of_a_refused_flag_is_refused(flag: str) -> None:
    for length in range(3, len(flag)):
        short = flag[:length]
        if short not in SPELLINGS and flag in resolve_option(short):
            assert reason_of(f"{short}=1", image=FOREIGN) in {*TABLES, Reason.UNKNOWN_ARGUMENT}


@pytest.mark.parametrize(
    ("argument", "flag"),
    [
        ("--model", "--model"),
        ("--served_model_name=x", "--served-model-name"),
        ("--served-model_name", "--served-model-name"),
        ("--tensor-parallel-size=8", "--tensor-parallel-size"),
        ("--tensor-par", "--tensor-parallel-size"),
        ("-tp", "--tensor-parallel-size"),
        ("-tp=2", "--tensor-parallel-size"),
        ("-t", "--tensor-parallel-size"),
        ("-n2", "--nnodes"),
        ("-asc=2", "--api-server-count"),
        ("--por=1", "--port"),
        ("--shut=0", "--shutdown-timeout"),
        ("-h", "--help"),
    ],
)
def test_a_managed_flag_is_recognised_in_any_spelling(argument: str, flag: str) -> None:
    assert managed_flag(argument) == flag


@pytest.mark.parametrize("argument", ["", "-", "--", "8", "port", "/models", "-1", "-0.5", '{"port": 1}', "a--port"])
def test_a_value_of_an_option_is_not_taken_for_an_option(argument: str) -> None:
    assert written_option(argument) is None
    assert reason_of("--seed", argument) is None


def test_a_dotted_json_key_of_an_option_is_refused_like_the_option() -> None:
    assert reason_of("--compilation-config.mode=3", "-cc.backend=eager", "-O2") is None
    assert reason_of("--speculative_config.model_x=a") is Reason.MANAGED_ARGUMENT
    assert reason_of("--kv-transfer-config.kv_connector=X") is Reason.ARGUMENT_NOT_ALLOWED


@for_each(DANGEROUS_FLAGS)
def test_a_dangerous_flag_is_refused_with_a_key_and_with_json(flag: str) -> None:
    for written in (flag, flag[:2] + flag[2:].replace("-", "_")):
        for value in (".key=a", "={}", '=["a"]', ".a.b={}"):
            assert reason_of(written + value) is Reason.ARGUMENT_NOT_ALLOWED, written + value


def test_a_refusal_names_the_first_refused_argument_and_its_cure_but_not_its_value() -> None:
    assert message_of("--seed", "8", "-tp", "2", "--port=1") == (
        "spec.engine.args[2]: `-tp` sets `--tensor-parallel-size`, which is managed by the operator."
        " Use `spec.parallelism.tensor`."
    )
    assert message_of("--api-key=abc") == (
        "spec.engine.args[0]: `--api-key` would show a secret to all readers of the pod."
        " Set `VLLM_API_KEY` in `spec.engine.env` from a Secret, with `valueFrom.secretKeyRef`."
    )
    assert message_of("--seed", "8", "--enforce-eager") == message_of() == ""


def test_dangerous_arguments_and_variables_are_refused_unless_a_setting_allows_them() -> None:
    assert message_of("--trust-remote-code") == (
        "spec.engine.args[0]: `--trust-remote-code` runs code that comes with the model, which is not allowed here."
        " Remove it, or ask the operator's administrator to add it to the setting `allowedArguments`."
    )
    allowed = Settings(allowed_arguments=("--trust-remote-code",), allowed_environment=("VLLM_PLUGINS",))
    asked = EngineSpec(args=("--trust_remote_code",), env=(EnvironmentVariable(name="VLLM_PLUGINS", value="a"),))
    assert Vllm().check(asked, image=KNOWN, settings=allowed) is None
    for settings in (Settings(), allowed.model_copy(update={"allowed_environment": ()})):
        refusal = Vllm().check(asked, image=KNOWN, settings=settings)
        assert refusal is not None
        assert refusal.reason is Reason.ARGUMENT_NOT_ALLOWED


@pytest.mark.parametrize(
    ("source", "revision", "refused"),
    [
        ("hf://org/name", None, "its default branch"),
        ("hf://org/name", "v1", "the branch or tag `v1`"),
        ("hf://org/name", "0123456789abcdef0123456789abcdef01234567", ""),
        ("pvc://claim/path", None, ""),
    ],
)
@pytest.mark.parametrize("argument", ["--trust-remote-code", "--trust_remote", "--trust-remote-code=true"])
def test_code_of_a_repository_needs_a_commit(argument: str, source: str, revision: str | None, refused: str) -> None:
    model, asked = ModelSpec(source=source, revision=revision), EngineSpec(args=(argument,))
    refusal = Vllm().check_model(asked, model, cached=False)
    assert (refusal.field if refusal else "") == ("spec.model.revision" if refused else "")
    assert refused in (refusal.message if refusal else "")


SHA = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("source", "args", "field"),
    [
        ("oci://registry.example/model:latest", (), "spec.model.source"),
        (f"oci://registry.example/model@sha256:{SHA}", (), ""),
        ("hf://org/name", ("--tokenizer=org/other",), "spec.engine.args"),
        ("hf://org/name", ("--tokenizer=org/other", "--tokenizer-revision=main"), "spec.engine.args"),
        ("hf://org/name", ("--tokenizer=org/other", f"--tokenizer-revision={SHA}"), ""),
        ("hf://org/name", ("--tokenizer=org/name",), ""),
        ("hf://org/name", ("--tokenizer=/models/other",), ""),
        ("hf://org/name", ("--tokenizer-revision=main",), "spec.engine.args"),
        ("hf://org/name", ("--tokenizer=org/name", "--tokenizer-revision=main"), "spec.engine.args"),
        ("hf://org/name", (f"--tokenizer-revision={SHA}",), ""),
        ("hf://org/name", ("--code-revision=main",), "spec.engine.args"),
        ("hf://org/name", (f"--code-revision={SHA}",), ""),
    ],
)
def test_code_of_an_image_or_of_another_repository_needs_what_cannot_change(
    source: str, args: tuple[str, ...], field: str
) -> None:
    model = ModelSpec(source=source, revision=SHA if source.startswith("hf://") else None)
    refusal = Vllm().check_model(EngineSpec(args=("--trust-remote-code", *args)), model, cached=False)
    assert (refusal.field if refusal else "") == field
    assert Vllm().check_model(EngineSpec(args=args), model, cached=False) is None


@pytest.mark.parametrize("chosen", ["pt", "npcache", "PT"])
def test_a_format_that_unpickles_needs_consent(chosen: str) -> None:
    asked, model = EngineSpec(args=(f"--load-format={chosen}",)), ModelSpec(source="hf://org/name", revision=SHA)
    refusal = Vllm().check_model(asked, model, cached=False)
    assert refusal is not None
    assert (refusal.reason, refusal.field) == (Reason.PICKLE_WEIGHTS, "spec.engine.args")
    assert Vllm().check_model(asked, model.model_copy(update={"allow_pickle": True}), cached=False) is None


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        (
            "--max-model-length=8",
            "vLLM 0.32.0 has no argument `--max-model-length`. Did you mean `--max-model-len`? Use `spec.engine",
        ),
        ("--swap-space=4", "vLLM 0.32.0 no longer has `--swap-space`. Remove it; vLLM has not swapped since 0.18."),
        ("--speculative_model=x", "no longer has `--speculative-model`. Use `spec.engine.speculative`"),
        ("--max-log=1", "`--max-log` can mean `--max-log-len` or `--max-logprobs`. Write the full name."),
        ("--zzz", "has no argument `--zzz`. Remove it, or name an image that has it."),
        ("--seed 8", "`--seed` and its value are one argument, which vLLM does not understand."),
    ],
)
def test_an_argument_that_vllm_would_refuse_is_refused_with_the_most_similar_option(argument: str, words: str) -> None:
    assert words in message_of(argument)
    assert reason_of(argument) is Reason.UNKNOWN_ARGUMENT


@pytest.mark.parametrize("argument", ["--max-model-length=8", "--swap-space=4", "--max-log=1", "--zzz"])
def test_an_unknown_argument_is_accepted_for_an_image_of_another_version(argument: str) -> None:
    assert reason_of(argument, image=FOREIGN) is None


@pytest.mark.parametrize(
    ("image", "known"),
    [
        (KNOWN, True),
        ("vllm/vllm-openai-cpu:v0.32.0-x86_64", True),
        ("registry.example:5000/vllm:0.32.0+cu129@sha256:0a", True),
        ("vllm/vllm-openai:v0.31.0", False),
        ("vllm/vllm-openai:v0.32.01", False),
        ("registry.example:5000/vllm", False),
        ("vllm:latest", False),
    ],
)
def test_the_image_tag_decides_whether_its_vllm_options_are_known(image: str, known: bool) -> None:  # noqa: FBT001
    assert has_known_options(image) is known


def test_at_most_three_existing_options_are_suggested_for_a_misspelt_option() -> None:
    for misspelt in ("--max-model-length", "--enforce-eagre", "--gpu-memory-utilisation"):
        assert 0 < len(nearest(misspelt)) <= 3
        assert set(nearest(misspelt)) <= set(OPTIONS)


@pytest.mark.parametrize("name", MANAGED_VARIABLES)
def test_a_managed_environment_variable_is_refused_even_if_a_setting_allows_it(name: str) -> None:
    refusal = refusal_of_env([EnvironmentVariable(name="A", value="1"), EnvironmentVariable(name=name, value="1")])
    assert refusal is not None
    assert refusal.message.startswith(f"spec.engine.env[{name}]: `{name}` is managed by the operator.")
    assert refusal_of_env([EnvironmentVariable(name=name, value="1")], allowed=[name]) == refusal


@pytest.mark.parametrize("name", DANGEROUS_VARIABLES)
def test_a_dangerous_environment_variable_is_refused_unless_a_setting_allows_it(name: str) -> None:
    variables = [EnvironmentVariable(name=name, value="1")]
    refusal = refusal_of_env(variables)
    assert refusal is not None
    assert refusal.reason is Reason.ARGUMENT_NOT_ALLOWED
    assert refusal.cure.endswith("add it to the setting `allowedEnvironment`.")
    assert refusal_of_env(variables, allowed=[name]) is None


def test_environment_variables_that_no_table_lists_are_accepted() -> None:
    names = ("VLLM_USE_V1", "HF_HOME", "home", "HOMEPAGE", "PYTHONUNBUFFERED")
    assert refusal_of_env([EnvironmentVariable(name=name, value="1") for name in names]) is None


@pytest.mark.parametrize(
    "args", [["--default-chat-template-kwargs.reasoning_effort"], ["-cc.mode", "--seed=1"], ["--seed=1", "-cc.mode"]]
)
def test_a_key_without_a_value_is_refused_because_vllm_takes_the_next_argument_for_it(args: list[str]) -> None:
    """Else it would swallow the revision that the operator adds at the end."""
    refusal = refusal_of_args(args, image="vllm:v0.32.0")
    assert refusal is not None
    assert "has no value" in refusal.message
    assert refusal_of_args(["-cc.mode", "3", "--default-chat-template-kwargs.a=b"], image="vllm:v0.32.0") is None
