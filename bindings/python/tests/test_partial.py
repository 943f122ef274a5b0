"""Partial and sparse collectives, messages, builders, proofs and simulations."""

import threading
import time

import numpy as np
import pytest

import fraction_oracle
import libsched
from conftest import LIMIT, as_threads, launch
from waiting import compute_for


@pytest.mark.parametrize("activation", ["full", "solo", "majority", "quorum(2)"])
@pytest.mark.parametrize("lag", ["latest", "accumulate", "history"])
def test_the_ledger_is_exact(activation, lag):
    """Every offer is in exactly one result, in any order of arrival."""

    def body(world):
        offers = 50
        got, mine, result = 0.0, 0, np.zeros(3, "f4")
        with world.partial(3, "f4", activation=activation, lag="accumulate" if lag == "latest" else lag,
                           history=7 if lag == "history" else 0, seed=5) as sums:
            reports = []
            for _ in range(offers):
                ticket = sums.offer(np.ones(3, "f4"))
                report = sums.collect(ticket, result, LIMIT)
                reports.append(report)
                if report.has_result and report.to > report.from_:
                    got, mine = got + result[0], mine + report.mine
            while True:
                report = sums.flush(result, LIMIT)
                reports.append(report)
                if report.has_result and report.to > report.from_:
                    got, mine = got + result[0], mine + report.mine
                if report.to == report.round:
                    break
            assert sums.statistics()["rounds"] >= reports[-1].round
            sums.leave()
        return got, mine

    answers = as_threads(3, body)
    assert all(mine == 50 for _, mine in answers)
    assert all(got == 150 for got, _ in answers)


@pytest.mark.parametrize("activation",
                         ["solo", "majority", "quorum(2)", "deadline(auto)", "quorum(2)+every(8)", "full"])
@pytest.mark.parametrize("count", [3, 1, 0])
def test_a_loop_ends_with_the_same_round_on_all_ranks(activation, count):
    """Rank 1 is slow, so it makes fewer steps. Every offer is in exactly one result."""

    def body(world):
        got = np.zeros(count)
        steps, result = 0, np.zeros(count)

        def add(report):
            if report.has_result and report.to > report.from_:
                got[:] += result

        with world.partial(count, "f8", activation=activation, lag="accumulate") as sums:
            for _ in sums.rounds(range(7), until=30):
                steps += 1
                compute_for(0.002 if world.rank == 1 else 0)
                ticket = sums.offer(np.ones(count))
                assert ticket.round <= 30
                add(sums.collect(ticket, result, LIMIT))
            assert sums.round == 30
            add(sums.flush(result, LIMIT))
            assert sums.round == 31 and list(sums.rounds([1], until=31)) == []
            assert (steps - 1) // 7 < sums.passes <= steps // 7 + 1
            sums.leave()
        return steps, got

    for ranks in (3, 5, 2):
        answers = as_threads(ranks, body)
        total = sum(steps for steps, _ in answers)
        assert all((got == total).all() for _, got in answers)
        steps = [steps for steps, _ in answers]
        if activation == "full":
            assert steps == [30] * ranks
        if activation == "solo":
            assert max(steps) <= 30 and total < 30 * ranks


def test_a_loop_needs_batches_and_steps():
    def body(world):
        with world.partial(1, "f4", activation="solo") as sums:
            with pytest.raises(libsched.ArgumentError, match="can be iterated repeatedly"):
                for _ in sums.rounds(iter([1, 2]), until=1000):
                    sums.collect(sums.offer(np.ones(1, "f4")), None, LIMIT)
            with pytest.raises(libsched.StateError, match="no step was made in pass"):
                for _ in sums.rounds([1, 2], until=1000):
                    pass
            for _ in sums.rounds([1, 2], until=1000):
                break
            round = sums.offer(None).round
            assert sums.skip(round + 100) == 0 or sums.statistics()["rounds"] > round

    as_threads(3, body)


