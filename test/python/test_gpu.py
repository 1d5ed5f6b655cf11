# SPDX-License-Identifier: MIT
"""Arrays of torch, cupy and jax on a GPU, where there is one: they go in and out without a way through the host."""
import types

import numpy
import pytest
from conftest import ROOT, chain

import oort

if not any(name.startswith("cuda") for name in oort.devices()):
    pytest.skip("no GPU that Oort can use", allow_module_level=True)

PLUS_ONE = chain(["pnnx.Expression e 1 1 a b expr=add(@0,1.0)"], shape="(16)")


def torch_kind():
    """What tests want of torch; `keep_busy` queues work of some tenths of a second."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch finds no GPU")
    return types.SimpleNamespace(
        array=lambda x: torch.from_numpy(x).cuda(), host=lambda x: x.cpu().numpy(), address=lambda x: x.data_ptr(),
        fill=lambda x, value: x.fill_(value), keep_busy=lambda: torch.cuda._sleep(500_000_000), kind=torch.Tensor,
    )  # fmt: skip


def cupy_kind():
    cupy = pytest.importorskip("cupy")
    large = cupy.ones((8192, 8192), numpy.float32)

    def keep_busy():
        for _ in range(20):
            large @ large

    keep_busy()  # once, so that nothing is left to be loaded
    return types.SimpleNamespace(
        array=cupy.asarray, host=cupy.asnumpy, address=lambda x: x.data.ptr, fill=lambda x, value: x.fill(value),
        keep_busy=keep_busy, kind=cupy.ndarray,
    )  # fmt: skip


@pytest.fixture(scope="module", params=[torch_kind, cupy_kind], ids=["torch", "cupy"])
def library(request):
    return request.param()


@pytest.fixture(scope="module")
def on_gpu():
    return oort.load(ROOT / "models/digits", device="cuda")


def test_results_lie_beside_the_inputs(library, on_gpu, digits, picture):
    expected = digits(picture)
    array = library.array(picture)
    for _ in range(3):  # the first call finds out shapes, later ones write where the library made room
        result = on_gpu(array)
        assert isinstance(result, library.kind) and result.device == array.device
        assert numpy.allclose(library.host(result), expected, atol=1e-2)
    assert numpy.array_equal(library.host(array), picture)


def test_what_writes_the_elements_is_waited_for(library):
    net = oort.load(PLUS_ONE, device="cuda")
    x = library.array(numpy.zeros(16, numpy.float32))
    for value in range(4):  # the same memory with other elements, which are only queued
        library.keep_busy()
        library.fill(x, value)
        assert numpy.array_equal(library.host(net(x)), numpy.full(16, value + 1.0, numpy.float32))


def test_results_go_into_arrays_of_the_callers(library, on_gpu, picture):
    array, out = library.array(picture), library.array(numpy.zeros((1, 10), numpy.float32))
    place = library.address(out)
    on_gpu.run_into([array], [out])
    assert library.address(out) == place
    assert numpy.array_equal(library.host(out), library.host(on_gpu(array)))


def test_an_array_that_is_not_dense_is_refused(library, on_gpu):
    with pytest.raises(ValueError, match="contiguous"):
        on_gpu(library.array(numpy.zeros((1, 1, 28, 56), numpy.float32))[..., ::2])


def test_host_arrays_still_pass(on_gpu, digits, picture):
    result = on_gpu(picture)
    assert isinstance(result, numpy.ndarray) and numpy.allclose(result, digits(picture), atol=1e-2)


def test_arrays_of_jax_come_as_such(on_gpu, digits, picture):
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("jax finds no GPU")
    array, expected = jax.numpy.asarray(picture), digits(picture)
    for _ in range(3):
        result = on_gpu(array)
        assert isinstance(result, jax.Array) and result.devices() == array.devices()
        assert numpy.allclose(result, expected, atol=1e-2)
        assert numpy.allclose(result * 2, 2 * expected, atol=2e-2)  # jax computes with it, and lets go of it


def test_tensors_of_classes_of_programs_are_waited_for():
    torch = pytest.importorskip("torch")
    library = torch_kind()

    class Mine(torch.Tensor):
        pass

    net = oort.load(PLUS_ONE, device="cuda")
    x = torch.zeros(16, device="cuda")
    for value in range(4):
        library.keep_busy()
        x.fill_(value)
        result = net(x.as_subclass(Mine))
        assert result.device == x.device and torch.equal(result, torch.full((16,), value + 1.0, device="cuda"))


def test_a_device_of_torch_is_one(picture, digits):
    torch = pytest.importorskip("torch")
    net = oort.load(ROOT / "models/digits", device=torch.device("cuda"))
    assert net.device == "cuda:0" and numpy.allclose(net(picture), digits(picture), atol=1e-2)
