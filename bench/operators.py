#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times operators beside torch eager: one or more cases for each family of layers/.

    pip install -r tools/requirements.txt
    bench/operators.py --oort build/oort                      a table, slowest against torch first
    bench/operators.py --oort build/oort --only norm --json

Each case is exported through pnnx once (kept in --cache) and then timed in turns, torch and Oort, so that a busy
machine disturbs both; what counts is the fastest run of each. A ratio above 1 means that Oort is slower.
"""
import argparse
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "tools"))
import numpy as np  # noqa: E402
import pnnx_case  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torchvision import ops  # noqa: E402


class Call(nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


class First(nn.Module):
    """The first output of a module, which is what most users keep of a recurrent layer."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *inputs):
        return self.module(*inputs)[0]


class SelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]


def cases():
    """(family, name, module, inputs)"""
    rand = torch.rand
    image = rand(1, 64, 56, 56)
    tokens = rand(4, 128, 384)
    vector = rand(1024, 1024) * 4 - 2
    ids = torch.randint(0, 1000, (8, 128))
    yield "activation", "relu 1M", nn.ReLU(), [vector]
    yield "activation", "gelu 1M", nn.GELU(), [vector]
    yield "activation", "gelu tanh 1M", nn.GELU(approximate="tanh"), [vector]
    yield "activation", "silu 1M", nn.SiLU(), [vector]
    yield "activation", "sigmoid 1M", nn.Sigmoid(), [vector]
    yield "activation", "tanh 1M", nn.Tanh(), [vector]
    yield "activation", "mish 1M", nn.Mish(), [vector]
    yield "activation", "hardswish 1M", nn.Hardswish(), [vector]
    yield "activation", "elu 1M", nn.ELU(), [vector]
    yield "activation", "prelu 64x56x56", nn.PReLU(64), [image]
    yield "expression", "a * b + a, 1M", Call(lambda a, b: a * b + a), [vector, rand(1024, 1024)]
    yield "expression", "broadcast row, 1M", Call(lambda a, b: a * b), [vector, rand(1024)]
    yield "expression", "broadcast column, 1M", Call(lambda a, b: a + b), [vector, rand(1024, 1)]
    yield "expression", "exp(a) / (1 + b), 1M", Call(lambda a, b: a.exp() / (1 + b)), [vector, rand(1024, 1024)]
    yield "elementwise", "clamp 1M", Call(lambda x: torch.clamp(x, -1, 1)), [vector]
    yield "elementwise", "pow 1M", Call(lambda x: torch.pow(x, 3)), [vector]
    yield "elementwise", "where 1M", Call(lambda x, y: torch.where(x > y, x, y)), [vector, rand(1024, 1024)]
    yield "elementwise", "i64 sum 1M", Call(lambda x, y: x + y), [torch.randint(0, 9, (1024, 1024))] * 2
    yield "convolution", "3x3 64 56x56", nn.Conv2d(64, 64, 3, padding=1), [image]
    yield "convolution", "1x1 256 28x28", nn.Conv2d(256, 256, 1), [rand(1, 256, 28, 28)]
    yield "convolution", "depthwise 3x3 64 56x56", nn.Conv2d(64, 64, 3, padding=1, groups=64), [image]
    yield "convolution", "transposed 4x4 64 28x28", nn.ConvTranspose2d(64, 32, 4, 2, 1), [rand(1, 64, 28, 28)]
    yield "convolution", "1d 64 k5 4000", nn.Conv1d(64, 64, 5, padding=2), [rand(1, 64, 4000)]
    yield "convolution", "3d 16 k3 16x32x32", nn.Conv3d(16, 16, 3, padding=1), [rand(1, 16, 16, 32, 32)]
    yield "convolution", "unfold 64 k3 56x56", nn.Unfold(3, padding=1), [image]
    yield "convolution", "fold 64 k3 56x56", nn.Fold((56, 56), 3, padding=1), [rand(1, 576, 3136)]
    deformed = Call(ops.DeformConv2d(64, 64, 3, padding=1))
    yield "convolution", "deformed 3x3 64 56x56", deformed, [image, rand(1, 18, 56, 56) * 4 - 2]
    yield "linear", "linear 512x384x1536", nn.Linear(384, 1536), [rand(512, 384)]
    yield "linear", "linear 1x1024x1024", nn.Linear(1024, 1024), [rand(1, 1024)]
    yield "linear", "matmul 12x(128x64x128)", Call(torch.matmul), [rand(12, 128, 64), rand(12, 64, 128)]
    einsum = Call(lambda a, b: torch.einsum("bhid,bhjd->bhij", a, b))
    yield "linear", "einsum bhid,bhjd->bhij", einsum, [rand(2, 6, 128, 64)] * 2
    yield "attention", "sdpa 12 heads 256", Call(F.scaled_dot_product_attention), [rand(1, 12, 256, 64)] * 3
    yield "attention", "multihead 4x128x384", SelfAttention(384, 6), [tokens]
    yield "recurrent", "lstm 50x8x256", First(nn.LSTM(256, 256)), [rand(50, 8, 256)]
    yield "recurrent", "gru 50x8x256", First(nn.GRU(256, 256)), [rand(50, 8, 256)]
    yield "norm", "layer_norm 512x384", nn.LayerNorm(384), [tokens]
    yield "norm", "batch_norm 64x56x56", nn.BatchNorm2d(64).eval(), [image]
    yield "norm", "group_norm 64x56x56", nn.GroupNorm(8, 64), [image]
    yield "norm", "instance_norm 64x56x56", nn.InstanceNorm2d(64), [image]
    yield "norm", "normalize 512x384", Call(lambda x: F.normalize(x, dim=-1)), [tokens]
    yield "softmax", "last axis 3072x128", nn.Softmax(-1), [rand(4, 6, 128, 128)]
    yield "softmax", "axis 1 of 1x64x56x56", nn.Softmax(1), [image]
    yield "softmax", "log_softmax 128x10000", nn.LogSoftmax(-1), [rand(128, 10000)]
    yield "pooling", "max 3x3/2 64x112x112", nn.MaxPool2d(3, 2, 1), [rand(1, 64, 112, 112)]
    yield "pooling", "avg 2x2 64x56x56", nn.AvgPool2d(2), [image]
    yield "pooling", "adaptive avg 512x7x7", nn.AdaptiveAvgPool2d(1), [rand(1, 512, 7, 7)]
    yield "pooling", "adaptive avg 64x56x56 to 6", nn.AdaptiveAvgPool2d(6), [image]
    yield "reduction", "sum all 1M", Call(torch.sum), [vector]
    yield "reduction", "mean last axis 1M", Call(lambda x: torch.mean(x, -1)), [vector]
    yield "reduction", "sum first axis 1M", Call(lambda x: torch.sum(x, 0)), [vector]
    yield "reduction", "amax last axis 1M", Call(lambda x: torch.amax(x, -1)), [vector]
    yield "reduction", "argmax last axis 1M", Call(lambda x: torch.argmax(x, -1)), [vector]
    yield "reduction", "std last axis 1M", Call(lambda x: torch.std(x, -1)), [vector]
    yield "reduction", "norm 1M", Call(lambda x: torch.norm(x, dim=-1)), [vector]
    yield "reduction", "logsumexp 1M", Call(lambda x: torch.logsumexp(x, -1)), [vector]
    yield "reduction", "cumsum 1M", Call(lambda x: torch.cumsum(x, -1)), [vector]
    yield "reduction", "topk 5 of 128x10000", Call(lambda x: torch.topk(x, 5)[0]), [rand(128, 10000)]
    yield "reduction", "sort 64x4096", Call(lambda x: torch.sort(x)[0]), [rand(64, 4096)]
    yield "index", "embedding 1024x384", nn.Embedding(1000, 384), [ids]
    yield "index", "gather 1M", Call(lambda x, i: torch.gather(x, 1, i)), [vector, torch.randint(0, 1024, (1024, 1024))]
    select = Call(lambda x, i: torch.index_select(x, 0, i))
    yield "index", "index_select 1M", select, [vector, torch.randint(0, 1024, (1024,))]
    yield "index", "slice step 2", Call(lambda x: x[:, ::2] * 1.5), [vector]
    yield "index", "masked_select 1M", Call(lambda x, m: torch.masked_select(x, m)), [vector, vector > 0]
    yield "shape", "permute 0231 64x56x56", Call(lambda x: x.permute(0, 2, 3, 1).contiguous()), [image]
    yield "shape", "transpose 1M", Call(lambda x: x.t().contiguous() * 1.0001), [vector]
    yield "shape", "cat channels", Call(lambda x, y: torch.cat([x, y], 1)), [image, image + 1]
    yield "shape", "roll 56x56", Call(lambda x: torch.roll(x, (3, 3), (2, 3))), [image]
    yield "shape", "flip 56x56", Call(lambda x: torch.flip(x, [3])), [image]
    yield "shape", "pixel_shuffle 64x56x56", nn.PixelShuffle(2), [image]
    yield "shape", "repeat 2x 64x56x56", Call(lambda x: x.repeat(2, 1, 1, 1)), [image]
    yield "pad", "constant 64x56x56", nn.ZeroPad2d(3), [image]
    yield "pad", "reflect 64x56x56", nn.ReflectionPad2d(3), [image]
    yield "resize", "bilinear 64x56x56 to 112", nn.Upsample(scale_factor=2, mode="bilinear"), [image]
    yield "resize", "nearest 64x56x56 to 112", nn.Upsample(scale_factor=2), [image]
    bicubic = Call(lambda x: F.interpolate(x, size=(256, 256), mode="bicubic"))
    yield "resize", "bicubic 3x224x224 to 256", bicubic, [rand(1, 3, 224, 224)]
    shrink = Call(lambda x: F.interpolate(x, size=(64, 64), mode="bilinear", antialias=True))
    yield "resize", "antialiased 3x224x224 to 64", shrink, [rand(1, 3, 224, 224)]
    yield "spectral", "fft 64x1024", Call(lambda x: torch.view_as_real(torch.fft.rfft(x))), [rand(64, 1024)]
    yield "spectral", "fft 64x1000", Call(lambda x: torch.view_as_real(torch.fft.rfft(x))), [rand(64, 1000)]
    yield "spectral", "fft 8x400", Call(lambda x: torch.view_as_real(torch.fft.fft(x))), [rand(8, 400)]
    yield "spectral", "fft 64x1009, a prime", Call(lambda x: torch.view_as_real(torch.fft.rfft(x))), [rand(64, 1009)]
    yield "spectral", "fft 65536", Call(lambda x: torch.view_as_real(torch.fft.fft(x))), [rand(65536)]
    yield "spectral", "fft2 256x256", Call(lambda x: torch.view_as_real(torch.fft.fft2(x))), [rand(256, 256)]
    yield "spectral", "irfft2 of rfft2 256x256", Call(lambda x: torch.fft.irfft2(torch.fft.rfft2(x))), [rand(256, 256)]
    window = torch.hann_window(400)
    stft = Call(lambda x: torch.stft(x, 400, 160, window=window, return_complex=True).abs())
    yield "spectral", "magnitudes of stft 400, 1 s", stft, [rand(1, 16000)]
    sample = Call(lambda x, g: F.grid_sample(x, g, align_corners=False))
    yield "vision", "grid_sample 32x128x128", sample, [rand(1, 32, 128, 128), rand(1, 128, 128, 2) * 2 - 1]
    corners = rand(3000, 2) * 600
    boxes = torch.cat([corners, corners + rand(3000, 2) * 100], 1)
    regions = torch.cat([torch.zeros(100, 1), boxes[:100]], 1)
    align = Call(lambda x, b: ops.roi_align(x, b, 7, 0.0625, 2, True))
    yield "vision", "roi_align 100 of 64x50x50", align, [rand(1, 64, 50, 50), regions]
    yield "vision", "nms 3000", Call(lambda b, s: ops.nms(b, s, 0.5)), [boxes, rand(3000)]


