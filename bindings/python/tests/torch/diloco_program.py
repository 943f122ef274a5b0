"""The program of each rank that trains with local steps and merges (libsched.torch.DiLoCo).

    lsched run -n 3 python diloco_program.py [NAME...]

Functions whose names begin with check_ are the checks. A rank that fails ends at once, and the other ranks notice that.
"""

import copy

import above  # noqa: F401
import torch
import torch.distributed as dist

import libsched
import libsched.torch as lst
from backend_program import main
from waiting import compute_for, wait_until


class Ranks:
    """The ranks, and a world that has only this rank."""

    def __init__(self):
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.alone = dist.new_group([self.rank], backend="lsched", use_local_synchronization=True)

    def net(self):
        torch.manual_seed(5)
        return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))

    def train(self, model, inner, steps):
        for i in steps:
            torch.manual_seed(100 * i + self.rank)
            inner.zero_grad()
            model(torch.randn(4, 8)).square().mean().backward()
            inner.step()

    def all(self, value):
        """Returns the values of all ranks."""
        values = [None] * self.size
        dist.all_gather_object(values, value)
        return values


class Recording(torch.optim.SGD):
    """An outer optimizer with learning rate 1 that adds the merged changes, each multiplied by its offers."""

    def __init__(self, parameters):
        super().__init__(parameters, lr=1.0)
        self.diloco, self.reports = None, []
        self.changes = torch.zeros(len(parameters), 3, dtype=torch.float64)

    def step(self, closure=None):
        for i, (part, report) in enumerate(zip(self.param_groups[0]["params"], self.diloco.reports)):
            if part.grad is not None:
                self.changes[i] += part.grad.double() * report.offers
                self.reports.append(report)
        super().step(closure)


class Counted:
    """A DiLoCo of one parameter of a few elements, whose local steps subtract whole numbers."""

    def __init__(self, fragments=1, **options):
        self.parts = [torch.nn.Parameter(torch.zeros(3)) for _ in range(fragments)]
        self.inner, self.outer = torch.optim.SGD(self.parts, lr=1.0), Recording(self.parts)
        self.diloco = lst.DiLoCo([[each] for each in self.parts], self.inner, self.outer, **options)
        self.outer.diloco = self.diloco
        self.offered = torch.zeros(3, dtype=torch.float64)

    @property
    def sums(self):
        return self.diloco._sums

    def subtract(self, amount):
        self.offered += amount
        for each in self.parts:
            each.grad = torch.full((3,), float(amount))
        self.inner.step()

    def is_balanced(self, its):
        """Returns true if the merged changes are the changes of all ranks, each once. Call flush() before."""
        return bool((self.outer.changes.round() == sum(its.all(self.offered))).all())


def optimizers(model):
    return (torch.optim.AdamW(model.parameters(), lr=0.01),
            torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9, nesterov=True))


def weights(model):
    return torch.cat([each.detach().flatten() for each in model.parameters()])


def are_alike(its, tensor):
    return all(torch.equal(each, tensor) for each in its.all(tensor))


def check_one_rank_is_the_outer_optimizer_by_hand(its):
    for delay, alpha in ((0, 0.0), (2, 0.0), (1, 0.25)):
        model, by_hand = its.net(), its.net()
        inner, outer = optimizers(model)
        with lst.DiLoCo([model[0], model[2]], inner, outer, 6, world=its.alone, fragment_sync_delay=delay,
                        fragment_update_alpha=alpha) as diloco:
            its.train(model, inner, range(20))
            assert diloco.steps == 20 and diloco.fragment_rounds == [3, 3], diloco.fragment_rounds
        inner, _ = optimizers(by_hand)
        fragments = [list(by_hand[i].parameters()) for i in (0, 2)]
        shared = [[each.detach().clone() for each in parts] for parts in fragments]
        outers = [torch.optim.SGD(each, lr=0.7, momentum=0.9, nesterov=True) for each in shared]
        for step in range(1, 21):
            its.train(by_hand, inner, [step - 1])
            for i, parts in enumerate(fragments):
                if (step + delay - 3 * (i + 1)) % 6 == 0:
                    for each, local in zip(shared[i], parts):
                        each.grad = each - local.detach()
                if step >= 3 and (step - 3 * (i + 1)) % 6 == 0:
                    outers[i].step()
                    for each, local in zip(shared[i], parts):
                        local.data = each.lerp(local.data, alpha)
        assert torch.equal(weights(model), weights(by_hand)), (delay, alpha)