@pytest.mark.parametrize("seed", range(5))
def test_results_are_the_weighted_means_in_fractions(seed):
    """Ranks offer with weights, withdraw offers and die. More rounds: python fraction_oracle.py 100000."""
    fraction_oracle.play(fraction_oracle.trial_of(seed, 200))


def test_an_offer_has_a_weight():
    def body(world):
        with world.partial(2, "f8", buckets=[1, 1], divisor="offers") as sums:
            result, weight = np.zeros(2), world.rank + 1
            report = sums.collect(sums.offer(np.full(2, float(weight)), weight=np.int64(weight)), result, LIMIT)
            assert (report.offers, report.mine, result[0]) == (6, weight, 14 / 6) and result[0] == result[1]
            for index in (1, 0):
                sums.offer_bucket(index, np.ones(1))
            report = sums.collect(sums.offer_end(weight=weight % 3), result, LIMIT)
            assert (report.offers, report.mine, report.contributors) == (3, weight % 3, 2) and (result == 1).all()
            for given in (1.5, -1, 2**64, None):
                with pytest.raises(libsched.ArgumentError, match="weight is .*: give a whole number"):
                    sums.offer(result, weight=given)
            assert sums.offer(None).round == 3
        with world.partial(2, "f4", op="max") as most:
            with pytest.raises(libsched.Unsupported, match="cannot take the weight 2"):
                most.offer(np.ones(2, "f4"), weight=2)

    as_threads(3, body)


def test_a_late_offer_is_scaled_by_its_age():
    """Rank 1 makes rounds 1 and 2 alone. So the first offer of rank 0 is 2 rounds late in round 3."""

    def body(world):
        result = np.zeros(1)
        for age, factor in ((None, 1), ("inverse", 1 / 3), ([1, 0.5], 0.5), (np.array([1, 0.5, 0.25, 0]), 0.25)):
            with world.partial(1, "f8", activation="solo", age=age) as sums, world.barrier() as meet:
                for _ in range(2 * world.rank):
                    sums.collect(sums.offer(np.ones(1)), result, LIMIT)
                meet.run(LIMIT)
                ticket = sums.offer(np.ones(1)) if world.rank == 0 else None
                meet.run(LIMIT)
                report = sums.collect(ticket or sums.offer(np.ones(1)), result, LIMIT)
                while report.to < 3:
                    report = sums.collect(ticket, result, LIMIT)
                assert (report.age_factor, report.offers) == (1 if world.rank == 1 else factor, 2)
                assert result[0] == 1 + factor
        for wrong in ("x", [], [0.5], [1, -1], 3):
            with pytest.raises(libsched.ArgumentError, match="age"):
                world.partial(1, "f8", age=wrong)

    as_threads(2, body)


def test_fragments_take_turns():
    """Each rank offers each fragment once in a turn, and its age is counted in rounds of the fragment."""

    def body(world):
        with world.partial(2, "f4", fragments=3, lag="history", history=5, age=[1, 0.5]) as sums:
            result = np.zeros(2, "f4")
            for turn in range(4):
                for fragment in range(3):
                    report = sums.collect(sums.offer(np.full(2, 1.0 + fragment, "f4")), result, LIMIT)
                    assert (report.fragment, report.to) == (fragment, 3 * turn + fragment + 1)
                    assert (report.offers, result[0], report.age_factor) == (3, 3 + 3 * fragment, 1)
            ticket = sums.offer(np.ones(2, "f4"), fragment=2)  # for round 13, but fragment 2 is moved by round 15
            assert ticket.round == 13
            got = {0: 0.0, 1: 0.0, 2: 0.0}
            report = sums.flush(result, LIMIT)
            while report.from_ < report.to:
                got[report.fragment] += result[0] if report.has_result else 0
                report = sums.collect(ticket, result, LIMIT)
            assert got == {0: 0, 1: 0, 2: 3} and report.round % 3 == 0
            for wrong, text in ((3, "fragment 3 does not exist: the schedule has 3 fragments"), (-1, "fragment is -1")):
                with pytest.raises(libsched.ArgumentError, match=text):
                    sums.offer(result, fragment=wrong)
        with pytest.raises(libsched.ArgumentError, match="fragments is above 1024"):
            world.partial(2, "f4", fragments=1025)

    as_threads(3, body)


