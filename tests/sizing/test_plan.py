import pytest

from inference_operator.api.spec import Device
from inference_operator.resources.quantity import canonical
from inference_operator.sizing.plan import Wishes, plan


@pytest.mark.parametrize(("size", "shared_memory"), [(1, "2Gi"), (2, "8Gi"), (4, "8Gi"), (8, "16Gi"), (64, "16Gi")])
def test_an_engine_on_gpus_has_one_for_each_rank(size: int, shared_memory: str) -> None:
    sizes = plan(Wishes(Device.GPU, size))
    assert (sizes.tensor_parallel_size, sizes.gpus_per_replica) == (size, size)
    assert sizes.shared_memory == shared_memory


@pytest.mark.parametrize("size", [1, 2])
def test_an_engine_on_a_cpu_has_none(size: int) -> None:
    sizes = plan(Wishes(Device.CPU, size))
    assert (sizes.tensor_parallel_size, sizes.gpus_per_replica) == (size, 0)


@pytest.mark.parametrize("device", list(Device))
@pytest.mark.parametrize("size", [1, 4, 64])
def test_quantities_are_as_the_api_server_writes_them(device: Device, size: int) -> None:
    sizes = plan(Wishes(device, size))
    for quantity in (sizes.cpu, sizes.memory, sizes.ephemeral_storage, sizes.shared_memory):
        assert canonical(quantity) == quantity