def check_fragments_are_merged_at_their_offsets(its):
    model = torch.nn.Sequential(*(torch.nn.Linear(3, 3) for _ in range(3)))
    torch.manual_seed(its.rank)  # the weights of rank 0 are used
    for each in model.parameters():
        torch.nn.init.normal_(each)
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    outer = [torch.optim.SGD(each.parameters(), lr=0.5) for each in model]
    with lst.DiLoCo(list(model), inner, outer, 6, fragment_sync_delay=1) as diloco:
        assert are_alike(its, weights(model)), "all ranks begin with the same weights"
        seen = []
        for step in range(12):
            for each in model.parameters():
                each.grad = torch.full_like(each, its.rank + 1.0)
            inner.step()
            seen.append((diloco.fragment_rounds, [each.offered_step for each in diloco._fragments]))
            assert are_alike(its, torch.cat(diloco.global_weights())), step
            merged = step % 6 // 2  # the fragment that a step of an odd number has merged
            assert are_alike(its, weights(model[merged])) == (its.size == 1 or step % 2 == 1), step
    assert [rounds for rounds, _ in seen] == [
        [0, 0, 0], [1, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 0], [1, 1, 1],
        [1, 1, 1], [2, 1, 1], [2, 1, 1], [2, 2, 1], [2, 2, 1], [2, 2, 2]], seen
    assert [offered for _, offered in seen][:6] == [
        [1, 0, 0], [1, 0, 0], [1, 3, 0], [1, 3, 0], [1, 3, 5], [1, 3, 5]], seen


def check_a_merge_is_the_mean_of_the_changes(its):
    counted = Counted(sync_every=2, fragment_update_alpha=0.5)
    with counted.diloco as diloco:
        counted.subtract(its.rank)
        counted.subtract(its.rank)
        mean = its.size - 1.0  # of 2 * rank
        assert torch.equal(diloco.global_weights()[0], torch.full((3,), -mean))
        assert torch.equal(counted.parts[0], torch.full((3,), -(mean + 2 * its.rank) / 2))
        assert counted.parts[0].grad[0] == its.rank, "the gradient of the local step is as before"


def check_replicas_are_alike_with_a_slow_rank(its):
    for options in ({"quorum": max(1, its.size - 1)}, {"quorum": 1, "grace": 0.0}, {"grace": 0.001},
                    {"quorum": its.size, "grace": 0.002}, {"quorum": max(1, its.size - 1), "transport": "bf16"}):
        counted, seen = Counted(fragments=2, sync_every=4, fragment_sync_delay=1, **options), {}
        with counted.diloco as diloco:
            for i in diloco.rounds(range(1000), until=20):
                compute_for(0.002 if its.rank == 1 else 0)
                counted.subtract(1 + (i + its.rank) % 5)
                for number, (round, own) in enumerate(zip(diloco.fragment_rounds, diloco.global_weights())):
                    seen[number, round] = own
            assert min(diloco.fragment_rounds) > 20 and are_alike(its, torch.tensor(diloco.fragment_rounds)), options
            assert are_alike(its, torch.cat(diloco.global_weights()))
            assert are_alike(its, torch.cat(counted.parts).detach())
            first = {}  # the weights by fragment and round
            for key, own in (pair for seen_by_rank in its.all(seen) for pair in seen_by_rank.items()):
                assert torch.equal(first.setdefault(key, own), own), (options, key)


