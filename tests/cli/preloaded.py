"""What the process that all others are forked from has done: see `tests.cli.runner`."""

import torch

import asr.cli.commands
import asr.training.run  # noqa: F401
from asr.recognition.recognizer import Recognizer

torch.set_num_threads(1)
Recognizer.load()  # imports what reads models
