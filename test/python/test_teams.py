# SPDX-License-Identifier: MIT
"""Thread teams of several libraries in one process, busy by turns and at once: each keeps its answers, and none waits
for another. What is not installed is left out."""
import subprocess
import sys
import threading

import numpy
import pytest

import oort

SIZE = 192


def matrix(seed):
    return numpy.random.default_rng(seed).integers(-4, 5, (SIZE, SIZE)).astype(numpy.float32)


A, B = matrix(1), matrix(2)
PRODUCT = A @ B  # of small integers: the same in any order of sums


def field(number, value):
    """A field of a protobuf message: a number, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value):
    parts = []
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def onnx_product():
    """The bytes of an ONNX model of one MatMul, for which no package is needed."""
    dim = field(1, field(1, SIZE))
    kind = field(1, field(1, 1) + field(2, dim + dim))

    def port(name):
        return field(1, name) + field(2, kind)

    node = field(1, b"a") + field(1, b"b") + field(2, b"y") + field(4, b"MatMul")
    inputs = field(11, port(b"a")) + field(11, port(b"b"))
    graph = field(1, node) + field(2, b"product") + inputs + field(12, port(b"y"))
    return field(1, 8) + field(7, graph) + field(8, field(2, 17))


def oort_product():
    shape = f"({SIZE},{SIZE})f32"
    text = (
        f"7767517\n4 3\npnnx.Input in0 0 1 a #a={shape}\npnnx.Input in1 0 1 b #b={shape}\n"
        f"torch.matmul m 2 1 a b y\npnnx.Output out0 1 0 y\n"
    )
    net = oort.load(text.encode(), threads=2)
    return lambda: net(A, B)


def numpy_product():
    return lambda: A @ B


def torch_product():
    torch = pytest.importorskip("torch")
    a, b = torch.from_numpy(A), torch.from_numpy(B)
    return lambda: (a @ b).numpy()


def onnxruntime_product():
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    session = onnxruntime.InferenceSession(onnx_product(), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"a": A, "b": B})[0]


def installed():
    """A function for each library that is here, by its name."""
    found = {"oort": oort_product(), "numpy": numpy_product()}
    for name, make in (("torch", torch_product), ("onnxruntime", onnxruntime_product)):
        try:
            found[name] = make()
        except pytest.skip.Exception:
            pass
    return found


def test_teams_compute_by_turns():
    products = installed()
    for _ in range(40):
        for name, product in products.items():
            assert numpy.array_equal(product(), PRODUCT), name


def test_teams_compute_at_once(storyteller):
    expected = storyteller.generate("Once upon a time", max_tokens=24).text
    products = installed()
    wrong, start = [], threading.Barrier(len(products) + 1)

    def work(name, product):
        start.wait()
        for _ in range(40):
            if not numpy.array_equal(product(), PRODUCT):
                wrong.append(name)

    def tell():
        start.wait()
        for _ in range(4):
            if "".join(storyteller.generate("Once upon a time", max_tokens=24, stream=True)) != expected:
                wrong.append("a language model")

    threads = [threading.Thread(target=work, args=pair, daemon=True) for pair in products.items()]
    threads.append(threading.Thread(target=tell, daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=300)
    assert not wrong and not any(thread.is_alive() for thread in threads)


def test_no_openmp_comes_along(environment):
    program = """
import numpy, oort
before = open("/proc/self/maps").read()
oort.load("models/digits", threads=2)(numpy.zeros((1, 1, 28, 28), numpy.float32))
oort.LanguageModel("models/storyteller", threads=2).generate("A", max_tokens=4)
found = {line.rsplit("/", 1)[-1] for line in open("/proc/self/maps").read().splitlines()} - {
    line.rsplit("/", 1)[-1] for line in before.splitlines()}
print(*sorted(name for name in found if "omp" in name))
"""
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
