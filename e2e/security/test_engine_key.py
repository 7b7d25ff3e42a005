"""The real application of vLLM with the key of its routers: each of its routes, in the engine's image."""

from pathlib import Path

from e2e import vllm_options
from inference_operator.engines.engine_key import KEY_FILE, KEY_PROGRAM, KEY_SOURCE, MIDDLEWARE, guard_of
from inference_operator.engines.programs import PROGRAMS_VARIABLE, programs_text

KEY = "a" * 64
OPEN = {"GET /health", "HEAD /health", "GET /metrics"}
KNOWN = {"GET /v1/models", "POST /v1/load_lora_adapter", "POST /tokenize", "POST /pause", "POST /collective_rpc"}
"""Some of the routes that vLLM itself leaves open, or that matter most."""


def test_no_route_of_vllm_but_health_and_metrics_is_answered_without_the_key(tmp_path: Path) -> None:
    question = {
        "args": ["/models/a", f"--middleware={MIDDLEWARE}"],
        "before": guard_of("qwen").command,
        "file": KEY_FILE,
        "key": KEY,
        "env": {
            PROGRAMS_VARIABLE: programs_text({KEY_PROGRAM: KEY_SOURCE}),
            "VLLM_SERVER_DEV_MODE": "1",
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
        },
    }
    found: dict[str, dict[str, int]] = vllm_options.answer_of("guarded", question, tmp_path)
    for name in ("without", "wrong"):
        assert found[name].keys() >= KNOWN
        assert {one for one, code in found[name].items() if code != 401} == OPEN
        assert found[name]["GET /metrics"] == 200
    assert 401 not in found["right"].values()
    assert found["right"]["GET /version"] == 200
