import pytest

from inference_operator.views.redact import HIDDEN, redacted

TOKEN = "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz012345"
SECRET = "s3cr3t/value+1"  # noqa: S105 - what must not pass

TEXTS_WITH_SECRETS = [
    f"OSError: 401 Client Error with {TOKEN}",
    f"'hf_token': '{TOKEN}'",
    f"'hf_token': '{SECRET}', 'max_model_len': 8",
    f"non-default args: {{'api_key': ['{SECRET}', '{SECRET}'], 'port': 8000}}",
    f"--api-key {SECRET} --port 8000",
    f"['--hf-token', '{SECRET}']",
    f"--hf-token={SECRET}",
    f"HF_TOKEN={SECRET}",
    f"AWS_SECRET_ACCESS_KEY: {SECRET}",
    f"aws_access_key_id={SECRET}",
    f'"password": "{SECRET} with spaces"',
    f"Authorization: Bearer {SECRET}",
    f"authorization: basic {SECRET}",
    f"sent Bearer {SECRET} to",
    f"https://me:{SECRET.replace('/', '')}@registry.example/v2/",
    f"https://{SECRET.replace('/', '')}@registry.example/v2/",
    f"https://bucket.example/weights?X-Amz-Credential={SECRET}&X-Amz-Signature={SECRET}&part=1",
    f"https://account.example/c?sv=1&sig={SECRET}",
    f"https://maps.example/?key={SECRET}&v=1",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabc\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\nMIIEow (cut off",
    f"ValueError: invalid literal for int() with base 10: '{SECRET}'",
    f"ValueError: could not convert string to float: '{SECRET}'",
    f"argument --seed: invalid int value: 'it\\'s {SECRET}'",
    f'argument --dtype: invalid choice: "it\'s {SECRET}" (choose from a, b)',
    f"Invalid value '{SECRET}' for VLLM_A. Valid options: ['a']",
    f"Illegal header value b'Bearer a {SECRET}",
    f"[type=value_error, input_value={{'a': '{SECRET}'}}, input_type=dict]",
    "AKIAIOSFODNN7EXAMPLE",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
]


@pytest.mark.parametrize("text", TEXTS_WITH_SECRETS)
def test_redaction_removes_every_secret_from_a_text(text: str) -> None:
    result = redacted(text)
    assert HIDDEN in result
    for secret in (TOKEN, SECRET, SECRET.replace("/", ""), "MIIEow", "dozjgNry", "EXAMPLE", "0123456789"):
        assert secret not in result
    assert redacted(result) == result


@pytest.mark.parametrize(
    "text",
    [
        "max_num_batched_tokens=8192, max_model_len: 4096, tokenizer='Qwen/Qwen3-8B', skip_tokenizer_init=False",
        "'hf_token': None, 'api_key': null",
        "To serve at least one request with the model's max seq len (40960), (5.62 GiB KV cache is needed)",
        "Access to model meta-llama/Llama-3.1-8B is restricted. https://huggingface.co/meta-llama/Llama-3.1-8B",
        'persistentvolumeclaim "models" not found',
        "number of tokens: 5; use a token having permission to this repo",
        "KeyError: 'layers.0.weight'",
        "manifest unknown: ghcr.io/org/x@sha256:" + "0a" * 32,
    ],
)
def test_redaction_leaves_text_without_secrets_unchanged(text: str) -> None:
    assert redacted(text) == text


def test_redaction_of_a_long_log_takes_linear_time() -> None:
    """A log is up to 64 KiB; patterns that backtrack at every position would take minutes."""
    for piece in (
        "a",
        "token",
        "key=",
        "https://",
        "eyJ",
        "--",
        "[",
        "invalid choice: '",
        "input_value=",
        "'token': [",
        "-----BEGIN KEY-----",
        "a.a-",
    ):
        redacted(piece * (65536 // len(piece)))
