import pytest
import torch


@pytest.fixture(scope="package", autouse=True)
def _one_thread():
    """Models as small as these are slower with two threads, by far where both cores are busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