def time_torch(module, inputs, runs):
    times = []
    with torch.inference_mode():
        for _ in range(3):
            module(*inputs)
        for _ in range(runs):
            start = time.perf_counter()
            module(*inputs)
            times.append((time.perf_counter() - start) * 1e3)
    return min(times)


def time_oort(program, folder, count, threads, runs):
    command = [program, "bench", folder, "--threads", str(threads), "--runs", str(runs), "--json"]
    for i in range(count):
        command += ["--input", f"in{i}={folder}/in{i}.npy"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)["min_ms"]


def export(module, inputs, folder):
    if os.path.exists(os.path.join(folder, "model.pnnx.param")):
        return
    pnnx_case.convert(module, inputs, folder)
    for i, tensor in enumerate(inputs):
        np.save(os.path.join(folder, f"in{i}.npy"), tensor.numpy())


def measure(case, arguments):
    family, name, module, inputs = case
    module.eval()
    folder = os.path.join(arguments.cache, family + "-" + "".join(c if c.isalnum() else "_" for c in name))
    export(module, inputs, folder)
    peer = ours = float("inf")
    for _ in range(arguments.rounds):
        peer = min(peer, time_torch(module, inputs, arguments.runs))
        ours = min(ours, time_oort(arguments.oort, folder, len(inputs), arguments.threads, arguments.runs))
    return {"family": family, "case": name, "torch_ms": peer, "oort_ms": ours, "ratio": ours / peer}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--oort", default="build/oort", help="the program (build/oort)")
    parser.add_argument("--cache", default=".cache/bench-operators", metavar="DIR",
                        help="where exported cases are kept")
    parser.add_argument("--only", metavar="WORD", help="cases whose family or name contains it")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    rows, failed = [], 0
    for case in cases():
        if arguments.only and arguments.only not in case[0] and arguments.only not in case[1]:
            continue
        try:
            rows.append(measure(case, arguments))
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            failed += 1
            print(f"{case[0]}, {case[1]}: {error}", file=sys.stderr)
            continue
        if sys.stderr.isatty():
            print(f"\r{len(rows)} cases, now {case[0]}      ", end="", file=sys.stderr)
    if arguments.json:
        print(json.dumps(rows, indent=1))
    else:
        print(f"\n| family | case | torch ms | Oort ms | Oort / torch |\n|---|---|---|---|---|")
        for row in sorted(rows, key=lambda row: -row["ratio"]):
            print("| {family} | {case} | {torch_ms:.3f} | {oort_ms:.3f} | {ratio:.2f} |".format(**row))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
