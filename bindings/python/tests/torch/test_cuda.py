"""The backend on GPUs: collectives, streams, DDP and FSDP2, against expected results and Gloo.

Ranks are processes. If there are fewer GPUs than ranks, several ranks share a GPU. On a machine with a GPU,
PYTHONPATH=build/python python -m pytest -s test_cuda.py also prints the times of the backend and of Gloo. Without a GPU
the same program uses tensors on the CPU. test_streams.py has the tests of streams that need no GPU.
"""

import os
import subprocess
import sys

import pytest
import torch

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cuda_program.py")
no_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")


def launched(ranks, device):
    done = subprocess.run([sys.executable, "-m", "libsched", "run", "-n", str(ranks), "--timeout", "240",
                           sys.executable, "-W", "ignore", PROGRAM, device],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=270, text=True, check=False)
    print(done.stdout)
    return done


@pytest.mark.parametrize("ranks", [pytest.param(2, marks=no_gpu), pytest.param(3, marks=no_gpu)])
def test_on_gpus(ranks):
    assert launched(ranks, "cuda").stdout.count("all is right") == ranks


def test_the_program_is_right_about_the_cpu():
    assert launched(2, "cpu").stdout.count("all is right") == 2