@pytest.mark.parametrize("until", [2.5, None, "3", 2**63])
def test_a_loop_ends_with_a_whole_number_on_all_ranks(until):
    def body(world):
        with world.partial(1, "f4", activation="full") as sums:
            with pytest.raises(libsched.ArgumentError, match="until is .*: give a whole number"):
                for _ in sums.rounds([1], until=until if world.rank == 1 else 3):
                    raise AssertionError("a batch was yielded")
            for _ in sums.rounds([1], until=np.int64(2)):
                sums.collect(sums.offer(np.ones(1, "f4")), None, LIMIT)
            assert sums.round == 2

    as_threads(3, body)


@pytest.mark.parametrize("activation", ["full", "solo"])
def test_a_loop_ends_with_the_same_number_on_all_ranks(activation):
    def body(world):
        with world.partial(1, "f4", activation=activation) as sums:
            with pytest.raises(libsched.Mismatch, match="until is 3 on rank 0 and 5 on rank 2") as caught:
                for _ in sums.rounds([1], until=5 if world.rank == 2 else 3):
                    raise AssertionError("a batch was yielded")
            assert caught.value.rank == 2
            for _ in sums.rounds([1], until=2):
                sums.collect(sums.offer(np.ones(1, "f4")), None, LIMIT)

    as_threads(3, body)


@pytest.mark.parametrize("call, has_buckets", [("flush", False), ("flush", True), ("model_sync", False)])
def test_the_other_ranks_do_not_wait_for_a_rank_whose_array_is_refused(call, has_buckets):
    """The other ranks raise long before their timeout."""

    def body(world):
        sums = world.partial(4, "f4", averages_weights=True)
        with world.barrier() as all_have_made_it:
            all_have_made_it.run(LIMIT)
        array = np.zeros(5 if world.rank == 1 else 4, "f4")
        wanted = libsched.ArgumentError if world.rank == 1 else libsched.Cancelled
        with pytest.raises(wanted) as caught:
            getattr(sums, call)([array] if has_buckets else array, timeout=LIMIT)
        assert caught.value.rank == (None if world.rank == 1 else 1)
        sums.close(LIMIT)

    as_threads(3, body)


def test_an_offer_says_why_it_is_refused_now():
    def body(world):
        one = np.ones(5, "f8")
        with world.partial(5, "f8", activation="full", buckets=[2, 3], averages_weights=True) as sums, \
                world.barrier() as all_know:
            sums.offer_bucket(0, one[:2])
            with pytest.raises(libsched.StateError, match="a contribution in buckets is incomplete"):
                sums.offer_end()
            assert sums.withdraw() == 0
            for call, name in ((sums.flush, "lsched_flush"), (sums.model_sync, "lsched_model_sync")):
                if world.rank != 1:
                    with pytest.raises(libsched.Timeout):
                        call(one, timeout=0.01)
                    for refused in (lambda: sums.offer(one), lambda: sums.skip(1), sums.withdraw):
                        with pytest.raises(libsched.StateError, match=f"{name} is incomplete on this rank"):
                            refused()
                all_know.run(LIMIT)
                call(one, timeout=LIMIT)
            sums.leave()
            with pytest.raises(libsched.StateError, match="this rank has left"):
                sums.offer(one)

    as_threads(3, body)