def check_all_fragments_get_the_changes_of_a_slow_rank(its):
    """The slow rank may call only for rounds of one fragment. The fragments have two sizes."""
    parts = [torch.nn.Parameter(torch.zeros(3 + i % 2)) for i in range(4)]
    inner, outer = torch.optim.SGD(parts, lr=1.0), torch.optim.SGD(parts, lr=1.0)
    offered, merged, is_slow = torch.zeros(4), torch.zeros(4), its.rank == its.size - 1
    with lst.DiLoCo([[each] for each in parts], inner, outer, 4, quorum=max(1, its.size - 1)) as diloco:
        for fragment in diloco._fragments:
            def watched(report, result, rounds, step=fragment.step):
                merged[report.fragment] += result[0] * report.offers
                mine[report.fragment] += report.mine
                step(report, result, rounds)

            fragment.step = watched
        mine, before = [0] * 4, []
        for i in diloco.rounds(range(100000), until=40):
            before = list(mine)  # without the flush at the end
            compute_for(0.004 if is_slow else 0.001)
            for number, each in enumerate(parts):
                each.grad = torch.full_like(each, 1.0 + (i + number) % 3)
                offered[number] += 1.0 + (i + number) % 3
            inner.step()
        assert all(before), before
        assert torch.equal(merged.round(), sum(its.all(offered))), (merged, offered)
        assert len(set(diloco.fragment_rounds)) == 1 and diloco.fragment_rounds[0] > 40, diloco.fragment_rounds
        assert are_alike(its, torch.cat([each.detach() for each in parts]))


def check_a_late_change_is_merged_once(its):
    is_late = its.rank == its.size - 1 > 0
    counted = Counted(sync_every=1, quorum=max(1, its.size - 1))
    with counted.diloco as diloco:
        if is_late:
            wait_until(lambda: counted.sums.statistics()["rounds"] == 1)
        else:
            counted.subtract(3)
        dist.barrier()
        if is_late:
            counted.subtract(5)  # does not wait for the others, who make their next step later
            assert [each.mine for each in counted.outer.reports] == [0], counted.outer.reports
        dist.barrier()
        if not is_late:
            counted.subtract(7)
        diloco.flush()
        assert counted.is_balanced(its), counted.outer.changes
        assert counted.outer.reports[0].offers == max(1, its.size - 1), counted.outer.reports
        assert are_alike(its, counted.parts[0].detach())


def check_a_rank_that_stops_costs_one_wait(its):
    """The last rank stops for five merges, and every round needs that rank. No local step is lost."""
    counted, waits = Counted(fragments=2, sync_every=2, quorum=its.size, grace=0.05), []
    with counted.diloco as diloco:
        collect = diloco._sums.collect

        def watched(ticket, result, timeout):
            waits.append(timeout)
            return collect(ticket, result, timeout)

        diloco._sums.collect = watched
        if its.rank < its.size - 1:
            for _ in range(5):
                counted.subtract(its.rank + 1)
            assert [each > 0 for each in waits] == [True] + 4 * [False] and diloco.fragment_rounds == [0, 0], waits
        dist.barrier()
        if its.rank == its.size - 1:
            counted.subtract(its.rank + 1)
        wait_until(lambda: counted.sums.statistics()["rounds"] > 0)
        counted.subtract(its.rank + 1)
        diloco.flush()
        assert counted.is_balanced(its), counted.outer.changes
        assert are_alike(its, torch.cat(counted.parts).detach())


