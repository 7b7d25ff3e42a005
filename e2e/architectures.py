"""The tables of architectures, written inside the engine's image: `python -m e2e.architectures`, about 10 minutes."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

from e2e.vllm_options import answer_of
from inference_operator.engines.transformers import architectures as of_transformers
from inference_operator.engines.vllm import architectures as of_vllm


def text_of(table: Mapping[str, str]) -> str:
    """The text of a table: a line for each architecture."""
    return "".join(f"{name} {mode}\n" for name, mode in table.items())


def main() -> None:
    """Write the tables."""
    with tempfile.TemporaryDirectory() as folder:
        found = answer_of("architectures", [], Path(folder))
    for module, name in ((of_vllm, "vllm"), (of_transformers, "transformers")):
        path = Path(str(module.__file__)).with_name(f"architectures-{module.VERSION}.txt")
        path.write_text(text_of(found[name]))
        print(path)


if __name__ == "__main__":
    main()
