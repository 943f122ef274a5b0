"""Arrays in device memory, and rounds in the order of streams, under the fake driver."""

import ctypes
import gc
import os

import numpy as np
import pytest

import libsched
from conftest import LIMIT, as_threads, launch
from device_memory import Device, call, cuda, leaks, missing

pytestmark = pytest.mark.skipif(bool(missing), reason=missing)

COUNT = 1000


@pytest.fixture(autouse=True)
def everything_is_given_back():
    """Checks that the test and the library have freed all objects of the driver."""
    yield
    gc.collect()
    assert leaks() == ""


def on_devices(ranks, body, **options):
    """Calls body(world, device) in one thread for each rank, with an attached device."""

    def run(world):
        with Device() as device:
            world.attach_cuda(0, staging_bytes=1 << 20, **options)
            return body(world, device)

    return as_threads(ranks, run)


def given(rank, count=COUNT, dtype="f4"):
    return ((np.arange(count) * 7 + rank * 5) % 11 - 3).astype(dtype)


@pytest.mark.parametrize("offers", ["dlpack", "interface"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i4", "i8", "u1", "c8"])
def test_allreduce_of_every_protocol(offers, dtype):
    def body(world, device):
        source = device.array(given(world.rank, dtype=dtype), offers=offers)
        target = device.array(np.zeros(COUNT, dtype), offers=offers)
        with world.allreduce(source, target) as step:
            step.run(LIMIT)
            wanted = sum(given(r, dtype=dtype) for r in range(world.size)).astype(dtype)
            assert np.array_equal(target.read(), wanted)
        source.free(), target.free()

    on_devices(3, body)


def test_collectives_have_the_bits_of_host_memory():
    def body(world, device):
        size = world.size
        mine = given(world.rank, 8 * size) / 3
        makes = [
            (lambda x, y: world.allreduce(x, y, divisor="ranks"), mine, np.zeros_like(mine)),
            (lambda x, y: world.allreduce(x, y, "max"), mine, np.zeros_like(mine)),
            (lambda x, y: world.reduce(x, y, root=1), mine, np.zeros_like(mine)),
            (lambda x, y: world.scan(x, y), mine, np.zeros_like(mine)),
            (lambda x, y: world.allgather(x, y), mine, np.zeros(8 * size * size, "f4")),
            (lambda x, y: world.gather(x, y, root=1), mine, np.zeros(8 * size * size, "f4")),
            (lambda x, y: world.scatter(x, y, root=1), mine, np.zeros(8, "f4")),
            (lambda x, y: world.reduce_scatter(x, y), mine, np.zeros(8, "f4")),
            (lambda x, y: world.alltoall(x, y), mine, np.zeros_like(mine)),
            (lambda x, y: world.adasum(x, y), mine, np.zeros_like(mine)),
        ]
        for number, (make, source, target) in enumerate(makes):
            with make(source, target) as step:
                step.run(LIMIT)
            theirs = device.array(source), device.array(np.zeros_like(target))
            with make(*theirs) as step:
                step.run(LIMIT)
                step.run(LIMIT)
            assert np.array_equal(theirs[1].read(), target), number
            for each in theirs:
                each.free()
        buffer = device.array(given(world.rank))
        with world.bcast(buffer, root=1) as step:
            step.run(LIMIT)
        assert np.array_equal(buffer.read(), given(1))
        buffer.free()

    on_devices(3, body)


def test_pinned_and_managed_memory_is_the_hosts():
    def body(world, device):
        for kind in ("pinned", "managed"):
            array = device.array(given(world.rank), kind)
            with world.allreduce(array) as step:
                step.run(LIMIT)
            assert np.array_equal(array.read(), given(0) + given(1)), kind
            with world.mailbox() as box:
                sent = box.send(1 - world.rank, array)
                got = np.zeros(COUNT, "f4")
                box.receive(1 - world.rank, got).wait(LIMIT)
                sent.wait(LIMIT)
            assert np.array_equal(got, given(0) + given(1)), kind
            array.free()

    on_devices(2, body)


def test_ranks_may_have_devices_and_others_none():
    def body(world):
        with Device() as device:
            if world.rank == 1:
                world.attach_cuda(0, staging_bytes=1 << 20)
            assert world.has_device == (world.rank == 1)
            array = device.array(given(world.rank)) if world.rank == 1 else given(world.rank)
            with world.allreduce(array) as step:
                step.run(LIMIT)
            result = array.read() if world.rank == 1 else array
            assert np.array_equal(result, given(0) + given(1))
            if world.rank == 1:
                array.free()

    as_threads(2, body)


def test_one_device_serves_all_worlds_that_come_of_the_one_that_was_opened():
    def body(world, device):
        with world.split(0) as part:
            assert part.has_device
            with pytest.raises(libsched.StateError, match="already"):
                part.attach_cuda(0)
            array = device.array(given(world.rank))
            with part.allreduce(array) as step:
                step.run(LIMIT)
            assert np.array_equal(array.read(), given(0) + given(1))
            array.free()

    on_devices(2, body)


def test_a_device_is_attached_first_and_is_one_that_there_is():
    def body(world):
        with Device() as device:
            array = device.array(given(0))
            with pytest.raises(libsched.ArgumentError, match="input 0: .*lsched_cuda_attach"):
                world.allreduce(array)
            with pytest.raises(libsched.ArgumentError, match="device 7"):
                world.attach_cuda(7)
            with world.allreduce(np.zeros(COUNT)) as step:
                with pytest.raises(libsched.StateError, match="attach_cuda"):
                    step.start_on_stream(0)
            assert not world.has_device
            array.free()

    as_threads(1, body)


def test_what_is_refused_of_an_array():
    def body(world, device):
        content = given(0, 12).reshape(3, 4)
        with_gaps = [device.array(content, offers=how, strides=(1, 3)) for how in ("dlpack", "interface")]
        read_only = [device.array(content, offers=how, is_read_only=True) for how in ("dlpack", "interface")]
        short = [device.array(np.zeros(12, "i2"), offers=how) for how in ("dlpack", "interface")]
        right, longer = device.array(content), device.array(given(0, 13))
        other = device.array(given(0, 12, "f8"), offers="interface")
        cases = [*((lambda x=x: world.allreduce(x), "input: .*not contiguous") for x in with_gaps),
                 *((lambda x=x: world.allreduce(x), "input: .*read-only") for x in read_only),
                 *((lambda x=x: world.allreduce(x), "dtype of With.* is not one of") for x in short),
                 (lambda: world.allreduce(right, longer), "12 elements and output 13"),
                 (lambda: world.allreduce(right, other), "different dtypes: float32 and float64"),
                 (lambda: world.allreduce(right, dtype="f8"), "4 bytes, but float64 has 8")]
        for call_of, words in cases:
            with pytest.raises(libsched.ArgumentError, match=words):
                call_of()
        for each in read_only:  # a read-only array may be an input
            target = np.zeros_like(content)
            with world.allreduce(each, target) as step:
                step.run(LIMIT)
            assert np.array_equal(target, content)
        for each in (*with_gaps, *read_only, *short, right, longer, other):
            each.free()

    on_devices(1, body)


class Claims:
    """An object with the __cuda_array_interface__ of an array, in which the test has changed some entries."""

    def __init__(self, of, **changes):
        self.__cuda_array_interface__ = {**of.__cuda_array_interface__, **changes}


@pytest.mark.parametrize("changes, words", [
    ({"typestr": ""}, "typestr"), ({"typestr": "f4"}, "typestr"), ({"typestr": 4}, "typestr"),
    ({"typestr": "<M8[ns]"}, "dtype of Claims is not one of"), ({"typestr": ">f4"}, "byte order"),
    ({"shape": None}, "shape"), ({"shape": 12}, "shape"), ({"shape": (3, -4)}, "shape"), ({"shape": (12.0,)}, "shape"),
    ({"shape": (2**40, 2**40)}, "shape"), ({"strides": (8,)}, "contiguous"), ({"strides": (4, 4)}, "strides"),
    ({"strides": ("4",)}, "strides"), ({"strides": 4}, "strides"), ({"data": None}, "data"), ({"data": (1,)}, "data"),
    ({"data": (-1, False)}, "data"), ({"data": (2**64, False)}, "data"), ({"data": ("1", False)}, "data"),
    ({"data": (None, False)}, "null"), ({"mask": 3}, "mask")])
def test_a_malformed_interface_is_refused(changes, words):
    def body(world, device):
        right = device.array(given(0, 12), offers="interface")
        with pytest.raises(libsched.ArgumentError, match=f"input.* {words}"):
            world.allreduce(Claims(right, **changes))
        lacking = Claims(right)
        for name in ("data", "typestr", "shape"):
            value = lacking.__cuda_array_interface__.pop(name)
            with pytest.raises(libsched.ArgumentError, match=name):
                world.allreduce(lacking)
            lacking.__cuda_array_interface__[name] = value
        right.free()

    on_devices(1, body)


def test_bits_of_bfloat16_and_empty_arrays():
    def body(world, device):
        for offers in ("dlpack", "interface"):
            bits = device.array(np.full(5, 0x3F80, "i2"), offers=offers)
            with world.allreduce(bits, dtype="bfloat16") as step:
                step.run(LIMIT)
            assert np.array_equal(bits.read(), np.full(5, 0x4000))
            nothing = device.array(np.zeros(0, "f4"), offers=offers)
            with world.allreduce(nothing) as step:
                step.run(LIMIT)
            bits.free(), nothing.free()

    on_devices(2, body)


def test_where_the_host_reads_and_writes_device_memory_is_refused():
    def body(world, device):
        array, numbers = device.array(given(0)), device.array(np.zeros(1, "i8"))
        host = given(0)
        with world.mailbox() as box, world.partial(COUNT, "f4") as sums, \
                world.collective("alltoallv", dtype="f4", capacity=libsched.ANY_COUNT) as lists:
            ticket = sums.offer(host)
            for call_of in (lambda: box.send(0, array), lambda: box.receive(0, array), lambda: sums.offer(array),
                            lambda: sums.collect(ticket, array, LIMIT),
                            lambda: lists.start_with(array, host, send_counts=[1], recv_counts=[1]),
                            lambda: lists.start_with(host, array, send_counts=[1], recv_counts=[1]),
                            lambda: lists.start_with(host, host, send_counts=numbers, recv_counts=[1])):
                with pytest.raises(libsched.Unsupported, match="memory of a device"):
                    call_of()
            sums.collect(ticket, host, LIMIT)
        with world.adasum(array) as step:
            step.run(LIMIT)
            with pytest.raises(libsched.Unsupported):
                step.non_finite_tensors()
        array.free(), numbers.free()

    on_devices(1, body)


def test_sparse_allreduces_have_the_bits_of_the_cpu():
    results = {}

    def body(world, device):
        on_device = [device.array(given(world.rank)), device.array(np.zeros(COUNT, "f4"))]
        on_host = [given(world.rank), np.zeros(COUNT, "f4")]
        other = np.zeros(COUNT, "f4")
        for first, second in (on_device[0], other), (other, on_device[1]):
            with pytest.raises(libsched.Unsupported, match="only partly"):
                world.sparse_allreduce(first, second, 3)
        with world.sparse_allreduce(*on_device, 3) as there, world.sparse_allreduce(*on_host, 3) as here:
            for _ in range(3):
                there.run(LIMIT), here.run(LIMIT)
                results[world.rank] = on_device[1].read().tolist() == on_host[1].tolist()
            with pytest.raises(libsched.Unsupported, match="save"):
                there.residual()
            residual = bytes(here.residual().cast("B"))
            assert there.save()[-len(residual):] == here.save()[-len(residual):] == residual
        for one in on_device:
            one.free()

    on_devices(2, body)
    assert results == {0: True, 1: True}


def test_rebind_takes_memory_of_the_same_place():
    def body(world, device):
        first, second, host = device.array(given(world.rank)), device.array(given(world.rank + 2)), given(0)
        gone = device.array(given(0))
        address = gone.address
        gone.free()
        with world.allreduce(first) as step:
            step.run(LIMIT)
            with pytest.raises(libsched.ArgumentError, match="of the host: the schedule needs memory of a device"):
                step.rebind(output=host)
            gone.address = address
            with pytest.raises(libsched.ArgumentError):
                step.rebind(output=gone)
            step.rebind(output=second)
            step.run(LIMIT)
        assert np.array_equal(first.read(), given(0) + given(1))
        assert np.array_equal(second.read(), given(2) + given(3))
        with pytest.raises(libsched.ArgumentError, match="freed"):
            world.allreduce(gone)
        with world.allreduce(host) as step:
            with pytest.raises(libsched.ArgumentError, match="of a device: the schedule needs memory of the host"):
                step.rebind(output=first)
        gone.address = 0
        first.free(), second.free()

    on_devices(2, body)


def test_arrays_are_kept_while_a_schedule_has_them_and_no_stream_is_waited_for():
    def body(world, device):
        for is_versioned in (True, False):
            array = device.array(given(0), is_versioned=is_versioned)
            step = world.allreduce(array)
            gc.collect()
            assert array.exports == 1 and array.looks == [-1]
            step.run(LIMIT)
            step.close()
            gc.collect()
            assert array.exports == 0
            array.free()

    on_devices(1, body)


def test_builders_and_texts_take_device_memory():
    def body(world, device):
        other = 1 - world.rank
        to = world.builder("exchange")
        mine, theirs = to.input("f4", COUNT), to.output("f4", COUNT)
        to.send(other, 0, mine[:])
        to.recv(other, 0, theirs[:])
        source, target = device.array(given(world.rank)), device.array(np.zeros(COUNT, "f4"))
        with to.commit([source], [target]) as step:
            step.run(LIMIT)
            assert np.array_equal(target.read(), given(other))
        source.free(), target.free()

    on_devices(2, body)


def test_depths_take_device_memory_with_each_round():
    def body(world, device):
        arrays = [device.array(given(world.rank + 2 * i)) for i in range(2)]
        with world.allreduce(arrays[0], depth=2) as step:
            for ticket in [step.start_with(each, each) for each in arrays]:
                ticket.wait(LIMIT)
        for i, each in enumerate(arrays):
            assert np.array_equal(each.read(), given(2 * i) + given(2 * i + 1))
            each.free()

    on_devices(2, body)


# --- streams -------------------------------------------------------------------------------------------------------


class Protocol:
    """A stream with the protocol of cuda.core."""

    def __init__(self, handle, version=0):
        self._told = version, handle

    def __cuda_stream__(self):
        return self._told


class Torchs:
    def __init__(self, handle):
        self.cuda_stream = handle


class Cupys:
    def __init__(self, handle):
        self.ptr = handle


@pytest.mark.parametrize("kind", [int, Protocol, Torchs, Cupys])
@pytest.mark.parametrize("host_waits", [False, True])
def test_rounds_follow_a_stream_and_it_follows_them(kind, host_waits):
    rounds = 12

    def body(world, device):
        source, target = device.array(np.zeros(COUNT, "f4")), device.array(np.zeros(COUNT, "f4"))
        brought = [device.array(given(world.rank + i), "pinned") for i in range(rounds)]
        taken = [device.array(np.zeros(COUNT, "f4"), "pinned") for i in range(rounds)]
        with device.stream() as handle, world.allreduce(source, target) as step:
            stream = kind(handle)
            for i in range(rounds):
                call("cuMemcpyAsync", source.address, brought[i].address, source.bytes, handle)
                ticket = step.start_on_stream(stream)
                ticket.wait_on_stream(stream)
                call("cuMemcpyAsync", taken[i].address, target.address, target.bytes, handle)
            call("cuStreamSynchronize", handle)
            assert ticket.round == rounds and ticket.test()
            for i in range(rounds):
                assert np.array_equal(taken[i].read(), given(i) + given(i + 1)), i
        for each in (source, target, *brought, *taken):
            each.free()

    on_devices(2, body, host_waits=host_waits)


def test_a_round_waits_for_the_stream_and_a_call_for_neither():
    def body(world, device):
        array = device.array(given(0))
        with device.stream() as stream, device.stream() as other, world.allreduce(array) as step:
            cuda.fake_cuda_hold_stream(stream, 1)
            later = device.array(given(5), "pinned")
            call("cuMemcpyAsync", array.address, later.address, array.bytes, stream)
            tickets = [step.start_on_stream(stream) for _ in range(16)]
            with pytest.raises(libsched.Busy, match="16 rounds"):
                step.start_on_stream(stream)
            with pytest.raises(libsched.StateError):
                step.rebind(output=array)
            tickets[-1].wait_on_stream(other)
            assert not tickets[0].test()
            with pytest.raises(libsched.Timeout):
                tickets[0].wait(0.05)
            assert cuda.fake_cuda_pending(other) == 1
            cuda.fake_cuda_hold_stream(stream, 0)
            call("cuStreamSynchronize", other)
            assert all(ticket.test() for ticket in tickets)
            assert np.array_equal(array.read(), given(5))
        array.free(), later.free()

    on_devices(1, body)


def test_a_stream_goes_on_when_a_round_is_given_up():
    def body(world, device):
        array = device.array(given(0))
        step = world.allreduce(array)
        with device.stream() as stream:
            if world.rank == 0:
                ticket = step.start_on_stream(stream)
                ticket.wait_on_stream(stream)
            with world.barrier() as both:
                both.run(LIMIT)
            if world.rank == 1:
                step.cancel()
            call("cuStreamSynchronize", stream)
            if world.rank == 0:
                with pytest.raises(libsched.Cancelled) as caught:
                    ticket.wait(LIMIT)
                assert caught.value.rank == 1
                for again in (lambda: step.start_on_stream(stream), ticket.test):
                    with pytest.raises(libsched.Cancelled):
                        again()
        step.close(LIMIT)
        array.free()

    on_devices(2, body)


def test_what_is_refused_of_a_stream():
    def body(world, device):
        array = device.array(given(0))
        with world.allreduce(array) as step, device.stream() as stream:
            with pytest.raises(TypeError):
                step.start_on_stream(None)
            for wrong, words in (("stream", "str is not a stream"), (-1, "int is not a"), (2**64, "int is not a"),
                                 (Torchs(None), "Torchs is not a stream"),
                                 (Protocol(stream, version=1), "version 1"), (1.0, "float is not a stream")):
                with pytest.raises(libsched.ArgumentError, match=words):
                    step.start_on_stream(wrong)
            with Device(1) as second, second.stream() as elsewhere:
                with pytest.raises(libsched.ArgumentError, match="another device"):
                    step.start_on_stream(elsewhere)
            graph = ctypes.c_void_p()
            call("cuStreamBeginCapture_v2", stream, 2)
            with pytest.raises(libsched.Unsupported, match="captured"):
                step.start_on_stream(stream)
            call("cuStreamEndCapture", stream, ctypes.byref(graph))
            call("cuGraphDestroy", graph)
            step.start().wait(LIMIT)
        with world.partial(4, "f4") as sums:
            with pytest.raises(libsched.Unsupported, match="partial"):
                sums.start_on_stream(0)
        with Device(1) as second:
            elsewhere = second.array(given(0))
            with pytest.raises(libsched.ArgumentError, match="device 1, but this rank uses device 0"):
                world.allreduce(elsewhere)
            elsewhere.free()
        array.free()

    on_devices(1, body)


PROGRAM = f"""
    sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
    import numpy as np
    from device_memory import Device, cuda
    world, device = libsched.init(), Device().__enter__()
    world.attach_cuda(staging_bytes=1 << 20)
    array = device.array(np.full(1000, world.rank + 1.0))
"""


def test_ranks_that_are_processes():
    done = launch(2, PROGRAM + """
    with world, world.allreduce(array) as step:
        step.run(timeout=20)
        os.write(1, b"the sum is %d\\n" % array.read().min())  # in one piece
    array.free()
    """)
    assert done.status == 0 and done.output.count("the sum is 3") == 2


def test_a_device_that_fails_is_told():
    done = launch(1, PROGRAM + """
    step = world.allreduce(array, device.array(np.zeros(1000)))
    cuda.fake_cuda_fail(b"cuMemcpyAsync:1:719:sticky,cuLaunchKernel:1:719:sticky")
    try:
        step.run(timeout=20)
    except libsched.DeviceError as error:
        print("told:", error.status, flush=True)
    os._exit(0)
    """)
    assert "told: LSCHED_ERR_DEVICE" in done.output


def test_a_schedule_is_freed_once_if_its_device_hangs():
    done = launch(1, PROGRAM + """
    step = world.allreduce(array, device.array(np.zeros(1000)))
    cuda.fake_cuda_fail(b"cuMemcpyAsync:1:hang,cuLaunchKernel:1:hang")
    for call in (lambda: step.run(timeout=0.3), step.cancel, step.close, step.close):
        try:
            call()
            print("returned", flush=True)
        except (libsched.Timeout, libsched.DeviceError) as error:
            print(error.status, flush=True)
    os._exit(0)
    """)
    expected = ["LSCHED_ERR_TIMEOUT", "LSCHED_ERR_DEVICE", "LSCHED_ERR_DEVICE", "returned"]
    assert (done.status, done.output.splitlines()) == (0, expected)
