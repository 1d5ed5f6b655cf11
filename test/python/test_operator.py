# SPDX-License-Identifier: MIT
"""Operators of Python in networks, and one whose work is done in C++."""
import ctypes
import shutil
import subprocess
import sys
import threading
import time

import numpy
import pytest
from conftest import chain

import oort


class Halves:
    """Cuts a vector in two."""

    def __init__(self, params, weights):
        self.factor = params["factor"]

    def infer(self, x):
        half = oort.Meta((x.shape[0] // 2,), x.dtype)
        return half, half

    def forward(self, x):
        middle = len(x) // 2
        return self.factor * x[:middle], self.factor * x[middle:]


class Wrong:
    """Raises, or gives another shape."""

    def __init__(self, params, weights):
        self.how = params["how"]

    def forward(self, x):
        if self.how == "raise":
            raise KeyError("nothing here")
        return x[:2]


class Raises:
    """Raises what a test wants."""

    what: BaseException

    def __init__(self, params, weights):
        pass

    def forward(self, x):
        raise Raises.what


class RaisesTogether:
    """Raises what its input says, when all threads of a test are there."""

    barrier: threading.Barrier
    what: list

    def __init__(self, params, weights):
        pass

    def forward(self, x):
        number = int(x[0])
        RaisesTogether.barrier.wait(60)
        time.sleep(0.3)  # meanwhile the test takes Python's lock: all wait for it then
        raise RaisesTogether.what[number]


class Infers:
    """Infers what a test wants."""

    gives: object = None

    def __init__(self, params, weights):
        pass

    def infer(self, x):
        return Infers.gives(x) if callable(Infers.gives) else Infers.gives

    def forward(self, x):
        return x


oort.register("test.Raises", Raises)
oort.register("test.RaisesTogether", RaisesTogether)
oort.register("test.Infers", Infers)
oort.register("test.Halves", Halves)
oort.register("test.Wrong", Wrong)


def test_infer_and_several_outputs_and_parameters():
    net = oort.load(chain(["test.Halves h 1 2 a b c factor=3.0", "F.relu r 1 1 c d"], outputs=["b", "d"]))
    first, second = net(numpy.float32([1, 2, -3, 4]))
    assert first.tolist() == [3, 6] and second.tolist() == [0, 12]


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler is here")
def test_the_work_may_be_done_in_cpp(tmp_path):
    source, library = tmp_path / "swish.cpp", tmp_path / "swish.so"
    source.write_text(
        """#include <cmath>
        #include <cstddef>
        extern "C" void swish(const float* x, float* y, std::size_t count, float beta) {
          for (std::size_t i = 0; i < count; ++i) y[i] = x[i] / (1 + std::exp(-beta * x[i]));
        }
        """
    )
    subprocess.run(["c++", "-O1", "-shared", "-fPIC", source, "-o", library], check=True)
    swish = ctypes.CDLL(str(library)).swish
    array = numpy.ctypeslib.ndpointer(numpy.float32, flags="C_CONTIGUOUS")
    swish.argtypes, swish.restype = [array, array, ctypes.c_size_t, ctypes.c_float], None

    class Swish:
        def __init__(self, params, weights):
            self.beta = params.get("beta", 1.0)

        def forward(self, x):
            y = numpy.empty_like(x)
            swish(x, y, x.size, self.beta)
            return y

    oort.register("test.Swish", Swish)
    net = oort.load(chain(["test.Swish s 1 1 a b beta=2.0", "F.relu r 1 1 b c"]))
    x = numpy.float32([-1, 0, 1, 2])
    assert numpy.allclose(net(x), numpy.maximum(x / (1 + numpy.exp(-2 * x)), 0))


def test_other_threads_may_call_it_at_once():
    net = oort.load(chain(["test.Halves h 1 2 a b c factor=2"], outputs=["b", "c"]))
    wrong = []

    def work(i):
        for _ in range(50):
            if net(numpy.full(4, i, numpy.float32))[0].tolist() != [2 * i, 2 * i]:
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_it_raises_is_the_cause():
    net = oort.load(chain(["test.Wrong w 1 1 a b how=raise"]))
    with pytest.raises(oort.Error, match="operator 'w'.*KeyError") as error:
        net(numpy.zeros(4, numpy.float32))
    assert isinstance(error.value.__cause__, KeyError) and error.value.operator == "w"
    with pytest.raises(oort.Error, match="infer\\(\\) said"):
        oort.load(chain(["test.Wrong w 1 1 a b how=short"]))(numpy.zeros(4, numpy.float32))


def test_a_type_is_registered_once_unless_replaced():
    with pytest.raises(oort.InvalidArgument):
        oort.register("test.Halves", Halves)
    with pytest.raises(oort.InvalidArgument):
        oort.register("nn.ReLU", Halves)
    oort.register("test.Halves", Halves, replace=True)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_ends_the_program_comes_as_it_is(kind):
    net = oort.load(chain(["test.Raises r 1 1 a b"]))
    Raises.what = kind("enough")
    for _ in range(2):  # a run that may be long is another thread's, one that may not is this one's
        with pytest.raises(kind) as error:
            net(numpy.zeros(4, numpy.float32))
        assert error.value is Raises.what


@pytest.mark.parametrize("same", [False, True])
def test_each_of_many_threads_gets_what_its_own_operator_raised(same):
    # Of these one text is often the beginning of another, "KeyError: 1" and "KeyError: 12", or all are the same.
    net, count = oort.load(chain(["test.RaisesTogether r 1 1 a b"]), threads=1), 64
    kinds = [KeyboardInterrupt if number % 8 == 7 else KeyError for number in range(count)]
    RaisesTogether.what = [kind(0 if same else number) for number, kind in enumerate(kinds)]
    RaisesTogether.barrier = threading.Barrier(count + 1)
    raised = [None] * count

    def work(number):
        try:
            net(numpy.full(4, number, numpy.float32))
        except BaseException as error:  # noqa: B902
            raised[number] = error

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # who lets go of Python's lock waits for all others before it has it again
    try:
        for thread in threads:
            thread.start()
        RaisesTogether.barrier.wait(60)
        ctypes.PyDLL(None).usleep(700_000)  # keeps the lock, until they all want it
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    for number, error in enumerate(raised):
        if kinds[number] is KeyboardInterrupt:
            assert error is RaisesTogether.what[number]
        else:
            assert isinstance(error, oort.InvalidArgument), repr(error)
            assert error.__cause__ is RaisesTogether.what[number]


def test_memory_that_an_operator_lacks_is_out_of_memory():
    net = oort.load(chain(["test.Raises r 1 1 a b"]))
    Raises.what = MemoryError("too large")
    with pytest.raises(oort.OutOfMemory, match="too large") as error:
        net(numpy.zeros(4, numpy.float32))
    assert error.value.__cause__ is Raises.what


def test_an_exception_without_a_text_is_an_error_all_the_same():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    net = oort.load(chain(["test.Raises r 1 1 a b"]))
    Raises.what = Mute()
    with pytest.raises(oort.InvalidArgument, match="Mute") as error:
        net(numpy.zeros(4, numpy.float32))
    assert error.value.__cause__ is Raises.what


@pytest.mark.parametrize(
    "gives, words",
    [
        (oort.Meta((4,), "f99"), "no dtype of a network: 'f99'"),
        (oort.Meta((4,), None), "no dtype of a network: None"),
        (oort.Meta((None,), "float32"), "a dimension of a shape cannot be None"),
        (oort.Meta(("four",), "float32"), "a dimension of a shape cannot be 'four'"),
        (oort.Meta(5, "float32"), "TypeError"),
        ((oort.Meta((4,), "float32"),) * 2, "gives 2 outputs"),
        (None, "TypeError"),
    ],
)
def test_mistakes_in_infer_are_the_operators_and_said(gives, words):
    Infers.gives = gives
    with pytest.raises(oort.InvalidArgument, match=words) as error:
        oort.load(chain(["test.Infers i 1 1 a b"]))(numpy.zeros(4, numpy.float32))
    assert error.value.operator == "i" and error.value.type == "test.Infers"


@pytest.mark.parametrize("dtype", [numpy.float32, numpy.dtype("float32"), "f32"])
def test_dtypes_of_infer_may_be_those_of_numpy(dtype):
    Infers.gives = lambda x: oort.Meta(x.shape, dtype)
    net = oort.load(chain(["test.Infers i 1 1 a b"]))
    assert net(numpy.ones(4, numpy.float32)).tolist() == [1, 1, 1, 1]


WITHIN_A_LOAD = """
import numpy, threading, oort
def text(kind):
    return (f"7767517\\n3 2\\npnnx.Input in0 0 1 a #a=(4)f32\\n{kind} op 1 1 a b\\npnnx.Output out0 1 0 b\\n").encode()
class Inner:
    def __init__(self, params, weights): pass
    def forward(self, x): return x + 1
class Outer:
    def __init__(self, params, weights):
        oort.register("test.Inner", Inner, replace=True)
        self.net = oort.load(text("test.Inner"))
    def forward(self, x): return self.net(x) + 1
oort.register("test.Outer", Outer)
def progress(phase, done, total):
    thread = threading.Thread(target=lambda: oort.register("test.Other", Inner, replace=True))
    thread.start()
    thread.join()
net = oort.load(text("test.Outer"), progress=progress)
print(net(numpy.zeros(4, numpy.float32)).tolist())
print(oort.load(text("test.Other"))(numpy.zeros(4, numpy.float32)).tolist())
"""


def test_operators_may_be_added_and_networks_loaded_while_one_is_loaded(environment):
    command = [sys.executable, "-c", WITHIN_A_LOAD]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("[2.0, 2.0, 2.0, 2.0]\n[1.0, 1.0, 1.0, 1.0]\n", "")
