"""Texts that tenants, models and clients may write: pieces of messages that are read, hostile numbers, and secrets."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from string import ascii_letters, digits

FORMS = (
    "OSError: 401 Client Error with hf_{}",
    "'hf_token': '{}', 'max_model_len': 8",
    "non-default args: {{'api_key': ['{0}', 'x{0}'], 'port': 8000}}",
    "--api-key {} --port 8000",
    "['--hf-token', '{}']",
    "--hf-token={}",
    "HF_TOKEN={}",
    "AWS_SECRET_ACCESS_KEY: {}",
    "aws_access_key_id={}",
    '"password": "{} with spaces"',
    '{{\\"password\\": \\"{}\\"}}',
    "token: password: {}",
    "Authorization: Bearer {}",
    "authorization: basic {}",
    "sent Bearer {} to",
    "https://me:{}@registry.example/v2/",
    "https://me:a@{}@registry.example/v2/",
    "https://account.example/c?sv=1&sig={}",
    "https://maps.example/?key={}&v=1",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.{}",
    "-----BEGIN RSA PRIVATE KEY-----\n{}\nabc\n-----END RSA PRIVATE KEY-----",
    "ValueError: invalid literal for int() with base 10: '{}'",
    "argument --seed: invalid int value: 'it\\'s {}'",
    "Invalid value '{}' for VLLM_A. Valid options: ['a']",
    "Illegal header value b'Bearer a {}'",
    "[type=value_error, input_value={{'a': '{}'}}, input_type=dict]",
    "ghp_{}",
)
"""Forms of secrets; the braces stand for the secret."""

WORST = (
    *("a", "\n", "\r", " ", "-", "A", "\x00a", "\x1b[", "\u200ba", "é\x00", "\ud800", "key", "token ", "key="),
    *("key = ", "İkey=", "0123456789abcdef ", "A" * 64 + "\n", "a" * 4000 + "\n", "a\n" * 7 + "b" * 5000 + "\n"),
    *("token=[ ", "--token [ ", "--a--", "-eyJ", "-eyJaaaaaaaa", "hf_", "hf_aaaaaaaa ", "sk-", "ghp_", "AKIA"),
    *("xoxa-", "-----BEGIN ", "-----BEGIN AKEY----- -----END ", "-----END KEY----- ", "authorization "),
    *("authorization:a ", 'key=" ', 'key="\n', "key='\\'", 'key=\\"', "key=[key=[key=[]", "password:\n", "bearer "),
    *("bearer aaaaaaaa ", "input_value=", "input_value=a, input_type=", "https://", "https://a@", "x://a", "a.a-://"),
    *("invalid x value: '", "invalid choice: ", "invalid choice: '", "could not convert string to float: '"),
    "https://a@b eyJ token=[ --token [ bearer aaaaaaaa input_value= invalid choice: ' -----BEGIN KEY----- ",
)
"""Pieces that, repeated, cost each pattern of secrets most."""

NUMBERS = (
    *("0", "7", "57", "4096", "-1", "1.50", "1.2.3", ".", "...", "1e400", "-1e400", "NaN", "+Inf", "-Inf", "1_0", "²"),
    *("٣", "", " ", "9" * 20, "9" * 400, "1" * 5000, "0" * 5000 + ".5", "0x10", "1:2:3", "99:99:99:99", "null", "[]"),
)
"""What may stand where a number is expected."""

_FULL = (
    "the model's max seq len (#), (# GiB KV cache is needed, which is larger than the available KV cache memory"
    " (# GiB). Based on the available memory, the estimated maximum model length is #"
)
_OUT_OF_MEMORY = (
    "CUDA out of memory. Tried to allocate # GiB. GPU # has a total capacity of # GiB of which # GiB is free;"
    " this process has # GiB memory in use"
)
_NO_ROOM = (
    "Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=#."
    " (minimum viable = 1 - available/pre = #)"
)
MESSAGES = (
    "Available KV cache memory: # GiB",
    _FULL,
    "max seq len (#) is larger than the maximum number of tokens that can be stored in KV cache (#)",
    "No available memory for the cache blocks",
    _OUT_OF_MEMORY,
    "in load_model",
    "Free memory on device cuda:0 (#/# GiB) on startup is less than desired GPU memory utilization (#, # GiB)",
    "Loading safetensors checkpoint shards:  #% Completed | 4/7 [02:07<#:#, 31.8s/it]",
    "Loading weights:   #%|#####     | 12/21",
    "User-specified max_model_len (#) is greater than the derived max_model_len (max_position_embeddings=#)",
    "User-specified context_length (#) is greater than the derived context_length (#)",
    _NO_ROOM,
    "invalid device: CUDA#",
    "Total number of attention heads (#) must be divisible by tensor parallel size (#)",
    "unsatisfied condition: cuda>=#",
    "Unknown quantization method: #",
    "wrong GPU: the engine was sized for # x L4 (# GiB); this node gives it #: none",
    "0/# nodes are available: # Insufficient nvidia.com/gpu, # node(s) had untolerated taint {a: #}. preemption: #",
    "exceeded quota: small, requested: pods=#",
    "Member qwen-engine-0-# ended first: exit status #.",
    "group: Rank 0 of # waits for a-0-1, a-0-2",
    "NCCL INFO Using network #",
    "Error: no matching signatures: #",
    '{"adapter":{"commit":"12","size_bytes":#,"facts":{"rank":#,"base":"a","hidden_size":#,"layers":#}}}',
    '{"downloaded":{"commit":"1234","size_bytes":#,"files":#}}',
    '{"error":{"cause":"Gated","field":"hf://a/b","problem":"is \\u001b]0;#\\u0007 gated.","cure":"Set #."}}',
    '{"list":"12","loaded":{"a":"/x"},"failed":{"b":{"since":#,"status":#}}}',
    "# pxname,svname,qcur,scur,stot,addr,\nengines,e1,#,#,#,10.0.0.1:8000,\nengines,BACKEND,#,#,#,,",
    *(
        f'{name}{{model_name="m"}} #'
        for name in (
            *("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"),
            *("vllm:request_success_total", "sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:token_usage"),
            *("sglang:max_total_num_tokens", "llamacpp:requests_processing", "llamacpp:requests_deferred"),
            *("llamacpp:n_decode_total", "transformers:num_requests_running", "transformers:batches_total"),
        )
    ),
    "vllm:num_requests_running #\nvllm:num_requests_waiting #",
    "sglang:num_running_reqs #\nsglang:num_queue_reqs #",
    'vllm:time_to_first_token_seconds_bucket{le="#"} #\nvllm:time_to_first_token_seconds_sum #',
)
"""Messages that are read; `#` stands for a number."""

_NOISE = (
    *("\x1b[31m", "\x1b]0;title\x07", "\x00", "\x9b31m", "\u202e", "\u2028", "\x85", "\ud800", "\ufeff", "🜁", "\t"),
    *('"', "'", "[", "]", "{", "}", "\\", "key=", "token:", 'password="', "--token", "-----", "https://", "@", "…"),
    "a" * 5000,
    "-eyJ" * 40,
    "[hidden]",
)
_RECORDED = Path(__file__).parent.parent / "engines" / "vllm_output"


@dataclass(frozen=True, slots=True)
class UntrustedText:
    """A text, and the secrets in it, each whole and in one of the forms."""

    text: str
    secrets: Sequence[str]


def secret(random: Random) -> str:
    """A secret that no other text has."""
    return "".join(random.choices(ascii_letters + digits, k=24))


def untrusted_texts(seed: int, count: int) -> Iterator[UntrustedText]:
    """So many texts; the same for the same seed."""
    random = Random(seed)  # noqa: S311 - no secret depends on it
    recorded = [path.read_text(encoding="utf-8").splitlines() for path in sorted(_RECORDED.glob("*.txt"))]
    for _ in range(count):
        secrets: list[str] = []
        pieces: list[str] = []
        for _ in range(random.randint(1, 8)):
            kind = random.random()
            if kind < 0.25:
                secrets.append(secret(random))
                pieces.append(random.choice(FORMS).format(secrets[-1]))
            elif kind < 0.7:
                parts = random.choice(MESSAGES).split("#")
                pieces.append("".join(part + random.choice(NUMBERS) for part in parts[:-1]) + parts[-1])
            elif kind < 0.85:
                lines = random.choice(recorded)
                begin = random.randrange(max(1, len(lines)))
                pieces.append("\n".join(lines[begin : begin + random.randint(1, 20)]))
            else:
                pieces.append(random.choice(_NOISE) * random.randint(1, 4))
        yield UntrustedText(random.choice(("\n", " ", "\r", "\n\n")).join(pieces), tuple(secrets))
