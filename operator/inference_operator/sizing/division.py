"""Division of an engine over nodes: the divisions that sizing tries, the preferred first.

- The fewest nodes come first. A node is left only if no GPUs of one node hold the model, not even with a shorter
  context.
- Tensor parallelism stays inside a node, where GPUs have NVLink; the stages of a pipeline are on different nodes, as in
  vLLM's guide to several nodes (v0.32.0, `docs/serving/parallelism_scaling.md`). What a user requests is kept.
- Several stages on one node come after one: they help a model whose heads or groups limit the tensor parallel size.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from inference_operator.sizing.shape import SizingInputs

MOST_NODES = 8
"""Most nodes that sizing chooses by itself; no published service uses more for one model."""


@dataclass(frozen=True, slots=True)
class Division:
    """A number of nodes, and which pipelines are tried on each."""

    nodes: int = 1
    deep: bool = False
    """Whether each node has several stages, although NVLink connects its GPUs."""


ONE_NODE = Division()


def divisions(inputs: SizingInputs) -> Iterator[tuple[Division, ...]]:
    """The divisions to try over each number of nodes, the preferred first.

    Examples:
        >>> [[(division.nodes, division.deep) for division in same] for same in divisions(SizingInputs(nodes=2))]
        [[(2, False), (2, True)]]
        >>> max(division.nodes for same in divisions(SizingInputs()) for division in same)
        8
    """
    for nodes in (inputs.nodes,) if inputs.nodes else range(1, MOST_NODES + 1):
        yield Division(nodes), Division(nodes, deep=True)