def check_the_residual_of_bf16_is_conserved(its):
    model = its.net()
    inner, _ = optimizers(model)
    outer = torch.optim.SGD(model.parameters(), lr=1.0)
    with lst.DiLoCo([model], inner, outer, 3, world=its.alone, transport="bf16") as diloco:
        fragment, offered, merged = diloco._fragments[0], 0, 0
        for i in range(10):
            its.train(model, inner, range(2 * i, 2 * i + 2))
            step, before = fragment.step, fragment.weights.flat.clone()

            def watched(report, result, rounds):
                nonlocal merged
                merged = merged + result.double()
                step(report, result, rounds)

            def offering(*given, offer=fragment.offer):
                nonlocal offered
                offered = offered + (before - weights(model)).double()
                offer(*given)

            fragment.step, fragment.offer = watched, offering
            its.train(model, inner, [i])
            del fragment.step, fragment.offer
            assert diloco._message.dtype == torch.bfloat16 and fragment.residual.any()
            assert torch.allclose(offered - merged, fragment.residual.double(), rtol=0, atol=1e-7), i
    counted = Counted(sync_every=1, transport="bf16")  # bf16 rounds 1 + 1/512 to 1, and 1 + 3/512 to 1 + 1/128
    with counted.diloco:
        for _ in range(4):
            counted.subtract(1 + 2.0 ** -9)
        assert not counted.diloco._fragments[0].residual.sum() - 3 * (4 * 2.0 ** -9 - 2.0 ** -7)
        assert torch.equal(counted.parts[0].detach(), torch.full((3,), -4 - 2.0 ** -7))


def check_merges_are_weighted_means(its):
    """Also the means with late changes, and with changes in bf16, whose products with a weight are rounded."""
    weight = its.rank + 1
    for options in ({}, {"quorum": max(1, its.size - 1)}, {"transport": "bf16"}):
        tokens = iter([weight, 0] * 1000) if options else iter([weight] * 1000)
        given = []

        def weigh():
            given.append(next(tokens))
            return given[-1]

        counted = Counted(sync_every=2, weight=weigh, **options)
        with counted.diloco as diloco:
            counted.offered = 0
            for i in diloco.rounds(range(1000), until=6):
                compute_for(0.002 if its.rank == 1 else 0)
                counted.subtract(1)
            offered = torch.full((3,), 2.0 * sum(given), dtype=torch.float64)
            assert (counted.outer.changes[0] - sum(its.all(offered))).abs().max() < 1e-3, counted.outer.changes
            assert are_alike(its, counted.parts[0].detach())
    part = torch.nn.Parameter(torch.zeros(3))
    inner, outer = torch.optim.SGD([part], lr=1.0), torch.optim.SGD([part], lr=1.0)
    with lst.DiLoCo([[part]], inner, outer, 1, world=its.alone, weight=3, transport="bf16") as diloco:
        part.grad = torch.full((3,), 1.01)
        inner.step()
        delivered = 3.03125 / 3  # bf16 rounds 1.01 to 1.0078125, and three times this number to 3.03125
        assert torch.allclose(diloco._fragments[0].residual, torch.full((3,), 1.01 - delivered), atol=1e-6)


def check_a_checkpoint_goes_on_with_the_same_bits(its):
    ends, state = [], None
    for is_whole in (True, False):
        model = its.net()
        inner, outer = optimizers(model)
        with lst.DiLoCo([model[0], model[2]], inner, outer, 4, transport="bf16") as diloco:
            parts = (model, inner, diloco)
            if is_whole:
                its.train(model, inner, range(10))
                diloco.flush()
                state = copy.deepcopy([each.state_dict() for each in parts])
                assert all(each["residual"].any() for each in state[2]["fragments"])
            else:
                for each, saved in zip(parts, state):
                    each.load_state_dict(saved)
            its.train(model, inner, range(10, 20))
            ends.append((weights(model), diloco.fragment_rounds, diloco.steps))
    assert torch.equal(ends[0][0], ends[1][0]) and ends[0][1:] == ends[1][1:] and ends[0][2] == 20, ends


