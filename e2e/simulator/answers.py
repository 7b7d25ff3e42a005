"""The JSON of answers, in the form of vLLM 0.32; `recorded.json` is what it is compared with."""

import json
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from e2e.simulator.engine import Token

FINGERPRINT = "simulator"
END = b"data: [DONE]\n\n"
_NO_TRANSFER = dict.fromkeys(("kv_transfer_params", "ec_transfer_params", "metrics"))


@dataclass(frozen=True, slots=True)
class Answers:
    """The answer to one request, whole or in chunks.

    Args:
        model: the name that the client used.
        chat: whether it is a chat completion.
        prompt: tokens of the prompt.
        tool: the function that the answer calls, without arguments; None for text.
    """

    model: str
    chat: bool
    prompt: int
    tool: str | None = None
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:16])
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, tokens: Sequence[Token], echo: str = "") -> dict[str, Any]:
        """The answer that is not streamed."""
        text, reason = echo + "".join(token.text for token in tokens), tokens[-1].finish_reason
        end = {"logprobs": None, "finish_reason": reason, "stop_reason": None, "token_ids": None}
        details = dict.fromkeys(("prompt_tokens_details", "completion_tokens_details"))
        rest = {
            "system_fingerprint": FINGERPRINT,
            "service_tier": None,
            "usage": {**self._usage(len(tokens)), **details},
        }
        if not self.chat:
            prompt = dict.fromkeys(("prompt_logprobs", "prompt_token_ids", "routed_experts"))
            return {**self._head("text_completion", {"text": text, **end, **prompt}), **rest, **_NO_TRANSFER}
        message: dict[str, Any] = {"role": "assistant", "content": text}
        message |= dict.fromkeys(("refusal", "annotations", "audio", "function_call", "reasoning"))
        if self.tool:
            message |= {"content": None, "tool_calls": [self._call()]}
            end["finish_reason"] = "tool_calls"
        prompt = dict.fromkeys(("prompt_logprobs", "prompt_token_ids", "prompt_text"))
        head = self._head("chat.completion", {"message": message, **end, "routed_experts": None})
        return {**head, **rest, **prompt, **_NO_TRANSFER}

    def opening(self) -> bytes:
        """What comes before the first token: a chat completion's chunk with the role."""
        if not self.chat:
            return b""
        delta = {"delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
        return _event({**self._head("chat.completion.chunk", delta), "prompt_token_ids": None, "prompt_text": None})

    def chunk(self, token: Token) -> bytes:
        """The chunk of one token."""
        if not self.chat:
            end = {"finish_reason": token.finish_reason, "stop_reason": None}
            ids = dict.fromkeys(("prompt_token_ids", "token_ids"))
            return _event(self._head("text_completion", {"text": token.text, "logprobs": None, **end, **ids}))
        delta: dict[str, Any] = {"content": token.text}
        reason = token.finish_reason
        if self.tool:
            delta = {"tool_calls": [{"index": 0, **self._call()}]} if reason else {}
            reason = reason and "tool_calls"
        choice = {"delta": delta, "logprobs": None, "finish_reason": reason, "token_ids": None}
        choice |= {"stop_reason": None} if reason else {}
        return _event(self._head("chat.completion.chunk", choice))

    def usage(self, tokens: int) -> bytes:
        """The chunk that `stream_options.include_usage` asks for."""
        head = self._head("chat.completion.chunk" if self.chat else "text_completion", None)
        return _event({**head, "usage": self._usage(tokens), "system_fingerprint": FINGERPRINT})

    def _head(self, kind: str, choice: dict[str, Any] | None) -> dict[str, Any]:
        name = f"{'chatcmpl' if self.chat else 'cmpl'}-{self.id}"
        choices = [] if choice is None else [{"index": 0, **choice}]
        return {"id": name, "object": kind, "created": self.created, "model": self.model, "choices": choices}

    def _usage(self, tokens: int) -> dict[str, Any]:
        return {"prompt_tokens": self.prompt, "total_tokens": self.prompt + tokens, "completion_tokens": tokens}

    def _call(self) -> dict[str, Any]:
        return {"id": f"call-{self.id}", "type": "function", "function": {"name": self.tool, "arguments": "{}"}}


def models(names: Sequence[str], max_model_len: int, created: int) -> dict[str, Any]:
    """The answer of `/v1/models`."""
    refused = dict.fromkeys(("allow_create_engine", "allow_search_indices", "allow_fine_tuning", "is_blocking"), False)
    allowed = dict.fromkeys(("allow_sampling", "allow_logprobs", "allow_view"), True)
    permission = {"id": "modelperm-simulator", "object": "model_permission", "created": created}
    permission |= {**refused, **allowed, "organization": "*", "group": None}
    model = {"object": "model", "created": created, "owned_by": "vllm", "root": names[0], "parent": None}
    model |= {"max_model_len": max_model_len, "permission": [permission]}
    return {"object": "list", "data": [{"id": name, **model} for name in names]}


def _event(value: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(value, separators=(',', ':'))}\n\n".encode()
