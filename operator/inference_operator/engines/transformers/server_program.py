"""Runs `transformers serve` for one model; it is the main process of the engine's container.

Arguments: MODEL name=NAME... revision=REVISION context=TOKENS sequences=NUMBER cache=BYTES batch=TOKENS idle=SECONDS
folder=FOLDER [key=FILE] -- OPTION...: the model's folder or repository, the served names, the limits of continuous
batching (0: the model's context, or the library's own share of memory), the file with the key of the routers, and
options of `transformers serve`.

The command alone (transformers 5.19.0, `cli/serving`) is not fit to be a server behind a load balancer:

1. It answers /health before it can compute, and the first request waits for the batching worker. Here it listens when
   a first request of its own is answered.
2. It accepts the model's path as the only name. Here it accepts the served names, and answers with the first.
3. With continuous batching it gives all requests the sampling parameters of the first one. Here each has its own.
4. It computes as long as a request says. Here prompt and answer together have at most `context` tokens.
5. It identifies a request by a header that its client writes, and mixes up the answers to two with the same. Here each
   has an identity of its own.
6. It has routes that load other models or unload this one, and fetches what a request names by URL or by path. Here
   these routes are absent, and a model that reads more than text is refused.
7. It closes idle connections after 5 s, perhaps just when a router sends a request. Here it keeps them `idle` seconds.
8. It listens on IPv6 alone where it should listen on `::`. Here on IPv4 as well.
9. It has no metrics. Here /metrics has the open requests and the computed batches.
10. It ends a stream without the mark `[DONE]`, so that clients cannot tell a whole answer from a broken one. Here
    each complete stream has it.
11. Its errors have a form of their own. Here they have that of the OpenAI API.
12. While it loads, it ignores SIGTERM, as the first process of a container does. Here it ends.
13. It asks for no key. Here it does with `key`, by the middleware of `engine_key_program.py`.
"""

import copy
import json
import logging
import os
import signal
import socket
import sys
import traceback
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from http import HTTPStatus
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

Any_: TypeAlias = Any
"""A type of a library that is only in the engine's image."""

PAGE_TOKENS = 256
"""Tokens of a page of the KV cache."""
ABSENT_ROUTES = frozenset({"/load_model", "/reset", "/v1/models", "/v1/audio/transcriptions"})
PROMETHEUS = "text/plain; version=0.0.4"
"""The media type of Prometheus' text format."""
STREAMS = frozenset({"/v1/completions", "/v1/chat/completions"})
"""Paths whose streams have an end mark in the OpenAI API."""
FILES = ("*.json", "*.safetensors", "*.model", "*.txt", "*.jinja")
"""Files of a repository that are downloaded: no code, and no weights in other formats."""
GREEDY = 1e-5
"""The temperature that stands for 0. It leaves only the most probable token."""
NEUTRAL = 1.0 - 1e-6
"""Temperature and top_p that change nothing. For 1.0 the library makes no processor, and no request could set one."""
MOST_TEMPERATURE = 2.0
UNKNOWN_CONTEXT = 4096
"""Tokens of a request, if the model's configuration does not tell."""
ONLY_TEXT = "this server is for models that read only text, and this one is of the kind"
"""Begins the error of another model."""

PROGRAMS = "INFERENCE_OPERATOR_PROGRAMS"
"""Variable with the programs of this pod; with a key the program that asks for it is among them."""

_SAMPLING: ContextVar[dict[str, float]] = ContextVar("sampling")
"""The sampling parameters of the request that is being added to the batches."""


def say(text: str) -> None:
    """Write a line to the container's log."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class Metrics:
    """The open requests and the batches since the start, as ASGI middleware and as a hook of the model."""

    def __init__(self) -> None:
        self.running, self.batches = 0, 0

    def count_batch(self, *_: object) -> None:
        """Count a forward pass of the model."""
        self.batches += 1

    def counting(self, app: Any_) -> Callable[..., Any_]:
        """The application, with its requests counted until their answers are complete."""

        async def counted(scope: Any_, receive: Any_, send: Any_) -> None:
            counts = int(scope["type"] == "http" and scope["method"] == "POST")
            marked = with_end_mark(send) if scope.get("path") in STREAMS else send
            self.running += counts
            try:
                await app(scope, receive, marked)
            finally:
                self.running -= counts

        return counted

    @property
    def page(self) -> str:
        """The page of metrics, in Prometheus' text format."""
        return (
            f"# TYPE transformers:num_requests_running gauge\ntransformers:num_requests_running {self.running}\n"
            f"# TYPE transformers:batches_total counter\ntransformers:batches_total {self.batches}\n"
        )


