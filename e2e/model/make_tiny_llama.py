"""Make a Llama of 0.3 million random weights that answers in words, quickly, and always the same.

Runs inside the engine image, which has torch and transformers; `e2e.model` starts it there. The weights mean
nothing; what the tests need of them is checked before they are written:

- greedy answers do not depend on how requests are batched: float32, and at every step the best token leads the
  second best by far more than float32 loses when sums are taken in another order;
- prompts get answers of their own, so that a mixed-up answer shows;
- an answer never ends early and is plain text: of all tokens only whole words can win.
"""

# torch and its kind are in the engine's image, not in the environment that checks this file:
# mypy: disable-error-code="import-not-found, untyped-decorator"

import argparse
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SEED = 7
WORDS = (
    "amber anchor apple autumn badge basil beacon birch blossom boat bramble brook candle canyon cedar cinder "
    "clover coast copper coral cotton creek crystal dawn delta dune eagle echo ember falcon feather fern field "
    "flint forest fox frost garden ginger glacier granite harbor harvest hazel heron honey island ivory jasmine "
    "juniper lagoon lantern lark laurel lemon lilac linen lotus maple marble meadow mint mirror moss mountain "
    "nectar oak oasis ocean olive onyx opal orchard otter pebble pine planet plum pond poppy prairie quartz rain "
    "raven reef river robin rose saffron sail sapphire shadow silver sky snow sparrow spruce star stone stream "
    "summer sunrise swan thunder tide timber topaz valley velvet violet walnut water wave willow wind winter wren"
)
SPECIAL = ("<s>", "</s>", "<pad>")
CHAT_TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"
CONTEXT_TOKENS = 2048
# transformers' 0.02 leaves every layer a whisper beside the token's own embedding: answers would depend on the
# last token alone. At 0.2 attention decides.
INITIALIZER_RANGE = 0.2
# Scales logits, not their order: sampling at temperature 1 still picks the best token nearly always.
OUTPUT_SCALE = 8.0
# Float32 sums in another order moved these logits by less than 1e-4 in 10,000 steps.
MIN_MARGIN = 0.01
PROBES = tuple(f"Tell me about {word}" for word in WORDS.split()[:64])
ANSWER_TOKENS = 24


def tokenizer() -> PreTrainedTokenizerFast:
    """Bytes, and pairs merged until each word with its leading space is one token."""
    pairs = Tokenizer(models.BPE())
    pairs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pairs.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=4096,  # more than it takes: training ends when no pair is left
        min_frequency=1,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    pairs.train_from_iterator([f" {word}" for word in WORDS.split()], trainer)
    begin, end, padding = SPECIAL
    result = PreTrainedTokenizerFast(tokenizer_object=pairs, bos_token=begin, eos_token=end, pad_token=padding)
    result.chat_template = CHAT_TEMPLATE
    return result


def llama(words: list[int], vocabulary: int) -> LlamaForCausalLM:
    """Random weights of a fixed seed; only the words' output rows are not zero, so only words win."""
    torch.manual_seed(SEED)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=128,
            intermediate_size=256,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=32,
            max_position_embeddings=CONTEXT_TOKENS,
            initializer_range=INITIALIZER_RANGE,
            bos_token_id=0,
            eos_token_id=1,
            pad_token_id=2,
            tie_word_embeddings=False,
        )
    ).to(torch.float32)
    with torch.no_grad():
        rows = torch.zeros(vocabulary, 1)
        rows[words] = OUTPUT_SCALE
        model.lm_head.weight.mul_(rows)
    return model.eval()


@torch.inference_mode()
def answer(model: LlamaForCausalLM, prompt: list[int]) -> tuple[tuple[int, ...], float]:
    """The greedy answer to a prompt and the smallest lead of a winning token over the second."""
    tokens, margin = list(prompt), float("inf")
    for _ in range(ANSWER_TOKENS):
        best = model(torch.tensor([tokens])).logits[0, -1].topk(2)
        margin = min(margin, float(best.values[0] - best.values[1]))
        tokens.append(int(best.indices[0]))
    return tuple(tokens[len(prompt) :]), margin


def main() -> None:
    """Make it, check it, write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    tokens = tokenizer()
    words = [tokens.encode(f" {word}") for word in WORDS.split()]
    if any(len(ids) != 1 for ids in words):
        raise SystemExit("a word is more than one token")
    model = llama([ids[0] for ids in words], len(tokens))
    answers = [answer(model, tokens.encode(prompt)) for prompt in PROBES]
    margin = min(lead for _, lead in answers)
    distinct = len({text for text, _ in answers})
    print(
        f"smallest lead {margin:.4f}; {distinct} answers to {len(PROBES)} prompts; e.g.{tokens.decode(answers[0][0])}"
    )
    if margin < MIN_MARGIN or distinct < len(PROBES):
        raise SystemExit("this seed's answers are too close or too alike: choose another")
    folder.mkdir(parents=True, exist_ok=True)
    tokens.save_pretrained(folder)
    model.save_pretrained(folder)
    for path in folder.iterdir():
        path.chmod(0o644)  # safetensors writes 0600, and engines run as another user


if __name__ == "__main__":
    main()
