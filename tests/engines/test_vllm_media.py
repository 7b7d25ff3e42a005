"""Hosts from which vLLM may fetch media: none by default, and exactly those of the spec."""

import pytest
from pydantic import ValidationError

from inference_operator.api.container import EnvironmentVariable
from inference_operator.api.engine import EngineSpec
from inference_operator.api.reasons import Reason
from inference_operator.api.spec import Spec
from inference_operator.engines.process import EngineProcess, ServedModel, Timeouts
from inference_operator.engines.vllm.arguments import refusal_of_args, refusal_of_env
from inference_operator.engines.vllm.request_limits import ALLOWED_DOMAINS, NO_HOST, REDIRECTS
from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.planning.engine_plan import requested_of_sizes
from inference_operator.sizing.plan import unchecked_plan
from inference_operator.sizing.shape import SizingInputs

CURRENT = "docker.io/vllm/vllm-openai:v0.32.0"
MANY = tuple(f"host-{number}.example.com" for number in range(32))


def asking(*domains: str, **more: object) -> EngineSpec:
    return EngineSpec.model_validate({"image": CURRENT, "multimodal": {"allowedDomains": domains}, **more})


def process(asked: EngineSpec) -> EngineProcess:
    timeouts = Timeouts(startup=1800, dns_staleness=15, drain=300)
    return Vllm().process(asked, unchecked_plan(SizingInputs(1)), ServedModel("a/b", "a"), timeouts)


def allowed(asked: EngineSpec) -> list[str]:
    """The names after the option, up to the next option, as vLLM's parser takes them."""
    args = list(process(asked).args)
    assert args.count(ALLOWED_DOMAINS) <= 1
    if ALLOWED_DOMAINS not in args:
        return []
    rest = args[args.index(ALLOWED_DOMAINS) + 1 :]
    return rest[: next(index for index, argument in enumerate(rest) if argument.startswith("-"))]


@pytest.mark.parametrize(
    "image",
    [CURRENT, f"{CURRENT}@sha256:{'0' * 64}", "vllm/vllm-openai:v0.11.0", "vllm/vllm-openai:latest", "mine:dev"],
)
def test_an_engine_may_ask_no_host_by_default(image: str) -> None:
    assert allowed(EngineSpec(image=image)) == [NO_HOST]
    assert allowed(EngineSpec(image=image, args=("--seed=1",))) == [NO_HOST]


def test_an_image_whose_version_has_no_such_option_does_not_get_it() -> None:
    for tag in ("v0.10.2", "v0.9.1-x86_64", "v0.6.3"):
        assert allowed(EngineSpec(image=f"vllm/vllm-openai:{tag}")) == []


def test_the_name_that_stands_for_no_host_is_none_that_a_url_or_the_dns_can_have() -> None:
    assert NO_HOST.lower() != NO_HOST
    assert NO_HOST.endswith(".invalid.")
    with pytest.raises(ValidationError):
        asking(NO_HOST)


@pytest.mark.parametrize("domains", [("images.example.com",), ("b.example.com", "a"), MANY])
def test_an_engine_may_ask_exactly_the_hosts_of_the_spec(domains: tuple[str, ...]) -> None:
    assert allowed(asking(*domains)) == list(domains)


def test_arguments_of_the_spec_cannot_add_a_host() -> None:
    assert allowed(asking(args=["evil.example.com"])) == [NO_HOST]
    for written in (ALLOWED_DOMAINS, "--allowed_media_domains=a", "--allowed-med", "--allowed-media-domains.a=b"):
        refusal = refusal_of_args([written], image="mine:dev", allowed=[ALLOWED_DOMAINS])
        assert refusal is not None
        assert refusal.reason is Reason.MANAGED_ARGUMENT
        assert refusal.message.endswith("Use `spec.engine.multimodal.allowedDomains`.")


def test_redirects_of_media_are_off_unless_the_owner_allows_the_variable() -> None:
    assert {one.name: one.value for one in process(EngineSpec()).env}[REDIRECTS] == "0"
    variable = [EnvironmentVariable(name=REDIRECTS, value="1")]
    refusal = refusal_of_env(variable)
    assert refusal is not None
    assert refusal.reason is Reason.ARGUMENT_NOT_ALLOWED
    assert refusal_of_env(variable, allowed=[REDIRECTS]) is None


@pytest.mark.parametrize(
    "domain", ["localhost", "images.example.com", "a-1.b2.example", "1.example.com", "xn--bcher-kva.de"]
)
def test_a_dns_name_in_lower_case_is_accepted(domain: str) -> None:
    assert asking(domain).multimodal.allowed_domains == (domain,)


@pytest.mark.parametrize(
    "domain",
    [
        *("", "Images.example.com", "*.example.com", "*", ".example.com", "example.com.", "a..b", "-a.b", "a-.b"),
        *(
            "example.com:80",
            "user@example.com",
            "http://example.com",
            "example.com/a",
            "a b",
            "a\n",
            "--seed",
            "bücher.de",
        ),
        *("169.254.169.254", "2130706433", "0x7f000001", "127.1", "::1", "[::1]", f"{'a.' * 127}aa"),
    ],
)
def test_what_is_no_dns_name_in_lower_case_is_refused(domain: str) -> None:
    with pytest.raises(ValidationError):
        asking(domain)


def test_at_most_32_hosts_are_accepted() -> None:
    with pytest.raises(ValidationError):
        asking(*MANY, "one-more.example.com")


def test_allowed_hosts_are_no_part_of_what_sizes_depend_on() -> None:
    def asked(**multimodal: object) -> object:
        spec = {"model": {"source": "hf://a/b"}, "engine": {"multimodal": multimodal}}
        return requested_of_sizes(Spec.model_validate(spec), Vllm())

    assert asked(allowedDomains=["a.example.com"]) == asked()
    assert asked(allowedDomains=["a.example.com"], video=True) == asked(video=True) != asked()
