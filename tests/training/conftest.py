import pytest
import torch

from tests.training.small_runs import make_start
from tests.training.words import write_corpus


@pytest.fixture(scope="package", autouse=True)
def _one_thread():
    """Models as small as these are slower with two threads, by far where both cores are busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="package")
def corpus(tmp_path_factory):
    """Eight utterances."""
    return write_corpus(tmp_path_factory.mktemp("corpus"), 8)


@pytest.fixture(scope="package")
def started(tmp_path_factory, corpus):
    """A folder with a small model and teacher, and the settings of a run of four steps from them."""
    folder = tmp_path_factory.mktemp("started")
    return folder, make_start(folder, corpus)
