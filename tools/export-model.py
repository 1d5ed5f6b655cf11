#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Converts weights that tools/fetch-model brought into networks for the demos, through pnnx.

    pip install -r tools/requirements.txt
    tools/export-model.py NAME [FOLDER]     default: .cache/models/NAME of the repository

FOLDER gets model.pnnx.param and model.pnnx.bin, or such files of several networks, and labels.txt where there are
classes. Classifiers take pictures of 0 … 1: what their training normalised with is part of the graph.
"""
import argparse
import ast
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def normalized(network):
    """The network behind ImageNet's normalisation."""
    import torch

    class Normalized(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.network = network
            self.register_buffer("mean", torch.tensor(MEAN).view(1, 3, 1, 1))
            self.register_buffer("scale", 1 / torch.tensor(STD).view(1, 3, 1, 1))

        def forward(self, picture):
            return self.network((picture - self.mean) * self.scale)

    return Normalized().eval()


def classifier(network, folder):
    import pnnx_case
    import torch
    from torchvision.models import _meta

    network.load_state_dict(torch.load(folder / "weights.pth", weights_only=True, map_location="cpu"))
    module = normalized(network.eval())
    pnnx_case.convert(module, [torch.rand(1, 3, 224, 224)], str(folder))
    (folder / "labels.txt").write_text("\n".join(_meta._IMAGENET_CATEGORIES) + "\n")
    return module


def mobilenet_v2(folder):
    import torchvision

    classifier(torchvision.models.mobilenet_v2(), folder)


def efficientnet_lite0(folder):
    import efficientnet_lite_pytorch

    classifier(efficientnet_lite_pytorch.EfficientNet.from_name("efficientnet-lite0"), folder)


def detector(folder, side):
    """A YOLO as ONNX: pnnx reads it itself; the names of classes stand in the file."""
    convert_onnx(folder / "model.onnx", [f"[1,3,{side},{side}]f32"])
    data = (folder / "model.onnx").read_bytes()
    names = ast.literal_eval(re.search(rb"\{0: '[^}]*\}", data).group().decode())
    (folder / "labels.txt").write_text("\n".join(names[i] for i in range(len(names))) + "\n")


def convert_onnx(path, shapes):
    """Writes .pnnx.param and .bin beside an ONNX file; of two shapes, what differs stays open in the graph."""
    import pnnx

    program = pathlib.Path(pnnx.__file__).parent / "pnnx"
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copy(path, os.path.join(scratch, "net.onnx"))
        command = [program, "net.onnx", *(f"inputshape{i or ''}={s}" for i, s in zip((None, 2), shapes))]
        done = subprocess.run(command, cwd=scratch, capture_output=True, text=True)
        written = pathlib.Path(scratch) / "net.pnnx.param"
        if not written.exists():
            told = done.stdout[-1000:] + done.stderr[-1000:]
            raise SystemExit(f"export-model: pnnx wrote no graph of {path}:\n{told}")
        shutil.move(written, path.with_suffix(".pnnx.param"))
        shutil.move(os.path.join(scratch, "net.pnnx.bin"), path.with_suffix(".pnnx.bin"))


def pp_ocr(folder):
    import onnx

    convert_onnx(folder / "detect.onnx", ["[1,3,640,640]f32", "[1,3,736,320]f32"])
    convert_onnx(folder / "direction.onnx", ["[1,3,48,192]f32"])
    convert_onnx(folder / "recognize.onnx", ["[1,3,48,320]f32", "[1,3,48,480]f32"])
    properties = onnx.load(folder / "recognize.onnx").metadata_props
    (characters,) = (item.value for item in properties if item.key == "character")
    (folder / "characters.txt").write_text(characters.rstrip("\n") + "\n")


class NcnnWeights:
    """Arrays of an ncnn file one by one: those of convolutions behind a tag that says whether they are of 16 bits."""

    def __init__(self, path):
        self.data = path.read_bytes()
        self.offset = 0

    def take(self, count, kind):
        array = np.frombuffer(self.data, kind, count, self.offset).astype(np.float32)
        self.offset += (count * np.dtype(kind).itemsize + 3) // 4 * 4
        return array

    def tagged(self, count):
        (tag,) = struct.unpack_from("<I", self.data, self.offset)
        self.offset += 4
        if tag not in (0, 0x01306B47):
            raise SystemExit(f"export-model: weights of kind {tag:#x} are not read")
        return self.take(count, "<f2" if tag else "<f4")


def compact_upscaler(param, binary):
    """The network of a chain Convolution, PReLU, …, PixelShuffle to whose answer the enlarged picture is added."""
    import torch

    weights = NcnnWeights(binary)
    layers, channels, factor = [], 3, 1
    for line in param.read_text().splitlines()[2:]:
        kind, _, inputs, outputs, *rest = line.split()
        values = dict(item.split("=") for item in rest[int(inputs) + int(outputs) :])
        count = int(values.get("0", 0))
        if kind == "Convolution":
            layer = torch.nn.Conv2d(channels, count, int(values["1"]), padding=int(values["4"]))
            layer.weight.data = torch.from_numpy(weights.tagged(int(values["6"]))).view_as(layer.weight)
            layer.bias.data = torch.from_numpy(weights.take(count, "<f4"))
            layers.append(layer)
            channels = count
        elif kind == "PReLU":
            layers.append(torch.nn.PReLU(count))
            layers[-1].weight.data = torch.from_numpy(weights.take(count, "<f4"))
        elif kind == "PixelShuffle":
            layers.append(torch.nn.PixelShuffle(count))
            factor = count
        elif kind not in ("Input", "Split", "Interp", "BinaryOp"):
            raise SystemExit(f"export-model: no {kind} is known here")
    if weights.offset != len(weights.data):
        raise SystemExit("export-model: the weights and the graph do not belong together")

    class Upscaler(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(*layers)

        def forward(self, picture):
            return self.layers(picture) + torch.nn.functional.interpolate(picture, scale_factor=factor, mode="nearest")

    return Upscaler().eval()


def realesr_x4(folder):
    import pnnx_case
    import torch

    module = compact_upscaler(folder / "ncnn.param", folder / "ncnn.bin")
    sizes = [torch.rand(1, 3, 64, 48)], [torch.rand(1, 3, 40, 96)]
    pnnx_case.convert(module, sizes[0], str(folder), second=sizes[1])


def minilm(folder):
    script = pathlib.Path(__file__).with_name("export-encoder.py")
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([sys.executable, script, folder, scratch], check=True)
        for name in ("model.pnnx.param", "model.pnnx.bin"):
            shutil.move(os.path.join(scratch, name), folder / name)


def whisper(folder):
    import speech_networks

    container, parts = folder / "model.bin", sorted(folder.glob("model.bin.[0-9]"))
    if parts and not container.exists():
        container.write_bytes(b"".join(part.read_bytes() for part in parts))
    model = speech_networks.whisper(container)
    speech_networks.export_whisper(model, folder)
    speech_networks.write_rules(folder, multilingual=model.config.vocab_size > 51864)
    state = "[1,1,128]f32,[1,1,128]f32"
    convert_onnx(folder / "voice.onnx", [f"[7,576]f32,{state}", f"[12,576]f32,{state}"])


def voice(folder):
    import voice_networks

    vits = voice_networks.piper(folder / "voice.onnx")
    voice_networks.export(vits, folder, vits.enc_p.emb.num_embeddings)
    voice_networks.write_voice(voice_networks.read_config(folder / "voice.json"), folder)


MODELS = {
    "mobilenet-v2": mobilenet_v2,
    "efficientnet-lite0": efficientnet_lite0,
    "yolo11n": lambda folder: detector(folder, 640),
    "nudenet": lambda folder: detector(folder, 320),
    "realesr-x4": realesr_x4,
    "minilm": minilm,
    "pp-ocr": pp_ocr,
    "whisper-base": whisper,
    "whisper-tiny.en": whisper,
    "piper-joe": voice,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=MODELS, metavar="NAME", help="one of " + ", ".join(MODELS))
    parser.add_argument("folder", nargs="?", type=pathlib.Path, metavar="FOLDER")
    arguments = parser.parse_args()
    folder = arguments.folder or ROOT / ".cache" / "models" / arguments.name
    if not folder.is_dir():
        parser.error(f"no folder {folder}: tools/fetch-model {arguments.name}")
    MODELS[arguments.name](folder)
    print("\n".join(str(path) for path in sorted(folder.glob("*.pnnx.param"))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
