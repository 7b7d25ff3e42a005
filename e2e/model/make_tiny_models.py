"""Make one tiny model of each kind that vLLM serves in its own way, and what transformers answers with it.

Runs inside the engine image: make_tiny_models.py FOLDER. FOLDER gets a folder for each model, in the form of a hub
repository, and `expected.json`. All weights are random with a fixed seed, except those of `Qwen3-tiny-Thinking`:

- `decoder`, `mixture` (of experts), `awq` (4-bit weights): a question whose first word leads by far, and that word.
- `neo` (GPT-Neo, which vLLM does not know): a question and its answer.
- `vision` (Idefics3): the number of tokens of an image.
- `embedding` (BERT with the files of sentence-transformers): texts and their vectors.
- `reranker` (RoBERTa with one output): a query and documents, from the highest score to the lowest.
- `Qwen3-tiny-Thinking` says the same sentence to everything: a thought and a call of a tool.
"""

# torch and its kind are in the engine's image, not in the environment that checks this file:
# mypy: disable-error-code="import-not-found, untyped-decorator, no-any-return"

import argparse
import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from make_tiny_llama import ANSWER_TOKENS, CHAT_TEMPLATE, CONTEXT_TOKENS, OUTPUT_SCALE, SEED, WORDS, llama, tokenizer
from safetensors.torch import save_file
from tokenizers import AddedToken
from transformers import (
    BertConfig,
    BertModel,
    GPTNeoConfig,
    GPTNeoForCausalLM,
    Idefics3Config,
    Idefics3ForConditionalGeneration,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
    XLMRobertaConfig,
    XLMRobertaForSequenceClassification,
)

PROBES = tuple(f"Tell me about {word}" for word in WORDS.split())
MIN_LEAD = 0.05
"""Least lead of the expected word, as a share of its logit: bfloat16 has 8 bits, so a sum errs by less than 2 %."""
BITS, GROUP = 4, 32
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
"""Which of eight columns is at each place of a 32-bit word (AutoAWQ 0.2, `awq/utils/packing_utils.py`)."""
IMAGE_PIXELS, PATCH_PIXELS, MERGED = 56, 14, 2
"""Sides of an image and of a patch, and patches along each side that become one token."""
IMAGE_MARKS = ("<fake_token_around_image>", "<global-img>", "<end_of_utterance>")
IMAGE, THINK, THOUGHT, CALL, CALLED = "<image>", "<think>", "</think>", "<tool_call>", "</tool_call>"
SEPARATE = 1024
"""More directions than tokens."""
START, THOUGHTS = "<start>", "otter"
CALL_TEXT = '{"name": "get_weather", "arguments": {"city": "Oslo"}}'
VISION_TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }}: {% for part in m['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}{% endfor %}\n{% endfor %}assistant:"
)
TEXT = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": CONTEXT_TOKENS,
    "initializer_range": 0.2,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
    "tie_word_embeddings": False,
}
ENCODER = {
    "hidden_size": 128,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "initializer_range": 0.2,
    "max_position_embeddings": 514,
    "pad_token_id": 2,
    "bos_token_id": 0,
    "eos_token_id": 1,
}
QUERY = "copper coast"
DOCUMENTS = ("amber anchor", "river robin rose", "winter wind", "moss mountain meadow")


def only_words(model: Any, tokens: PreTrainedTokenizerFast) -> Any:  # noqa: ANN401 - torch's classes
    """The model, whose output is a word: the output rows of other tokens are zero."""
    rows = torch.zeros(model.lm_head.weight.shape[0], 1)
    rows[[tokens.encode(f" {word}")[0] for word in WORDS.split()]] = OUTPUT_SCALE
    with torch.no_grad():
        model.lm_head.weight.mul_(rows)
    return model.eval()


@torch.inference_mode()
def first_word(model: Any, tokens: PreTrainedTokenizerFast) -> dict[str, str]:  # noqa: ANN401
    """The question whose first word leads by most, and that word."""
    leads: list[tuple[float, str, str]] = []
    for probe in PROBES:
        best = model(torch.tensor([tokens.encode(probe)])).logits[0, -1].topk(2)
        lead = float((best.values[0] - best.values[1]) / best.values[0])
        leads.append((lead, probe, tokens.decode([int(best.indices[0])])))
    lead, probe, word = max(leads)
    if lead < MIN_LEAD:
        raise SystemExit(f"the first words are too close: the largest lead is {lead:.3f}")
    return {"prompt": probe, "word": word}


def decoder(folder: Path) -> dict[str, str]:
    """A Llama."""
    tokens = tokenizer()
    model = _llama(tokens).to(torch.bfloat16)
    model.save_pretrained(folder)
    tokens.save_pretrained(folder)
    return first_word(model.float(), tokens)