METRICS = Metrics()


def with_end_mark(send: Any_) -> Any_:
    """The function that sends an answer, with the mark at the end of a complete stream."""
    is_stream = False

    async def marked(message: Any_) -> None:
        nonlocal is_stream
        if message["type"] == "http.response.start":
            is_stream = any(
                name == b"content-type" and value.startswith(b"text/event-stream") for name, value in message["headers"]
            )
        elif is_stream and message["type"] == "http.response.body" and not message.get("more_body"):
            message = {**message, "body": message.get("body", b"") + b"data: [DONE]\n\n"}
        await send(message)

    return marked


def local_model(model: str, revision: str) -> Path:
    """The folder of the model; one of a hub is downloaded first, unless its cache has it."""
    if model.startswith("/"):
        return Path(model)
    from huggingface_hub import snapshot_download  # noqa: PLC0415 - only the image has it

    say(f"Downloading {model}")
    return Path(snapshot_download(model, revision=revision or None, allow_patterns=list(FILES)))


def refused(status: HTTPStatus, why: str) -> Exception:
    """The exception that answers a request with an error."""
    from fastapi import HTTPException  # noqa: PLC0415 - only the image has it

    error: Exception = HTTPException(status, why)
    return error


def limit_answer(model: Any_, inputs: Any_, config: Any_, most: int) -> None:
    """Limit the answer, so that the request has at most so many tokens; refuse a prompt that has as many."""
    ids = inputs["input_ids"]
    context = most or getattr(model.config.get_text_config(), "max_position_embeddings", UNKNOWN_CONTEXT)
    prompt = ids.shape[-1] if hasattr(ids, "shape") else len(ids)
    if prompt >= context:
        why = f"The prompt has {prompt} tokens, and prompt and answer together may have {context}."
        raise refused(HTTPStatus.BAD_REQUEST, why)
    config.max_new_tokens = max(1, min(config.max_new_tokens or context, context - prompt))


def block_bytes(model: Any_) -> int:
    """Bytes of a page of the KV cache for all layers."""
    from transformers.generation.continuous_batching import cache  # noqa: PLC0415 - only the image has it

    config = model.config.get_text_config()
    shape = cache.find_num_key_value_heads(config), cache.find_head_dim(config), model.dtype, PAGE_TOKENS
    return int(config.num_hidden_layers * cache.FullAttentionCacheAllocator.get_bytes_per_page(*shape))


def sampling_of(config: Any_) -> dict[str, float]:
    """The sampling parameters of one request, for continuous batching."""
    if not config.do_sample:
        return {"temperature": GREEDY, "top_p": NEUTRAL}
    temperature = 1.0 if config.temperature is None else float(config.temperature)
    top_p = 1.0 if config.top_p is None else float(config.top_p)
    return {"temperature": max(GREEDY, temperature), "top_p": min(NEUTRAL, top_p)}


def limited(base: Any_, context: int) -> Any_:
    """The class that generates, with requests that have a limited answer and an identity of their own."""

    def own_options(model: Any_, inputs: Any_, config: Any_, rest: dict[str, Any_]) -> dict[str, Any_]:
        limit_answer(model, inputs, config, context)
        _SAMPLING.set(sampling_of(config))
        return {**rest, "request_id": str(uuid.uuid4())}

    class Limited(base):  # type: ignore[misc]
        def generate_streaming(self, model: Any_, tokens: Any_, inputs: Any_, config: Any_, **rest: Any_) -> Any_:
            own = own_options(model, inputs, config, rest)
            return super().generate_streaming(model, tokens, inputs, config, **own)

        def generate_non_streaming(self, model: Any_, tokens: Any_, inputs: Any_, config: Any_, **rest: Any_) -> Any_:
            own = own_options(model, inputs, config, rest)
            return super().generate_non_streaming(model, tokens, inputs, config, **own)

    return Limited


