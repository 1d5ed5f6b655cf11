# SPDX-License-Identifier: MIT
"""Arrays of torch on a GPU, where there is one: they go in and out without a way through the host."""
import numpy
import pytest
from conftest import ROOT, chain

import oort

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or not any(name.startswith("cuda") for name in oort.devices()):
    pytest.skip("no GPU that torch and Oort can use", allow_module_level=True)


@pytest.fixture(scope="module")
def on_gpu():
    return oort.load(ROOT / "models/digits", device="cuda")


def test_results_lie_beside_the_inputs(on_gpu, digits, picture):
    expected = digits(picture)
    tensor = torch.from_numpy(picture).cuda()
    for _ in range(3):  # the first call finds out shapes, later ones write where torch made room
        result = on_gpu(tensor)
        assert result.device == tensor.device
        assert numpy.allclose(result.cpu().numpy(), expected, atol=1e-2)
    assert numpy.array_equal(tensor.cpu().numpy(), picture)


def test_the_elements_are_read_where_they_are():
    net = oort.load(chain(["pnnx.Expression e 1 1 a b expr=add(@0,1.0)"], shape="(16)"), device="cuda")
    x = torch.zeros(16, device="cuda")
    for value in range(4):  # the same memory with other elements, which torch has only queued
        x.fill_(value)
        assert torch.equal(net(x), torch.full((16,), value + 1.0, device="cuda"))


def test_results_go_into_tensors_of_the_callers(on_gpu, picture):
    tensor = torch.from_numpy(picture).cuda()
    out = torch.zeros(1, 10, device="cuda")
    place = out.data_ptr()
    on_gpu.run_into([tensor], [out])
    assert out.data_ptr() == place and torch.equal(out, on_gpu(tensor))


def test_host_arrays_still_pass(on_gpu, digits, picture):
    result = on_gpu(picture)
    assert isinstance(result, numpy.ndarray) and numpy.allclose(result, digits(picture), atol=1e-2)


def test_a_tensor_that_is_not_dense_is_refused(on_gpu):
    with pytest.raises(ValueError, match="contiguous"):
        on_gpu(torch.zeros(28, 28, 1, 1, device="cuda").permute(2, 3, 1, 0))


def test_tensors_of_classes_of_programs_are_waited_for():
    class Mine(torch.Tensor):
        pass

    net = oort.load(chain(["pnnx.Expression e 1 1 a b expr=add(@0,1.0)"], shape="(16)"), device="cuda")
    x = torch.zeros(16, device="cuda")
    for value in range(4):
        x.fill_(value)
        result = net(x.as_subclass(Mine))
        assert result.device == x.device and torch.equal(result, torch.full((16,), value + 1.0, device="cuda"))


def test_a_device_of_torch_is_one(picture, digits):
    net = oort.load(ROOT / "models/digits", device=torch.device("cuda"))
    assert net.device == "cuda:0" and numpy.allclose(net(picture), digits(picture), atol=1e-2)