def mixture(folder: Path) -> dict[str, str]:
    """A mixture of 8 experts, 2 of which compute a token."""
    tokens = tokenizer()
    experts = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "decoder_sparse_step": 1}
    torch.manual_seed(SEED)
    model = only_words(Qwen3MoeForCausalLM(Qwen3MoeConfig(vocab_size=len(tokens), **experts, **TEXT)), tokens)
    model.to(torch.bfloat16).save_pretrained(folder)
    tokens.save_pretrained(folder)
    return first_word(model.float(), tokens)


def awq(folder: Path) -> dict[str, str]:
    """A Llama whose linear layers have 4-bit weights in the format of AutoAWQ."""
    tokens = tokenizer()
    model = _llama(tokens).to(torch.float16)
    state = model.state_dict()
    for name, layer in model.model.named_modules():
        if isinstance(layer, torch.nn.Linear):
            tensors, rounded = packed(layer.weight.detach().float())
            del state[f"model.{name}.weight"]
            state |= {f"model.{name}.{part}": value for part, value in tensors.items()}
            layer.weight.data = rounded.to(torch.float16)
    folder.mkdir()
    save_file(
        {name: value.contiguous() for name, value in state.items()}, folder / "model.safetensors", {"format": "pt"}
    )
    method = {"quant_method": "awq", "bits": BITS, "group_size": GROUP, "zero_point": True, "version": "gemm"}
    config = {**model.config.to_dict(), "architectures": ["LlamaForCausalLM"], "dtype": "float16"}
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": method}))
    tokens.save_pretrained(folder)
    return first_word(model.float(), tokens)


def packed(weight: torch.Tensor) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """The tensors of a layer in AWQ's format, and the weight that they stand for; `weight` is [out, in]."""
    groups = weight.t().reshape(-1, GROUP, weight.shape[0])  # [groups, GROUP, out]
    low, high = groups.amin(1, keepdim=True), groups.amax(1, keepdim=True)
    scales = ((high - low) / (2**BITS - 1)).half().float()
    zeros = (-low / scales).round().clamp(0, 2**BITS - 1)
    values = (groups / scales + zeros).round().clamp(0, 2**BITS - 1)
    rounded = ((values - zeros) * scales).reshape(-1, weight.shape[0]).t()
    tensors = {
        "qweight": _words(values.reshape(-1, weight.shape[0])),
        "qzeros": _words(zeros.squeeze(1)),
        "scales": scales.squeeze(1).half(),
    }
    return tensors, rounded


def _words(values: torch.Tensor) -> torch.Tensor:
    """Eight 4-bit columns in each 32-bit word."""
    columns = values.to(torch.int64).reshape(values.shape[0], -1, len(AWQ_ORDER))
    words = sum(columns[:, :, column] << (BITS * place) for place, column in enumerate(AWQ_ORDER))
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)


@torch.inference_mode()
def neo(folder: Path) -> dict[str, str]:
    """A GPT-Neo; returns what `generate` answers."""
    tokens = tokenizer()
    sizes = {"hidden_size": 128, "intermediate_size": 256, "num_layers": 2, "num_heads": 4, "initializer_range": 0.2}
    marks = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
    kinds = [[["global", "local"], 1]]
    torch.manual_seed(SEED)
    model = GPTNeoForCausalLM(
        GPTNeoConfig(
            vocab_size=len(tokens),
            attention_types=kinds,
            max_position_embeddings=CONTEXT_TOKENS,
            tie_word_embeddings=False,
            **sizes,
            **marks,
        )
    )
    only_words(model, tokens).save_pretrained(folder)
    tokens.save_pretrained(folder)
    asked = torch.tensor([tokens.encode(PROBES[0])])
    found = model.generate(asked, max_new_tokens=ANSWER_TOKENS, do_sample=False, pad_token_id=2)
    return {"prompt": PROBES[0], "answer": tokens.decode(found[0, asked.shape[1] :])}