def batched(base: Any_, options: dict[str, str]) -> Any_:
    """The class of continuous batching, with the limits of the arguments and sampling parameters of each request."""
    from transformers import ContinuousBatchingConfig  # noqa: PLC0415 - only the image has it

    cache = int(options["cache"])

    class Batched(base):  # type: ignore[misc]
        def init_cb(self, model: Any_, config: Any_) -> None:
            if self._cb is not None:
                return
            shared = copy.deepcopy(config)
            shared.do_sample, shared.temperature, shared.top_p = True, NEUTRAL, NEUTRAL
            self._cb_config = ContinuousBatchingConfig(
                page_size=PAGE_TOKENS,
                num_blocks=max(1, cache // block_bytes(model)) if cache else None,
                max_batch_tokens=int(options["batch"]),
                max_requests_per_batch=int(options["sequences"]),
                per_request_processors=True,
                auto_switch_to_flash=False,  # it downloads a kernel, which is code
            )
            super().init_cb(model, shared)
            batches: Any_ = self._cb
            add_request = batches.add_request
            batches.add_request = lambda *args, **rest: add_request(*args, **rest, **_SAMPLING.get())

    return Batched


def lazy_top_p(base: Any_) -> Any_:
    """The class of nucleus sampling, which sorts the vocabulary only where a request asks for it."""

    class TopP(base):  # type: ignore[misc]
        def __call__(self, scores: Any_, arguments: Any_) -> Any_:
            import torch  # noqa: PLC0415 - only the image has it

            asked = arguments[: scores.size(0)].view(dtype=torch.float32)
            return super().__call__(scores, arguments) if bool((asked < NEUTRAL).any()) else scores

    return TopP


def install_generation(options: dict[str, str]) -> None:
    """Put the rules 3 to 5 into the classes that generate."""
    from transformers.cli.serving import utils  # noqa: PLC0415 - only the image has it
    from transformers.generation.continuous_batching import cb_logits_processors as processors  # noqa: PLC0415

    context = int(options["context"])
    utils.GenerateManager = limited(utils.GenerateManager, context)
    utils.CBGenerateManager = batched(limited(utils.CBGenerateManager, context), options)
    own = lazy_top_p(processors.ContinuousBatchingTopPLogitsWarper)
    processors.CLASSIC_TO_CB_PROCESSORS_MAP[processors.TopPLogitsWarper] = own


def install_requests(names: list[str]) -> None:
    """Put the rules 2, 3 and 6 into the class that reads requests."""
    from transformers.cli.serving.utils import BaseHandler, Modality  # noqa: PLC0415 - only the image has it

    resolve, build = BaseHandler._resolve_model, BaseHandler._build_generation_config  # noqa: SLF001 - none is public
    counted: list[object] = []

    def with_names(self: Any_, body: dict[str, Any_]) -> Any_:
        if (body.get("model") or names[0]) not in names:
            raise refused(HTTPStatus.NOT_FOUND, f"There is no such model; this server has `{names[0]}`.")
        _, model, processor = resolve(self, {**body, "model": self.model_manager.force_model})
        if not counted:
            kind = self.model_manager.get_model_modality(model, processor=processor)
            if kind is not Modality.LLM:
                raise ValueError(f"{ONLY_TEXT} `{kind.value}`")
            counted.append(model.register_forward_pre_hook(METRICS.count_batch))
        return names[0], model, processor

    def with_own_sampling(self: Any_, body: dict[str, Any_], *args: Any_, **rest: Any_) -> Any_:
        config = build(self, {**body, "generation_config": None}, *args, **rest)
        asked = body.get("temperature")
        if asked is not None:
            if not 0 <= float(asked) <= MOST_TEMPERATURE:
                raise refused(HTTPStatus.BAD_REQUEST, f"`temperature` must be from 0 to {MOST_TEMPERATURE:.0f}.")
            config.do_sample = float(asked) > 0
        return config

    BaseHandler._resolve_model, BaseHandler._build_generation_config = with_names, with_own_sampling  # noqa: SLF001


def keyed(app: Any_, file: str) -> Any_:
    """The application, which asks for the key in this file; unchanged without one."""
    source = json.loads(os.environ.pop(PROGRAMS, "{}")).get("engine_key")
    if not file:
        return app
    found = ModuleType("engine_key")
    exec(source, found.__dict__)  # noqa: S102 - a program of the operator, as this one is
    return found.EngineKey(app, file)


def install_server(name: str, idle: int, key_file: str) -> None:
    """Put the rules 1, 6 to 11 and 13 into the library that the command starts the server with."""
    import uvicorn  # noqa: PLC0415 - only the image has it
    from starlette.exceptions import HTTPException  # noqa: PLC0415
    from starlette.responses import PlainTextResponse  # noqa: PLC0415

    class Config(uvicorn.Config):  # type: ignore[misc]
        def __init__(self, app: Any_, **options: Any_) -> None:
            app.router.routes[:] = [one for one in app.router.routes if one.path not in ABSENT_ROUTES]
            app.add_route("/metrics", lambda _: PlainTextResponse(METRICS.page, media_type=PROMETHEUS))
            app.add_exception_handler(HTTPException, api_error)
            app.router.lifespan_context = warmed_up(app, name, app.router.lifespan_context)
            super().__init__(
                keyed(METRICS.counting(app), key_file), **options, timeout_keep_alive=idle, access_log=False
            )

    class Server(uvicorn.Server):  # type: ignore[misc]
        def run(self, sockets: Any_ = None) -> None:
            super().run(sockets or [bound(self.config.host, self.config.port)])

    uvicorn.Config, uvicorn.Server = Config, Server


async def api_error(_: object, error: Any_) -> Any_:
    """The answer to a request that is refused, in the form of the OpenAI API."""
    from starlette.responses import JSONResponse  # noqa: PLC0415 - only the image has it

    code = HTTPStatus(error.status_code).name.lower()
    said = {"message": str(error.detail), "type": "invalid_request_error", "param": None, "code": code}
    return JSONResponse({"error": said}, status_code=error.status_code)


def bound(host: str, port: int) -> socket.socket:
    """A socket at this address, for IPv4 too if it is one of IPv6. It listens once the server serves with it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    made.bind((host, port))
    return made


def warmed_up(app: Any_, name: str, lifespan: Callable[[Any_], Any_]) -> Callable[[Any_], Any_]:
    """The server's lifespan with a first request, which must be answered before the server listens."""

    @asynccontextmanager
    async def with_first_request(_: Any_) -> AsyncIterator[None]:
        import httpx  # noqa: PLC0415 - only the image has it

        say("Warming up")
        within = httpx.ASGITransport(app)  # no network, and so no limit of time but the startup probe's
        async with httpx.AsyncClient(transport=within, base_url="http://engine", timeout=None) as own:  # noqa: S113
            body = {"model": name, "prompt": "1", "max_tokens": 1}
            answer = await own.post("/v1/completions", json=body)
        if answer.status_code != HTTPStatus.OK:
            raise RuntimeError(f"the first request was answered with {answer.status_code}: {answer.text[:500]}")
        async with lifespan(app):
            say("Ready")
            yield

    return with_first_request


def end(code: int) -> None:
    """End this process, whose threads would go on for ever."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def serve(arguments: list[str]) -> None:
    """Run the command with these arguments, until SIGTERM and the last answer."""
    from transformers.cli.serve import Serve  # noqa: PLC0415 - only the image has it
    from typer import Typer  # noqa: PLC0415

    logging.getLogger("transformers").setLevel(logging.ERROR)
    command = Typer(add_completion=False)
    command.command()(Serve)
    command(arguments, standalone_mode=False)


def main() -> None:
    """Prepare the model, and serve it."""
    signal.signal(signal.SIGTERM, lambda *_: end(0))  # until the server has a handler of its own, and after its end
    at = sys.argv.index("--")
    pairs = [word.split("=", 1) for word in sys.argv[2:at]]
    names, options = [value for key, value in pairs if key == "name"], dict(pairs)
    code = 1
    try:
        link = Path(options["folder"]) / "model"
        link.unlink(missing_ok=True)
        link.symlink_to(local_model(sys.argv[1], options["revision"]))
        say("Loading the weights")
        install_generation(options)
        install_requests(names)
        install_server(names[0], int(options["idle"]), options.get("key", ""))
        serve([str(link), *sys.argv[at + 1 :]])
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except Exception:  # noqa: BLE001 - the log must say why, and threads of the library must not keep the process
        traceback.print_exc()
    end(code)


if __name__ == "__main__":
    main()
