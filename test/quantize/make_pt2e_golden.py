#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A network that torch's PT2E quantized, by way of tools/pt2e.py and pnnx, with what torch answers.

    pip install 'torch==2.5.1' numpy pnnx
    test/quantize/make_pt2e_golden.py
"""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
from torch import nn
from torch.ao.quantization.quantize_pt2e import convert_pt2e, prepare_pt2e
from torch.ao.quantization.quantizer import xnnpack_quantizer

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent / "tools"))
import pt2e  # noqa: E402


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(3, 16, 3, 2, 1)
        self.c2 = nn.Conv2d(16, 16, 3, 1, 1, groups=16)
        self.c3 = nn.Conv2d(16, 16, 1)
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.c1(x)), 2)
        x = torch.relu(self.c3(torch.relu(self.c2(x))) + x)
        return self.fc(torch.flatten(x.mean((2, 3), keepdim=True), 1))


def main():
    torch.manual_seed(0)
    example = torch.randn(1, 3, 16, 16)
    exported = torch.export.export_for_training(Net().eval(), (example,)).module()
    quantizer = xnnpack_quantizer.XNNPACKQuantizer().set_global(
        xnnpack_quantizer.get_symmetric_quantization_config(is_per_channel=True))
    prepared = prepare_pt2e(exported, quantizer)
    for _ in range(8):
        prepared(torch.randn(1, 3, 16, 16))
    converted = convert_pt2e(prepared)
    answer = converted(example)
    module = pt2e.fake_quantized(converted)
    assert torch.equal(module(example), answer)
    folder = HERE / "goldens" / "pt2e"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        torch.jit.trace(module, example).save(f"{work}/model.pt")
        subprocess.run(["pnnx", "model.pt", "inputshape=[1,3,16,16]"], cwd=work, check=True, stdout=subprocess.DEVNULL)
        for end in ("param", "bin"):
            (folder / f"model.pnnx.{end}").write_bytes(pathlib.Path(f"{work}/model.pnnx.{end}").read_bytes())
    np.save(folder / "in0.npy", example.numpy())
    np.save(folder / "out0.npy", answer.detach().numpy())


if __name__ == "__main__":
    main()
