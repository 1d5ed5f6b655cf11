# SPDX-License-Identifier: MIT
"""Beside torch, where it is installed."""
import numpy
import pytest
from conftest import chain

import oort

torch = pytest.importorskip("torch")


def test_tensors_go_in_and_out_without_copies(digits, picture):
    tensor = torch.from_numpy(picture)
    result = digits(tensor)
    assert isinstance(result, torch.Tensor) and numpy.array_equal(result.numpy(), digits(picture))
    kept = result[0]
    del result
    assert numpy.array_equal(kept.numpy(), digits(picture)[0])


def test_bf16_passes():
    net = oort.load(chain(["torch.flatten f 1 1 a b start_dim=0 end_dim=-1"], dtype="bf16"))
    x = torch.tensor([1.5, 2, 3, 4], dtype=torch.bfloat16)
    assert net(x).dtype == torch.bfloat16 and torch.equal(net(x), x)


def test_both_compute_by_turns_and_keep_their_answers(digits, picture):
    expected = digits(picture)
    a = torch.ones(300, 300)
    for _ in range(20):
        assert torch.equal(a @ a, torch.full((300, 300), 300.0))
        assert numpy.array_equal(digits(picture), expected)


def test_from_torch(tmp_path):
    pytest.importorskip("pnnx")
    module = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1))
    net = oort.from_torch(module, torch.zeros(1, 1, 8, 8), torch.zeros(2, 1, 12, 12), folder=tmp_path)
    for shape in ((1, 1, 8, 8), (3, 1, 10, 9)):
        x = torch.rand(shape)
        assert torch.allclose(net(x), module(x), atol=1e-5)
    assert (tmp_path / "model.pnnx.param").exists() and module.training


def test_what_cannot_be_exported_is_said_in_a_sentence():
    pytest.importorskip("pnnx")

    class Broken(torch.nn.Module):
        def forward(self, x):
            raise RuntimeError("not today")

    with pytest.raises(oort.Unsupported, match="torch cannot trace the module: not today"):
        oort.from_torch(Broken(), torch.zeros(1))


def test_tracing_leaves_each_part_in_its_own_mode(tmp_path):
    from oort import _torch

    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(), torch.nn.BatchNorm1d(4))
    module[2].eval()
    modes = [part.training for part in module.modules()]
    _torch._trace(module, (torch.zeros(2, 4),), str(tmp_path / "model.pt"))
    assert [part.training for part in module.modules()] == modes == [True, True, True, False]
    with pytest.raises(oort.Unsupported):
        _torch._trace(module, (torch.zeros(2, 5),), str(tmp_path / "model.pt"))
    assert [part.training for part in module.modules()] == modes


def test_tensors_of_classes_of_programs_are_tensors(digits, picture):
    class Mine(torch.Tensor):
        pass

    result = digits(torch.from_numpy(picture).as_subclass(Mine))
    assert isinstance(result, torch.Tensor) and numpy.array_equal(result.numpy(), digits(picture))


def test_devices_and_dtypes_of_torch(digits, picture):
    assert oort.load("models/digits", device=torch.device("cpu")).device == "cpu"
    assert str(digits.info(torch.from_numpy(picture))) == str(digits.info(picture))
