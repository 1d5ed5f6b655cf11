# SPDX-License-Identifier: MIT
"""Operators of Python in networks, and one whose work is done in C++."""
import ctypes
import shutil
import subprocess
import threading

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
