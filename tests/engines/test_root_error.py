"""The error that ended an engine: of recorded and quoted logs, and of any text."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from inference_operator.engines.root_error import MAX_TEXT, root_error, stable_line
from inference_operator.engines.tracebacks import MAX_LINES, MAX_PROCESSES, logged_errors, plain_lines
from tests.engines.test_vllm_errors import OUTPUT

OUTER = """\
(APIServer pid=1) Traceback (most recent call last):
(APIServer pid=1)   File "/usr/lib/python3.13/site-packages/vllm/v1/engine/core_client.py", line 682, in __init__
(APIServer pid=1)     with launch_core_engines(
(APIServer pid=1)          ~~~~~~~~~~~~~~~~~~~^
(APIServer pid=1)   File "/usr/lib/python3.13/site-packages/vllm/v1/engine/utils.py", line 1431, in wait_for_engine
(APIServer pid=1)     raise RuntimeError(
(APIServer pid=1)     ...<8 lines>...
(APIServer pid=1)     )
(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""
"""The end of the outermost process of vLLM 0.32.0, as in the recordings."""


def raised(error: str, file: str, statement: str, *, process: str = "EngineCore pid=62") -> str:
    """The log of a process of vLLM 0.32.0 that ends with an error: by its logger, and then by Python."""
    traceback = [
        "Traceback (most recent call last):",
        '  File "/usr/lib/python3.13/site-packages/vllm/v1/engine/core.py", line 1320, in run_engine_core',
        "    engine_core = EngineCoreProc(*args, engine_index=dp_rank, **kwargs)",
        "                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
        f'  File "{file}", line 7, in check',
        f"    {statement}",
        "    ...<2 lines>...",
        "    )",
        *error.split("\n"),
    ]
    logger = f"({process}) ERROR 11-28 23:10:04 [core.py:1345] "
    logged = [f"{logger}{line}" for line in ("EngineCore failed to start.", *traceback)]
    printed = [f"({process}) {line}" for line in (f"Process {process.partition(' ')[0]}:", *traceback)]
    return "\n".join([*logged, *printed, ""])


VLLM = "/usr/lib/python3.13/site-packages/vllm/"

QUOTED: list[tuple[str, str, str]] = [
    # vLLM 0.32.0, vllm/config/kv_transfer.py; no table knows it
    ("ValueError: HiSparseConnector host_pool_gib must be positive.", "config/kv_transfer.py", "raise ValueError("),
    # https://github.com/vllm-project/vllm/issues/31480
    (
        (
            "ValueError: No valid attention backend found for cuda with AttentionSelectorConfig(head_size=576)."
            " Reasons: {FLASHMLA_SPARSE: [compute capability not supported]}."
        ),
        "platforms/cuda.py",
        "raise ValueError(",
    ),
    # https://github.com/vllm-project/vllm/issues/24004
    ("AssertionError: 12 is not divisible by 8", "distributed/utils.py", "numerator, denominator"),
    # vLLM 0.32.0, vllm/v1/spec_decode/draft_model.py
    (
        "ValueError: Target and draft model should have the same vocabulary size. Target model vocab_size=151936.",
        "v1/spec_decode/draft_model.py",
        "raise ValueError(",
    ),
    # vLLM 0.32.0, vllm/config/model.py
    (
        "ValueError: The model type 'gemma3' does not support float16. Reason: Numerical instability.",
        "config/model.py",
        "raise ValueError(",
    ),
    # vLLM 0.32.0, vllm/config/vllm.py
    (
        "ValueError: torch.float16 is not supported for quantization method mxfp4. Supported dtypes: [torch.bfloat16]",
        "config/vllm.py",
        "raise ValueError(",
    ),
    # vLLM 0.32.0, vllm/model_executor/layers/attention/attention.py
    (
        "ValueError: fp8_e5m2 kv-cache is not supported with fp8 checkpoints.",
        "model_executor/layers/attention/attention.py",
        'raise ValueError("fp8_e5m2 kv-cache is not supported with fp8 checkpoints.")',
    ),
    # https://github.com/tenstorrent/tt-xla/pull/5932
    (
        (
            "ValueError: Chunked MM input disabled but max_tokens_per_mm_item (1024) is larger than"
            " max_num_batched_tokens (512). Please increase max_num_batched_tokens."
        ),
        "v1/core/encoder_cache_manager.py",
        "raise ValueError(",
    ),
    # https://github.com/vllm-project/vllm/issues/45784
    (
        "ValueError: Weight input_size_per_partition = 192 is not divisible by weight quantization block_k = 128.",
        "model_executor/layers/quantization/fp8.py",
        "raise ValueError(",
    ),
]
"""Errors of failing starts, with a file of the engine and the statement there."""


@pytest.mark.parametrize(("error", "file", "statement"), QUOTED, ids=[file for _, file, _ in QUOTED])
def test_an_error_of_the_inner_process_is_the_cause_whole_and_without_frames(
    error: str, file: str, statement: str
) -> None:
    end = root_error(raised(error, VLLM + file, statement) + OUTER)
    assert end is not None
    assert end.text == error
    assert end.file == VLLM + file
    assert end.is_decision


RECORDED = {
    "length-beyond-cache": "ValueError: To serve at least one request with the model's max seq len (1048576)",
    "no-room-for-cache": "ValueError: No available memory for the cache blocks.",
    "utilization-beyond-free": "ValueError: Available memory on node 0 (15.42/23.54 GiB) on startup is less than",
    "heads-not-divisible": "ValidationError: 1 validation error for VllmConfig Value error, Total number of attention",
    "broken-config": "OSError: It looks like the config file at '/tmp/…/config.json' is not a valid JSON file.",
    "hub-gated": "OSError: You are trying to access a gated repo.",
    "hub-offline": "LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder",
    "no-such-path": "OSError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/models/nosuch'.",
    "no-tokenizer": "ValueError: Couldn't instantiate the backend tokenizer from one of:",
    "unknown-architecture": "ValidationError: 1 validation error for ModelConfig Value error, Model architectures",
    "no-compiler": "InductorError: InvalidCxxCompiler: No working C++ compiler found in torch._inductor.config.cpp.cxx",
    "unknown-argument": "vllm: error: unrecognized arguments: --nosuch-flag=1",
}
"""How the cause of a recorded failure begins."""


@pytest.mark.parametrize("name", RECORDED)
def test_the_cause_of_a_recorded_failure_is_its_own_error_and_no_consequence_of_it(name: str) -> None:
    end = root_error((OUTPUT / f"{name}.txt").read_text())
    assert end is not None
    assert end.text.startswith(RECORDED[name])


@pytest.mark.parametrize("path", sorted(OUTPUT.glob("*.txt")), ids=lambda path: path.stem)
def test_no_cause_of_a_recording_has_frames_or_marks_or_passes_another_one_on(path: Path) -> None:
    end = root_error(path.read_text())
    assert end is not None
    for word in ("~~", "^^", 'File "', "...<", "root cause", "Traceback", "\n"):
        assert word not in end.text
    assert len(end.text) <= MAX_TEXT


def test_what_only_passes_another_error_on_counts_where_the_log_has_no_other() -> None:
    """The last lines of a log may lack those of the innermost process."""
    relayed = "RuntimeError: Worker failed with error 'no g++', please check the stack trace above for the root cause"
    end = root_error(raised(relayed, f"{VLLM}v1/executor/multiproc_executor.py", "raise RuntimeError(") + OUTER)
    assert end is not None
    assert end.text == relayed
    assert not end.is_decision


def test_an_earlier_error_of_the_server_hides_none_of_the_inner_processes() -> None:
    inner = raised("ValueError: no", f"{VLLM}a.py", "raise ValueError(")
    end = root_error(f"(APIServer pid=1) TimeoutError: it takes long\n{inner}{OUTER}")
    assert end is not None
    assert end.text == "ValueError: no"


LLAMA = """\
0.00.010.200 I load_tensors: loading model tensors, this can take a while... (mmap = true)
0.00.030.100 W llama_context: failed to lock memory
0.00.198.468 E llama_model_load: error loading model: missing tensor 'blk.0.ssm_dt.bias'
0.00.198.470 E llama_model_load_from_file_impl: failed to load model
0.00.198.480 E common_init_from_params: failed to load model '/models/a.gguf'
0.00.198.490 E srv    load_model: failed to load model, '/models/a.gguf'
"""
"""llama.cpp, as in https://github.com/containers/ramalama/issues/2500."""

SGLANG = """\
[2026-11-26 10:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):
  File "/sgl-workspace/sglang/python/sglang/srt/managers/scheduler.py", line 2015, in run_scheduler_process
    scheduler = Scheduler(server_args)
  File "/sgl-workspace/sglang/python/sglang/srt/layers/linear.py", line 618, in divide
    raise ValueError("tp size must divide the heads")
ValueError: tp size must divide the heads

[2026-11-26 10:00:01] Received sigquit from a child process. It usually means the child failed.
Killed
"""
"""The form of https://github.com/Agent-RL/ReCall/issues/43."""

GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "/a/x.py", line 1, in <module>
  |     asyncio.run(main())
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/a/y.py", line 2, in main
    |     raise ValueError("no port")
    | ValueError: no port
    +------------------------------------
"""

CHAIN = """\
Traceback (most recent call last):
  File "/a/x.py", line 1, in read
    open(path)
FileNotFoundError: [Errno 2] No such file or directory: '/models/config.json'

{link}

Traceback (most recent call last):
  File "/a/y.py", line 2, in load
    raise ValueError("no model") from error
ValueError: no model
"""

CASES: dict[str, tuple[str, str]] = {
    "llama-server": (LLAMA, "… E llama_model_load: error loading model: missing tensor 'blk.0.ssm_dt.bias'"),
    "SGLang": (SGLANG, "ValueError: tp size must divide the heads"),
    "an exception group": (GROUP, "ValueError: no port"),
    "an error while another was handled": (
        CHAIN.format(link="During handling of the above exception, another exception occurred:"),
        "ValueError: no model",
    ),
    "an error because of another": (
        CHAIN.format(link="The above exception was the direct cause of the following exception:"),
        "ValueError: no model",
    ),
    "a traceback without its beginning": (
        'n __init__\n    self.a()\n  File "/a/x.py", line 1, in a\n    raise zmq.Again\nzmq.error.Again: busy\n',
        "Again: busy",
    ),
    "only the last line of a traceback": ("    ^^^^^^\njson.decoder.JSONDecodeError: bad\n", "JSONDecodeError: bad"),
    "an error without a message": (
        '  File "/a/x.py", line 1, in a\n    assert a == b\n           ^^^^^^\nAssertionError\n',
        "AssertionError: assert a == b",
    ),
    "a message of several lines": (
        "ValidationError: 1 validation error for X\nfield\n  Input should be 1\n\nunrelated\n",
        "ValidationError: 1 validation error for X field Input should be 1",
    ),
    "C++": (
        (
            "terminate called after throwing an instance of 'std::runtime_error'\n"
            "  what():  done_getting_tensors: wrong number of tensors; expected 255, got 254\n"
        ),
        "runtime_error: done_getting_tensors: wrong number of tensors; expected 255, got 254",
    ),
    "a segmentation fault": (
        (
            "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f0b4c5fe6c0 (most recent call first):\n"
            '  File "/a/x.py", line 3 in f\n  File "/a/x.py", line 9 in g\n\nExtension modules: a, b (total: 2)\n'
        ),
        "Fatal Python error: Segmentation fault",
    ),
    "one of several workers, which fails first": (
        (
            "(Worker_TP1 pid=8) ValueError: rank 1 is wrong\n"
            "(Worker_TP0 pid=7) RuntimeError: peer closed the connection\n"
            "(EngineCore pid=2) RuntimeError: Worker proc died unexpectedly\n(APIServer pid=1) SystemExit: 1\n"
        ),
        "ValueError: rank 1 is wrong",
    ),
    "the server, before it stops the others": (
        (
            "(APIServer pid=1) OSError: [Errno 98] Address already in use\n(EngineCore pid=2) KeyboardInterrupt\n"
            "(EngineCore pid=2) ValueError: shutting down\n"
        ),
        "OSError: [Errno 98] Address already in use",
    ),
    "an earlier form of vLLM's prefix": ("(VllmWorker rank=0 pid=7701) ValueError: no\n", "ValueError: no"),
    "Ray's prefix": (
        "(RayWorkerProc pid=123, ip=10.0.0.1) ValueError: no\nException: See stack trace\n",
        "ValueError: no",
    ),
    "torchrun's prefix": ("[rank1]: Traceback (most recent call last):\n[rank1]: ValueError: no\n", "ValueError: no"),
    "what a warning quotes": (
        "ValueError: no\n(EngineCore pid=2) WARNING 11-28 23:10:04 [core.py:1] KeyError: 'survived'\n",
        "ValueError: no",
    ),
    "colours and control characters": ("\x1b[31mValueError: n\x07o\x1b[0m \u202eevil\n", "ValueError: no evil"),
    "no error at all": ("one\n\ntwo\nthree\nfour\n", "two three four"),
    "only what is no error": (
        "(APIServer pid=1) WARNING 11-28 23:10:04 [a.py:1] Failed to raise a limit\nINFO:     Waiting for startup.\n",
        "(APIServer pid=…) WARNING … [a.py:1] Failed to raise a limit INFO: Waiting for startup.",
    ),
    "a kill by the kernel": ("loading\nKilled\n", "Killed"),
    "HAProxy": (
        (
            "[NOTICE]   (1) : haproxy version is 3.2.26\n"
            "[ALERT]    (1) : config : parsing [/x.cfg:3] : unknown keyword 'a'\n"
            "[ALERT]    (1) : config : Fatal errors found in configuration.\n"
        ),
        "[ALERT] (1) : config : parsing [/x.cfg:3] : unknown keyword 'a'",
    ),
}
"""Ends of processes by what they show, and the cause."""


@pytest.mark.parametrize("name", CASES)
def test_the_cause_of_an_end(name: str) -> None:
    log, text = CASES[name]
    end = root_error(log)
    assert end is not None
    assert end.text == text


@pytest.mark.parametrize("log", ["", "\n", " \n\r\n"])
def test_a_log_without_words_has_no_cause(log: str) -> None:
    assert root_error(log) is None


def test_an_error_that_repeats_has_one_text_whatever_its_process_time_and_place() -> None:
    def log(number: int) -> str:
        return (
            f"(Worker pid={number}) ERROR 11-28 23:{number}:04 [worker.py:1] ValueError: process {number} at"
            f" 10.1.2.{number}:5{number}34 (object at 0x7f{number}ab12) tcp://node-a:5{number}34 /tmp/tmp{number}x/a"
            f" took {number}.25 s of 30 s, 2026-11-28T23:{number}:04.5Z\n"
        )

    first, second = root_error(log(11)), root_error(log(47))
    assert first == second
    assert first is not None
    assert "30 s" in first.text


def test_what_is_neither_raised_nor_about_the_configuration_is_no_decision() -> None:
    call = root_error(raised("RuntimeError: CUDA error: invalid argument", f"{VLLM}_custom_ops.py", "torch.ops.f(a)"))
    missing = root_error(raised("KeyError: 'layers.0'", f"{VLLM}models/llama.py", "param = params_dict[name]"))
    late = root_error(raised("TimeoutError: no answer", f"{VLLM}v1/engine/core.py", "raise TimeoutError("))
    full = root_error(raised("torch.OutOfMemoryError: no", f"{VLLM}v1/worker/gpu_worker.py", "raise OutOfMemoryError"))
    other = root_error(
        raised("ValueError: of a thread", f"{VLLM}v1/executor/multiproc_executor.py", "raise e from None")
    )
    assert [one and one.is_decision for one in (call, missing, late, full, other)] == [False] * 5


def test_secrets_are_hidden_before_a_message_is_cut_off() -> None:
    end = root_error(f"ValueError: {'x' * (MAX_TEXT - 30)} token=correct-horse-battery-staple\n")
    assert end is not None
    assert "correct" not in end.text
    assert "token=[hidden]" in end.text


PIECES = st.sampled_from(
    [
        "Traceback (most recent call last):",
        '  File "/usr/lib/python3.13/site-packages/vllm/a.py", line 1, in f',
        "    raise ValueError(",
        "ValueError: no",
        "(Worker_TP0 pid=7) ",
        "(EngineCore pid=6) ERROR 11-28 23:10:04 [core.py:1] ",
        "RuntimeError: See root cause above.",
        "  | ",
        "    ...<2 lines>...",
        "Fatal Python error: x",
        "\n",
        "\r",
        "\x1b[31m",
        "token=abc",
    ]
)


@given(log=st.lists(PIECES | st.text(max_size=20), max_size=40).map("".join))
@example(log="\x85ValueError: a\x1b]0;t\x07")
def test_the_cause_of_any_text_is_one_bounded_line_without_control_characters(log: str) -> None:
    end = root_error(log)
    if end is None:
        return
    assert 0 < len(end.text) <= MAX_TEXT
    assert end.text.isprintable() or not any(ord(letter) < 0x20 or 0x7F <= ord(letter) < 0xA0 for letter in end.text)
    assert "\n" not in end.text
    assert stable_line(end.text) == end.text


@given(log=st.text(max_size=400))
def test_no_line_and_no_error_is_lost_or_made_up(log: str) -> None:
    assert len(list(plain_lines(log))) == log.count("\n") + 1
    assert len(logged_errors(log)) <= log.count("\n") + 1


SIZE = 256 * 1024
HOSTILE = (
    "a",
    "(",
    "\n",
    "(Worker pid=7) ",
    "A.",
    "ValueError: ",
    "ValueError: a\n",
    '  File "',
    '  File "a", line 1\n',
    "  | ",
    "+-",
    "[2026-11-26 10:00:00 ",
    "E1128 10:00:00 ",
    "\x1b[",
    "0x",
    "1.",
    "/tmp/",  # noqa: S108 - no file is opened
    "port ",
    "cannot \n",
    "~^ ",
)


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_logs_of_the_largest_size_are_read(piece: str) -> None:
    """A pattern that is not linear would not end here within the time limit of a test."""
    end = root_error(piece * (SIZE // len(piece)))
    assert end is None or len(end.text) <= MAX_TEXT


def test_the_number_of_processes_and_of_lines_of_an_error_is_bounded() -> None:
    errors = logged_errors("".join(f"(P pid={number}) ValueError: {number}\n" for number in range(1000)))
    assert len({error.key for error in errors}) <= MAX_PROCESSES + 1
    (long,) = logged_errors("ValueError: a\n" + "b\n" * 1000)
    assert len(long.lines) == MAX_LINES
