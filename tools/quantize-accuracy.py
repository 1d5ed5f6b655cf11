#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What 8 bits cost a trained classifier on pictures of ImageNet: a row of the table in docs/quantization.md.

    tools/quantize-accuracy.py mobilenet_v2 --weights mobilenet_v2-b0353104.pth --pictures FOLDER [--oort build/oort]
    tools/quantize-accuracy.py efficientnet_lite0 --weights efficientnet-lite0-57934424.pth --pictures FOLDER

FOLDER has one picture of each class; sorted by name, their numbers are the classes. Pictures 0, 5, … 495 calibrate;
the 800 whose number is no multiple of 5 judge. Options behind `--` go to `oort quantize`. Needs torch, torchvision,
pnnx, pillow and, for efficientnet_lite0, efficientnet-lite-pytorch.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
HALF = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


def network(name):
    """The module without its weights, and mean and deviation of its pixels."""
    if name == "efficientnet_lite0":
        from efficientnet_lite_pytorch import EfficientNet

        return EfficientNet.from_name("efficientnet-lite0"), HALF
    import torchvision

    return getattr(torchvision.models, name)(), IMAGENET


def export(name, weights, folder):
    import pnnx
    import torch

    module, normalization = network(name)
    module.load_state_dict(torch.load(weights, weights_only=True))
    here = os.getcwd()
    os.chdir(folder)
    pnnx.export(module.eval(), f"{name}.pt", (torch.rand(1, 3, 224, 224),), fp16=False)
    os.chdir(here)
    return folder / f"{name}.pnnx.param", normalization


def pixels(path):
    """Resized so that the shorter side has 256, the middle 224 x 224 of it."""
    from PIL import Image

    image = Image.open(path).convert("RGB")
    scale = 256 / min(image.size)
    image = image.resize((round(image.width * scale), round(image.height * scale)), Image.BILINEAR)
    left, top = (image.width - 224) // 2, (image.height - 224) // 2
    return np.asarray(image.crop((left, top, left + 224, top + 224)), np.float32).transpose(2, 0, 1) / 255


def write_samples(pictures, normalization, folder):
    mean, deviation = (np.array(values, np.float32).reshape(3, 1, 1) for values in normalization)
    numbers = {"calibrate": range(0, min(500, len(pictures)), 5), "test": [i for i in range(len(pictures)) if i % 5]}
    for name, chosen in numbers.items():
        np.save(folder / f"{name}.npy", np.stack([(pixels(pictures[i]) - mean) / deviation for i in chosen]))
    np.savetxt(folder / "labels.txt", numbers["test"], fmt="%d")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("network")
    parser.add_argument("--weights", required=True, type=pathlib.Path)
    parser.add_argument("--pictures", required=True, type=pathlib.Path)
    parser.add_argument("--oort", default="build/oort", metavar="PROGRAM")
    parser.add_argument("options", nargs="*", help="more options of oort quantize, behind --")
    arguments = parser.parse_args()
    pictures = sorted(path for path in arguments.pictures.iterdir() if path.suffix.lower() in (".jpeg", ".jpg", ".png"))
    if len(pictures) < 10:
        sys.exit(f"{arguments.pictures} has {len(pictures)} pictures")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model, normalization = export(arguments.network, arguments.weights.resolve(), folder)
        write_samples(pictures, normalization, folder)
        command = [arguments.oort, "quantize", model, "--output", folder / "int8.pnnx.param", "--json"]
        command += ["--calibrate", folder / "calibrate.npy", "--test", folder / "test.npy"]
        command += ["--test-samples", str(len(pictures)), "--labels", folder / "labels.txt", *arguments.options]
        report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    right, same = report["accuracy"], report["agreement"]
    percent = lambda part, whole: f"{100 * part / whole:.1f} %"
    layers = sum(layer["quantized"] for layer in report["layers"])
    print(
        f"| {arguments.network} | {layers} of {len(report['layers'])} "
        f"| {percent(right['float_right'], right['labelled'])} "
        f"| {percent(right['right'], right['labelled'])} | {percent(same['same'], same['rows'])} "
        f"| {report['error']['sqnr_db']:.1f} dB | {report['method']} |"
    )


if __name__ == "__main__":
    main()
