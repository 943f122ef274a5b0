"""The program of each rank of test_hosts.py: DDP, ZeRO, FSDP2 and PartialOptimizer on several hosts."""

import backend_program
import libsched.torch
import training_program
from backend_program import main

BORROWED = {
    backend_program: ["check_ddp_is_that_of_gloo", "check_zero_and_fsdp2", "check_what_is_wrong_is_said"],
    training_program: [
        "check_a_full_partial_optimizer_is_training_by_one",
        "check_nothing_is_lost_without_waiting",
        "check_a_loop_by_rounds",
    ],
}


def check_ranks_are_on_several_hosts(_):
    assert "TCP with" in libsched.torch.world_of().describe(), libsched.torch.world_of().describe()


def borrowed(module, name):
    return lambda arguments: getattr(module, name)(arguments[module])


if __name__ == "__main__":
    checks = {name: borrowed(module, name) for module, names in BORROWED.items() for name in names}
    main(
        {**globals(), **checks},
        lambda: {backend_program: backend_program.Ranks(), training_program: training_program.Training()},
    )
