"""Pooling models without a KV cache, because each token attends to all tokens."""

from inference_operator.models.config import Config

ENCODERS = (
    *("Bert", "Roberta", "XLMRoberta", "ModernBert", "NomicBert", "Gte", "Snowflake", "BgeM3", "HF_ColBERT", "ColBERT"),
    *("DistilBert", "Camembert", "Electra", "JinaRoberta"),
)
"""Beginnings of architectures whose tokens attend to all others (vLLM 0.32.0, `model_executor/models/bert.py`,
`bert_with_rope.py`, `roberta.py`, `modernbert.py`, `colbert.py`: `default_pooling_type` CLS or `attn_type`)."""


def is_encoder(config: Config) -> bool:
    """Whether a model that pools is an encoder.

    Examples:
        >>> is_encoder(Config({"architectures": ["BertModel"]})), is_encoder(Config({"architectures": ["LlamaModel"]}))
        (True, False)
        >>> is_encoder(Config({"architectures": ["LlamaModel"], "is_causal": False}))
        True
    """
    return config.architecture.startswith(ENCODERS) or not config.flag("is_causal", default=True)
