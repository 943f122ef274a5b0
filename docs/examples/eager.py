"""Training that does not wait for the slowest rank.

    lsched run -n 4 python eager.py

The lines with `lst`, `opt.rounds` and `opt.close` differ from a loop with DistributedDataParallel. Rank 1 is slow. The
loop ends after 100 rounds, so the job ends long before rank 1 could have made 100 steps. All ranks end with the same
weights.
"""

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import libsched.torch as lst

ROUNDS = 100

dist.init_process_group("lsched")
rank = dist.get_rank()
torch.manual_seed(0)
x = torch.randn(512, 10)
data = TensorDataset(x, x.sum(1, keepdim=True))
loader = DataLoader(data, batch_size=16, sampler=DistributedSampler(data))
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
lst.broadcast_parameters(model)
opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
opt = lst.PartialOptimizer(opt, model.named_parameters())

steps, begin = 0, time.monotonic()
for x, y in opt.rounds(loader, until=ROUNDS):
    opt.zero_grad()
    loss = (model(x) - y).square().mean()
    loss.backward()
    time.sleep(0.1 if rank == 1 else 0.005)
    opt.step()
    steps += 1
    if rank == 0 and opt.round % 20 == 0:
        print(f"round {opt.round} of {ROUNDS}", flush=True)
passed = time.monotonic() - begin

weights = sum(each.double().sum().item() for each in model.parameters())
print(f"rank {rank}: {steps} steps in {passed:.1f} s, loss {loss.item():.4f}, weights {weights!r}\n",
      end="", flush=True)
opt.close()
dist.destroy_process_group()
