"""The tables of vLLM's own answers: there is one of each kind for the version of the operator's images."""

from importlib.resources import files

from inference_operator.engines import vllm
from inference_operator.settings import Settings

KINDS = ("architectures", "attention", "encoders", "methods", "options", "parsers", "traits", "variables")


def test_the_version_of_each_default_image_has_every_table() -> None:
    for image in (Settings().gpu_engine_image, Settings().cpu_engine_image):
        version = image.rpartition(":")[2].removeprefix("v").partition("-")[0]
        for kind in KINDS:
            assert files(vllm).joinpath(f"{kind}-{version}.txt").read_text(encoding="utf-8"), (image, kind)
