"""Training that does not wait for the slowest rank: which lines differ from DistributedDataParallel.

    lsched run -n 4 python eager.py

Rank 1 is slow; the others do not wait for it, and at the end all have the same weights.
"""

import time

import torch
import torch.distributed as dist
from torch import nn

import libsched.torch as lst

dist.init_process_group("lsched")
rank = dist.get_rank()
torch.manual_seed(rank)
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
lst.broadcast_parameters(model)
opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
opt = lst.PartialOptimizer(opt, model.named_parameters(), activation="majority", lag="history")

begin = time.monotonic()
for step in range(100):
    x = torch.randn(16, 10)
    opt.zero_grad()
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    loss.backward()
    time.sleep(0.02 if rank == 1 else 0.005)
    opt.step()
passed = time.monotonic() - begin

opt.average_parameters()
weights = sum(each.double().sum().item() for each in model.parameters())
opt.close()
print(f"rank {rank}: {passed:.1f} s, loss {loss.item():.4f}, weights {weights!r}\n", end="", flush=True)
dist.destroy_process_group()