def check_a_rank_that_misses_too_many_rounds_gets_the_weights(its):
    """The last rank misses more rounds than the library keeps. Momentum makes the combined result a different step."""
    part = torch.nn.Parameter(torch.zeros(3))
    inner, outer = torch.optim.SGD([part], lr=1.0), torch.optim.SGD([part], lr=0.7, momentum=0.9)
    is_late = its.rank == its.size - 1 and its.size > 1
    with lst.DiLoCo([[part]], inner, outer, 1, quorum=1) as diloco:
        for i in range(1 if is_late else 80):
            if is_late:
                wait_until(lambda: diloco._sums.statistics()["rounds"] >= 70)
            part.grad = torch.full((3,), 1.0 + i % 3)
            inner.step()
        diloco._fragments[0].differs |= its.size == 1
        assert diloco._fragments[0].differs == (is_late or its.size == 1)
        diloco.flush()
        assert are_alike(its, torch.cat([part.detach(), outer.state[part]["momentum_buffer"]]))
        assert not diloco._fragments[0].differs


def check_uneven_data(its):
    counted = Counted(fragments=2, sync_every=2)
    with counted.diloco as diloco:
        for _ in range(4 + 2 * its.rank):
            counted.subtract(1)
        diloco.leave()
        counted.subtract(1)
        assert diloco.steps == 4 + 2 * its.rank and diloco.fragment_rounds == [2 + its.rank] * 2, diloco.fragment_rounds


def check_what_is_refused(its):
    part, other = (torch.nn.Parameter(torch.zeros(3)) for _ in range(2))
    inner, outer = torch.optim.SGD([part], lr=1.0), torch.optim.SGD([part], lr=1.0)
    both, outer_of_both = torch.optim.SGD([part, other], lr=1.0), torch.optim.SGD([part, other], lr=1.0)

    def make(fragments=([part],), inner=inner, outer=outer, sync_every=4, **options):
        return lst.DiLoCo(fragments, inner, outer, sync_every, **options)

    halves = dict(fragments=[[part], [other]], inner=both, outer=outer_of_both)
    for bad, text in ((dict(fragments=[]), "is empty"), (dict(sync_every=0), "sync_every is 0"),
                      (dict(halves, sync_every=3), "a multiple of 2"), (dict(fragment_sync_delay=4), "from 0 to 3"),
                      (dict(halves, fragment_sync_delay=2), "from 0 to 1"),
                      (dict(fragment_update_alpha=1.5), "fragment_update_alpha is 1.5"),
                      (dict(quorum=its.size + 1), "quorum is"), (dict(quorum=0), "quorum is 0"),
                      (dict(grace=-1.0), "grace is -1.0"), (dict(grace=float("nan")), "grace is nan"),
                      (dict(weight=0.5), "weight"),
                      (dict(transport="int8"), "transport is 'int8'"), (dict(outer=inner), "same object"),
                      (dict(halves, fragments=[[part], [part]]), "in two fragments"),
                      (dict(fragments=[[part], [other]]), "different parameters"),
                      (dict(halves, outer=[outer]), "1 optimizers"),
                      (dict(halves, outer=[outer, outer]), "not in the outer optimizer"),
                      (dict(world=3), "not a process group")):
        try:
            make(**bad)
        except (ValueError, libsched.ArgumentError) as error:
            assert text in str(error), error
        else:
            raise AssertionError(f"{text}: was made")
    if its.size > 1:
        try:
            make(sync_every=0 if its.rank == 1 else 4)
        except (ValueError, libsched.Error) as error:
            assert "sync_every is 0" in str(error), error
        else:
            raise AssertionError("was made although rank 1 has refused")
    with make() as diloco:
        state = diloco.state_dict()
        state["fragments"][0]["names"] = ["x"]
        try:
            diloco.load_state_dict(state)
        except ValueError as error:
            assert "other fragments" in str(error), error
        else:
            raise AssertionError("was loaded")


if __name__ == "__main__":
    main(globals(), Ranks)