def test_calls_without_a_contribution_buckets_and_what_is_pending():
    def body(world):
        with world.partial(5, "f8", activation="full", buckets=[2, 0, 3]) as sums:
            if world.rank == 0:
                ticket = sums.offer()
            else:
                sums.offer_bucket(2, np.full(3, 3.0))
                sums.offer_bucket(0, np.full(2, 2.0))
                ticket = sums.offer_end()
            parts = [np.zeros(2), np.zeros(0), np.zeros(3)]
            report = sums.collect(ticket, parts, LIMIT)
            assert report.contributors == 2 and report.ranks == 3
            assert (parts[0] == 4).all() and (parts[2] == 6).all()
            ticket = sums.offer([np.ones(2), np.zeros(0), np.ones(3)])
            view, report = sums.collect_view(ticket, LIMIT)
            assert list(view.cast("d")) == [3.0] * 5
            del view
            image = sums.save_pending()
            sums.load_pending(image)
            assert sums.withdraw() == 0
            with pytest.raises(libsched.ArgumentError, match="5 of float64"):
                sums.offer(np.zeros(4))
            with pytest.raises(libsched.ArgumentError, match="5 of float64"):
                sums.offer(np.zeros(5, "f4"))
            sums.flush(None, LIMIT)

    as_threads(3, body)


def test_an_offer_says_what_its_schedule_has_failed_of():
    def body(world):
        with world.partial(3, "f4", activation="solo") as sums, world.barrier() as all_know:
            if world.rank == 2:
                sums.cancel()
            all_know.run(LIMIT)
            with pytest.raises(libsched.Cancelled, match="partial_allreduce") as caught:
                sums.offer(np.ones(3, "f4"))
            assert caught.value.rank == 2

    as_threads(3, body)


def test_weights_become_their_mean():
    def body(world):
        with world.partial(4, "f4", activation="solo", averages_weights=True) as sums:
            weights = np.full(4, world.rank, "f4")
            assert sums.model_sync(weights, LIMIT).contributors == 3
            assert (weights == 1).all()

    as_threads(3, body)


@pytest.mark.parametrize("algorithm", ["oktopk", "topka", "sparseloco"])
def test_sparse_keeps_what_it_does_not_send(algorithm):
    def body(world):
        rng = np.random.default_rng(world.rank)
        gradient, update = np.zeros(100, "f4"), np.zeros(100, "f4")
        total = np.zeros(100)
        brought = np.zeros(100)
        with world.sparse_allreduce(gradient, update, 10, algorithm=algorithm) as step:
            for _ in range(5):
                gradient[:] = rng.standard_normal(100)
                brought += gradient
                step.run(LIMIT)
                total += update
            kept = np.array(step.residual())
            assert step.statistics()["rounds"] == 5
            image = step.save()
        with world.sparse_allreduce(gradient, update, 10, algorithm=algorithm, image=image) as step:
            assert (np.array(step.residual()) == kept).all()
        return total * 3, brought - kept

    answers = as_threads(3, body)
    sent = sum(each[1] for each in answers)
    for total, _ in answers:
        assert np.allclose(total, sent, atol=1e-4)


def test_a_partial_sparse_sum_delivers_the_largest_elements():
    def body(world):
        gradient, update = np.arange(10, dtype="f4") * (world.rank + 1), np.zeros(10, "f4")
        with world.partial(10, "f4", activation="full", lag="accumulate",
                           sparse={"k": 4, "algorithm": "topka"}) as sums:
            report = sums.collect(sums.offer(gradient), update, LIMIT)
            assert report.has_result and report.contributors == 3
        assert np.allclose(update, np.where(np.arange(10) < 6, 0, 2 * np.arange(10)))
        with world.partial(10, "f4", activation="solo", sparse=4) as sums:
            assert sums.collect(sums.offer(gradient), update, LIMIT).has_result

    as_threads(3, body)


