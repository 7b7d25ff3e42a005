"""The tables of architectures, written inside the engines' images (about 20 minutes).

python -m e2e.engines.architectures
"""

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

import gguf

from e2e import images
from e2e.engines.vllm_options import answer_of
from e2e.images.detect import found_builder
from inference_operator.engines.llama_cpp import options as of_llama_cpp
from inference_operator.engines.transformers import memory as of_transformers
from inference_operator.engines.vllm import architectures as of_vllm

LLAMA_CPP = "engine-llama-cpp"
NO_TEXT = frozenset(
    {
        *(
            "bert",
            "eurobert",
            "modern-bert",
            "neo-bert",
            "nomic-bert",
            "nomic-bert-moe",
            "jina-bert-v2",
            "jina-bert-v3",
        ),
        *("gemma-embedding", "gemma-embedding2", "llama-embed", "t5encoder", "clip", "vllm-decision2"),  # encoders
        "t5",  # an encoder whose prompt the server does not encode
        *("eagle3", "dflash", "gemma4-assistant"),  # draft models
        *("dream", "llada", "llada-moe", "rnd1"),  # diffusion, which the server does not do
        *("wavtokenizer-dec", "pockettts", "qwen3tts"),  # speech
        *("mamba", "mamba2", "rwkv6", "rwkv7", "arwkv7", "rwkv6qwen2"),  # without attention: their state is not sized
        "gptj",  # a name without an implementation
    }
)
"""Architectures that llama.cpp knows by name and with which its server generates no text."""
_LOOK = """
cp /usr/lib/*/libllama.so.0 /data/library
"""
_ASK = """
cd /data/models
for file in *.gguf; do
  said=$(timeout 10 llama-server --model "$file" --fit off --port 18799 2>&1)
  [[ $said == *'unknown model architecture'* ]] || echo "${file%.gguf}"
done > /data/known
"""
"""Files without tensors: the server ends at each, and says so if it does not know the architecture."""


def text_of(table: Mapping[str, str]) -> str:
    """The text of a table: a line for each architecture."""
    return "".join(f"{name} {mode}\n" for name, mode in table.items())


def llama_cpp_names(folder: Path) -> list[str]:
    """The architectures with which the server of llama.cpp generates text, sorted.

    Args:
        folder: an empty folder for the files that the server is asked about.
    """
    images.build([LLAMA_CPP])
    _run(folder, _LOOK)
    words = re.findall(rb"(?<=\0)[a-z][a-z0-9_-]{1,31}(?=\0)", (folder / "library").read_bytes())
    (folder / "models").mkdir()
    for name in {word.decode() for word in words} | set(gguf.MODEL_ARCH_NAMES.values()):
        writer = gguf.GGUFWriter(folder / "models" / f"{name}.gguf", name)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    _run(folder, _ASK)
    return sorted(set((folder / "known").read_text().split()) - NO_TEXT)


def _run(folder: Path, script: str) -> None:
    found_builder().run("architectures", images.reference(LLAMA_CPP), ("bash", "-c", script), {folder: "/data"})


def main() -> None:
    """Write the tables."""
    with tempfile.TemporaryDirectory() as folder:
        found = answer_of("architectures", [], Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        names = llama_cpp_names(Path(folder))
    texts = {
        of_vllm: text_of(found["vllm"]),
        of_transformers: text_of(found["transformers"]),
        of_llama_cpp: "".join(f"{name}\n" for name in names),
    }
    for module, text in texts.items():
        path = Path(str(module.__file__)).with_name(f"architectures-{module.VERSION}.txt")
        path.write_text(text)
        print(path)


if __name__ == "__main__":
    main()