def vision(folder: Path) -> dict[str, int]:
    """An Idefics3: a SigLIP encoder and a Llama; returns the number of tokens of an image.

    vLLM's other small models of images import torchvision, which the engine's image for CPUs does not have.
    """
    tokens = tokenizer()
    tokens.add_special_tokens({"additional_special_tokens": [IMAGE, *IMAGE_MARKS]})
    tokens.chat_template = VISION_TEMPLATE
    tower = {
        name: ENCODER[name] for name in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    }
    torch.manual_seed(SEED)
    model = Idefics3ForConditionalGeneration(
        Idefics3Config(
            vision_config={**tower, "image_size": IMAGE_PIXELS, "patch_size": PATCH_PIXELS, "initializer_range": 0.2},
            text_config={**TEXT, "model_type": "llama", "vocab_size": len(tokens)},
            image_token_id=tokens.convert_tokens_to_ids(IMAGE),
            scale_factor=MERGED,
            tie_word_embeddings=False,
            pad_token_id=2,
        )
    )
    only_words(model, tokens).to(torch.bfloat16).save_pretrained(folder)
    tokens.save_pretrained(folder)
    size = {"longest_edge": IMAGE_PIXELS}
    images = {"image_processor_type": "Idefics3ImageProcessor", "size": size, "max_image_size": size}
    image_tokens = (IMAGE_PIXELS // PATCH_PIXELS // MERGED) ** 2
    (folder / "preprocessor_config.json").write_text(json.dumps({**images, "do_image_splitting": False}))
    processor = {"processor_class": "Idefics3Processor", "image_seq_len": image_tokens}
    (folder / "processor_config.json").write_text(json.dumps(processor))
    return {"image_tokens": image_tokens}


@torch.inference_mode()
def embedding(folder: Path) -> dict[str, Any]:
    """A BERT whose text vectors are the normalized mean of its tokens', as sentence-transformers' files say."""
    tokens = tokenizer()
    torch.manual_seed(SEED)
    model = BertModel(BertConfig(vocab_size=len(tokens), **ENCODER)).eval()
    model.save_pretrained(folder)
    tokens.model_max_length = 512
    tokens.save_pretrained(folder)
    parts = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
    modules = [
        {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{name}"}
        for index, (path, name) in enumerate(parts)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 256, "do_lower_case": False}))
    (folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": ENCODER["hidden_size"], "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    means = [model(torch.tensor([tokens.encode(text)])).last_hidden_state[0].mean(0) for text in DOCUMENTS]
    return {"texts": DOCUMENTS, "vectors": [(mean / mean.norm()).tolist() for mean in means]}


@torch.inference_mode()
def reranker(folder: Path) -> dict[str, Any]:
    """A RoBERTa with one output; returns its order of the documents and the scores."""
    tokens = tokenizer()
    tokens.model_max_length = 512
    torch.manual_seed(SEED)
    config = XLMRobertaConfig(vocab_size=len(tokens), num_labels=1, type_vocab_size=1, **ENCODER)
    model = XLMRobertaForSequenceClassification(config).eval()
    model.save_pretrained(folder)
    tokens.save_pretrained(folder)
    pairs = [tokens(QUERY, document, return_tensors="pt").input_ids for document in DOCUMENTS]
    scores = [float(model(pair).logits[0, 0].sigmoid()) for pair in pairs]
    order = sorted(range(len(scores)), key=lambda number: -scores[number])
    return {"query": QUERY, "documents": DOCUMENTS, "order": order, "scores": [scores[number] for number in order]}


def thinking(folder: Path) -> dict[str, str]:
    """A Llama that says one sentence and ends.

    Each token's vector is a direction of its own, the layers add nothing, and the output for a token is the next one of
    the sentence. Whatever the prompt says, it ends with the same token.
    """
    tokens = tokenizer()
    sentence = [THINK, THOUGHT, CALL, CALL_TEXT, CALLED]
    tokens.add_tokens([AddedToken(text, normalized=False) for text in (*sentence, START)])
    tokens.chat_template = CHAT_TEMPLATE.replace("assistant:", START)
    sentence.insert(1, f" {THOUGHTS}")
    ids = [tokens.encode(text)[0] for text in (START, *sentence)] + [tokens.eos_token_id]
    config = LlamaConfig(vocab_size=len(tokens), **{**TEXT, "hidden_size": SEPARATE})
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.model.norm.weight.fill_(1)
        model.model.embed_tokens.weight.fill_diagonal_(1)
        for token, following in pairwise(ids):
            model.lm_head.weight[following, token] = 1
    model.to(torch.bfloat16).save_pretrained(folder)
    tokens.save_pretrained(folder)
    return {"reasoning": THOUGHTS, "call": CALL_TEXT}


def _llama(tokens: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    return llama([tokens.encode(f" {word}")[0] for word in WORDS.split()], len(tokens))


MODELS: dict[str, Callable[[Path], Any]] = {
    "decoder": decoder,
    "mixture": mixture,
    "awq": awq,
    "neo": neo,
    "vision": vision,
    "embedding": embedding,
    "reranker": reranker,
    "Qwen3-tiny-Thinking": thinking,
}


def main(names: Sequence[str] = tuple(MODELS)) -> None:
    """Make them all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "expected.json").write_text(json.dumps({name: MODELS[name](folder / name) for name in names}))
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)  # safetensors writes 0600, and engines run as another user


if __name__ == "__main__":
    main()