def test_coo_adds_what_ranks_bring():
    def body(world):
        indices = np.array([world.rank, 7, 0], "u8")
        values = np.array([1.0, 2.0, 9.0], "f4")
        found, sums, number = np.zeros(8, "u8"), np.zeros(8, "f4"), np.zeros(1, "u8")
        dense = np.zeros(10, "f4")
        with world.coo_allreduce(indices, values, np.array([2], "u8"), found, sums, number, 10, dense=dense) as step:
            step.run(LIMIT)
        assert number[0] == 4 and list(found[:4]) == [0, 1, 2, 7] and list(sums[:4]) == [1, 1, 1, 6]
        assert dense.sum() == 9

    as_threads(3, body)


def test_messages():
    def body(world):
        right, left = (world.rank + 1) % 3, (world.rank - 1) % 3
        with world.mailbox() as box:
            come = np.zeros(4)
            sent = box.send(right, np.full(4, float(world.rank)), tag=5)
            received = box.receive(left, come, tag=5)
            received.wait(LIMIT)
            sent.wait(LIMIT)
            assert (come == left).all() and (received.rank, received.tag, received.bytes) == (left, 5, 32)
            late = box.receive(libsched.ANY_RANK, come)
            assert not late.test()
            with pytest.raises(libsched.Timeout):
                late.wait(0.05)
            late.cancel()
            with pytest.raises(libsched.Cancelled):
                late.wait(LIMIT)
            with world.barrier() as nobody_waits_for_any:
                nobody_waits_for_any.run(LIMIT)
            box.send(right, b"four").wait(LIMIT)
            short = box.receive(left, bytearray(2))
            with pytest.raises(libsched.BoundsError):
                short.wait(LIMIT)
            with pytest.raises(libsched.ArgumentError):
                box.send(3, b"x")
            with world.barrier() as step:
                step.run(LIMIT)

    as_threads(3, body)


def test_a_schedule_by_hand_is_printed_loaded_and_proved():
    def body(world):
        x, y = np.full(4, float(world.rank)), np.zeros(4)
        to = world.builder("ring")
        mine, theirs = to.input("f64", 4), to.output("f64", 4)
        to.send((world.rank + 1) % 3, 0, mine[:])
        to.recv((world.rank - 1) % 3, 0, theirs[:2 + 2])
        with to.commit([x], [y]) as ring:
            ring.run(LIMIT)
            assert (y == (world.rank - 1) % 3).all()
            text = ring.text()
            assert "digraph" in ring.dot()
        y[:] = -1
        with world.load(text, [x], [y]) as again:
            again.run(LIMIT)
        assert (y == (world.rank - 1) % 3).all()
        return text

    texts = as_threads(3, body)
    found = libsched.verify("".join(texts))
    assert found and found.counted["messages"] == 3
    bad = "".join(texts).replace("send 1 tag 0", "send 1 tag 9")
    assert bad == "".join(texts) or not libsched.verify(bad).holds


def test_proofs_and_simulations_need_no_world():
    found = libsched.verify(collective="allreduce", ranks=7, count=100, dtype="f32", op="sum", algorithm="ring")
    assert found.holds and found.counted["algorithm"] == "ring"
    timed = libsched.simulate(collective="allreduce", ranks=7, count=100, dtype="f32", op="sum", algorithm="ring")
    assert timed.seconds == max(timed.finish) and len(timed.finish) == 7
    late = libsched.simulate(collective="allreduce", ranks=7, count=100, dtype="f32", op="sum", algorithm="ring",
                             starts=[0, 0, 0, 1e-3, 0, 0, 0])
    assert late.seconds > 1e-3
    with pytest.raises(libsched.ArgumentError, match="line 1"):
        libsched.verify("nonsense")
    with pytest.raises(libsched.ArgumentError, match="choose one of"):
        libsched.verify(collective="allreduce", ranks=3, count=1, dtype="f32", op="add")


