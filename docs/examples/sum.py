"""Each rank contributes its number, and all ranks get the sum:  lsched run -n 4 python sum.py"""
import numpy, libsched

with libsched.init() as world:
    x = numpy.full(3, world.rank, "f4")
    with world.allreduce(x) as step:  # in place; created once, run any number of times
        step.run(timeout=10)
    print(f"rank {world.rank} of {world.size}: {x}\n", end="")