def test_a_deadline_that_a_rank_chooses_itself():
    """Steps take 50 ms. One rank is late. The other ranks wait for about 10 ms, and then have results without the late
    rank."""
    have_results = threading.Barrier(3)

    def body(world):
        one, told = np.ones(4, "f4"), np.zeros(4, "f4")
        with world.partial(4, "f4", activation="deadline(auto)", lag="accumulate") as sums, world.barrier() as come:
            for _ in range(15):
                come.run(LIMIT)
                compute_for(0.05)
                assert sums.collect(sums.offer(one), told, LIMIT).ranks == world.size
            come.run(LIMIT)
            if world.rank == 2:
                have_results.wait(LIMIT)
            begin = time.monotonic()
            sums.collect(sums.offer(one), told, LIMIT)
            waited = time.monotonic() - begin
            if world.rank != 2:
                have_results.wait(LIMIT)
            come.run(LIMIT)
            sums.flush(told, LIMIT)
            return waited

    answers = as_threads(3, body)
    assert max(answers[:2]) < 1 and max(answers[:2]) >= 0.005, answers


def time_of_a_full_round(world, sums, come):
    """Runs rounds in which all ranks call, and returns the duration of the last round in seconds."""
    one, told = np.ones(4, "f4"), np.zeros(4, "f4")
    for _ in range(20):
        begin = time.monotonic()
        report = sums.collect(sums.offer(one), told, LIMIT)
        come.run(LIMIT)
        assert report.contributors == world.size and (told == world.size).all()
    return time.monotonic() - begin


def test_a_grace():
    """A round ends at once if all ranks call. If a rank is late, the round starts without that rank after the grace."""
    have_results = threading.Barrier(3)

    def body(world):
        one, told = np.ones(4, "f4"), np.zeros(4, "f4")
        with world.partial(4, "f4", activation="quorum(2)+grace(400000)", lag="accumulate") as sums:
            with world.barrier() as come:
                all_in_time = time_of_a_full_round(world, sums, come)
                if world.rank == 2:
                    have_results.wait(LIMIT)
                begin = time.monotonic()
                mine = sums.collect(sums.offer(one), told, LIMIT).mine
                waited = time.monotonic() - begin
                if world.rank != 2:
                    have_results.wait(LIMIT)
                come.run(LIMIT)
                begin = time.monotonic()
                assert mine + sums.flush(told, LIMIT).mine == 1
                return all_in_time, waited, time.monotonic() - begin

    answers = as_threads(3, body)
    assert all(each[0] < 0.35 and each[2] < 0.35 for each in answers), answers
    assert all(0.39 <= each[1] < 5 for each in answers[:2]), answers


def test_a_deadline():
    """If all ranks are in time, a round ends at once. If a rank is late, the round ends after the deadline without that
    rank, and a later round has the contribution of the rank."""
    have_results = threading.Barrier(3)

    def body(world):
        one, told = np.ones(4, "f4"), np.zeros(4, "f4")
        with world.partial(4, "f4", activation="deadline(300000)", lag="accumulate") as sums, world.barrier() as come:
            all_in_time = time_of_a_full_round(world, sums, come)
            if world.rank == 2:
                have_results.wait(LIMIT)
            begin = time.monotonic()
            report = sums.collect(sums.offer(one), told, LIMIT)
            waited = time.monotonic() - begin
            if world.rank != 2:
                have_results.wait(LIMIT)
            mine = report.mine
            come.run(LIMIT)
            report = sums.flush(told, LIMIT)
            assert mine + report.mine == 1
            return all_in_time, waited, report.offers

    answers = as_threads(3, body)
    assert all(each[0] < 0.25 for each in answers), answers
    assert answers[0][1] >= 0.29 and answers[2][1] < 0.25, answers
    assert [each[2] for each in answers][:2] == [1, 1], answers


@pytest.mark.parametrize("activation", ["quorum(1)", "full"])
def test_all_shards_of_a_replica_group_get_the_same_rounds(activation):
    """Ranks 2g and 2g + 1 are the shards of group g. The sum of all results is the sum of all offers."""

    def body(world):
        group, shard = divmod(world.rank, 2)
        of_shard = world.split(shard, world.rank)
        reports, total, result = [], np.zeros(2), np.zeros(2)
        with of_shard.partial(2, "f8", activation=activation, lag="accumulate", groups=(world, 2, 1)) as sums:
            for step in range(10):
                mine = np.zeros(2)
                mine[group] = step
                reports.append(sums.collect(sums.offer(mine), result, LIMIT))
                reports[-1] = reports[-1]._replace(staleness=0)  # each rank measures its own staleness
                assert reports[-1].groups >> group & 1 and reports[-1].mine == 1
                total += result
            with pytest.raises(libsched.Error, match="flush"):
                sums.withdraw()
            report = sums.flush(result, LIMIT)
            if report.has_result:
                total += result
            reports.append(report._replace(staleness=0))
        of_shard.close()
        assert total.tolist() == [45, 45]
        return reports

    reports = as_threads(4, body)
    assert reports[0] == reports[1] and reports[2] == reports[3]
    assert reports[0][-1].to == reports[2][-1].to


# The loop of an old rank and of a new rank. Each rank offers a vector of ones in each step.
GROWING_LOOP = """
import subprocess
import numpy as np

def enter(exchange, world):
    if not exchange:
        exchange = world.partial(4, "i64", lag="accumulate", activation="full", joins=True)
    else:
        exchange.carry(world)
    total = np.zeros(4, "i8")
    exchange.flush(total, timeout=30)
    return exchange

def train(exchange, world, steps):
    ones, got, offers = np.ones(4, "i8"), np.zeros(4, "i8"), 0
    while steps > 0:
        grown = world.grow() if world.size < 4 else None
        try:
            if not grown:
                exchange.collect(exchange.offer(ones), got, timeout=30)
        except libsched.PeerLost:
            grown = world.shrink(30)
        if grown:
            exchange, before, world = enter(exchange, grown), world, grown
            before.close()
        elif world.size == 4:
            assert list(got) == [4] * 4, got
            steps -= 1
    exchange.close()
    world.close()
    os.write(1, b"trained to the end\\n")
"""


def test_a_process_joins_a_training_loop(tmp_path):
    joiner = f"""
import os, sys, libsched
{GROWING_LOOP}
world = libsched.join("@{tmp_path}/key", 60)
assert world.rank == 3 and world.size == 4
train(enter(None, world), world, 20)
"""
    (tmp_path / "joiner.py").write_text(joiner)
    done = launch(3, GROWING_LOOP + f"""
world = libsched.init()
exchange = world.partial(4, "i64", lag="accumulate", activation="full")
world.grow_begin("{tmp_path}/key")
if world.rank == 0:
    environment = {{k: v for k, v in os.environ.items() if not k.startswith("LSCHED_RUN")}}
    process = subprocess.Popen([sys.executable, "{tmp_path}/joiner.py"], env=environment)
train(exchange, world, 20)
if world.rank == 0:
    assert process.wait(60) == 0
""")
    assert done.status == 0, done.output
    assert done.output.count("trained to the end") == 4, done.output


def test_wrong_calls_of_a_growth_are_refused():
    def body(world):
        with pytest.raises(libsched.StateError):
            world.grow()
        assert world.grow_end() is None
        with pytest.raises(libsched.ArgumentError, match="/nowhere/key"):
            world.grow_begin("/nowhere/key")
        world.grow_begin()
        with pytest.raises(libsched.StateError):
            world.grow_begin()
        assert world.grow_text().startswith("lsched-door-1:")
        assert world.grow() is None
        assert world.grow(0.01) is None
        assert world.grow_end(30) is None

    as_threads(3, body)
    with pytest.raises(libsched.ArgumentError):
        libsched.join("no text")
    with pytest.raises(libsched.Timeout, match="/nowhere/key"):
        libsched.join("@/nowhere/key", 0.05)
