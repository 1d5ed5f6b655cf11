# SPDX-License-Identifier: MIT
"""Networks in 8 bits for bench/compare: each runtime's own quantizer, or for ncnn its own format, makes its files.

Not a program. All are calibrated with the same few pictures: this is for speed; what 8 bits cost is for
tools/quantize-accuracy.py. Weights have a scale for each output channel everywhere.
"""
import os
import struct
import subprocess

import numpy as np

PICTURES = 4


def oort_files(program, folder):
    output = os.path.join(folder, "model.int8.pnnx.param")
    command = [program, "quantize", os.path.join(folder, "model.pnnx.param"), "--output", output]
    done = subprocess.run(
        command + ["--calibrate", os.path.join(folder, "calibration.npy")], capture_output=True, text=True
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())


def onnxruntime_files(folder, ranges="minmax"):
    """`ranges`: minmax, or percentile, which answers best and takes longest."""
    from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):
        def __init__(self, pictures, name):
            self.feeds = iter([{name: picture[None]} for picture in pictures])

        def get_next(self):
            return next(self.feeds, None)

    import onnx

    source, prepared = os.path.join(folder, "model.onnx"), os.path.join(folder, "prepared.onnx")
    name = onnx.load(source, load_external_data=False).graph.input[0].name
    quant_pre_process(source, prepared, skip_symbolic_shape=True)
    reader = Reader(np.load(os.path.join(folder, "calibration.npy")), name)
    # u8 activations and i8 weights: what its kernels for Arm and x86-64 take without a detour.
    quantize_static(
        prepared,
        os.path.join(folder, "model.int8.onnx"),
        reader,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        calibrate_method=CalibrationMethod.Percentile if ranges == "percentile" else CalibrationMethod.MinMax,
        extra_options={"CalibPercentile": 99.999} if ranges == "percentile" else {},
    )
    os.remove(prepared)


def openvino_files(folder):
    import nncf
    import openvino

    model = openvino.Core().read_model(os.path.join(folder, "model.onnx"))
    pictures = [picture[None] for picture in np.load(os.path.join(folder, "calibration.npy"))]
    preset = nncf.QuantizationPreset.MIXED
    quantized = nncf.quantize(model, nncf.Dataset(pictures), preset=preset, subset_size=len(pictures))
    openvino.save_model(quantized, os.path.join(folder, "model.int8.xml"), compress_to_fp16=False)


class NcnnLayer:
    """A line of a .param file: type, name, counts, operands, then key=value."""

    def __init__(self, line):
        words = line.split()
        self.type, self.name = words[:2]
        inputs, outputs = int(words[2]), int(words[3])
        self.inputs = words[4 : 4 + inputs]
        self.outputs = words[4 + inputs : 4 + inputs + outputs]
        self.params = dict(word.split("=", 1) for word in words[4 + inputs + outputs :])

    def number(self, key, default=0):
        return int(self.params.get(str(key), default))

    def line(self):
        params = " ".join(f"{key}={value}" for key, value in self.params.items())
        counts = f"{len(self.inputs)} {len(self.outputs)}"
        return " ".join([f"{self.type:<24} {self.name:<24} {counts}", *self.inputs, *self.outputs, params])

    @property
    def multiplies(self):
        return self.type in ("Convolution", "ConvolutionDepthWise", "InnerProduct")

    @property
    def may_be_winograd(self):
        size, dilation, stride = (
            (self.number(x, default), self.number(y, self.number(x, default)))
            for x, y, default in ((1, 11, 0), (2, 12, 1), (3, 13, 1))
        )
        return self.type == "Convolution" and (size, dilation, stride) == ((3, 3), (1, 1), (1, 1))


def ncnn_network(folder):
    import ncnn

    net = ncnn.Net()
    net.opt.use_vulkan_compute = net.opt.use_fp16_packed = net.opt.use_fp16_storage = False
    net.opt.use_fp16_arithmetic = net.opt.lightmode = False
    stem = os.path.join(folder, "model.ncnn")
    if net.load_param(stem + ".param") != 0 or net.load_model(stem + ".bin") != 0:
        raise RuntimeError("ncnn cannot read what pnnx wrote")
    return net


def ncnn_magnitudes(net, picture, operands):
    """(operand, magnitudes of its elements)"""
    import ncnn

    extractor = net.create_extractor()
    image = ncnn.Mat(picture)  # reads where the picture lies, and does not keep it alive
    extractor.input("in0", image)
    for operand in operands:
        yield operand, np.abs(np.array(extractor.extract(operand)[1]))


def ncnn_threshold(counts):
    """How many bins of magnitudes to keep: the least Kullback-Leibler divergence from 128 levels.

    As ncnn's own tool counts it: what lies beyond goes into the last bin, each level is spread over all of its bins,
    and every bin has 1e-4 more.
    """
    share = counts / counts.sum()
    below = np.concatenate([[0], np.cumsum(share)])
    least, best = np.inf, len(counts)
    for kept in range(128, len(counts)):
        given = share[:kept] + 1e-4
        given[-1] += 1 - below[kept]
        edges = np.linspace(0, kept, 129)
        levels = np.interp(edges, np.arange(kept + 1), below[: kept + 1])
        rough = np.diff(np.interp(np.arange(kept + 1), edges, levels)) + 1e-4
        divergence = np.sum(given * np.log(given / rough))
        if divergence < least:
            least, best = divergence, kept
    return best


def ncnn_ranges(folder, layers):
    """By layer with weights: the largest magnitude that is told apart of what it reads."""
    bins = 2048
    net, pictures = ncnn_network(folder), np.load(os.path.join(folder, "calibration.npy"))
    reading = {layer.name: layer.inputs[0] for layer in layers if layer.multiplies}
    largest = dict.fromkeys(reading.values(), 1e-9)
    for picture in pictures:
        for operand, values in ncnn_magnitudes(net, picture, largest):
            largest[operand] = max(largest[operand], float(values.max()))
    counts = {operand: np.zeros(bins) for operand in largest}
    for picture in pictures:
        for operand, values in ncnn_magnitudes(net, picture, counts):
            counts[operand] += np.histogram(values[values != 0], bins, (0, largest[operand]))[0]
    kept = {operand: (ncnn_threshold(count) + 0.5) / bins if count.any() else 1 for operand, count in counts.items()}
    return {name: kept[operand] * largest[operand] for name, operand in reading.items()}


def ncnn_reader(layer, readers):
    """The one layer with weights that reads what another gives, however often; None where somebody else reads it."""
    reading = [reader for reader in readers.get(layer.outputs[0], [])]
    if len(reading) == 1 and reading[0].type == "Split":
        reading = [reader for output in reading[0].outputs for reader in readers.get(output, [])]
    convolutions = all(reader.type in ("Convolution", "ConvolutionDepthWise") for reader in reading)
    return reading[0] if reading and convolutions else None


def ncnn_files(folder):
    """i8 weights, then the bias, the scales of weights, of inputs and of results, as ncnn's own tool writes them."""
    stem = os.path.join(folder, "model.ncnn")
    with open(stem + ".param", encoding="utf-8") as file:
        magic, counts, *lines = file.read().splitlines()
    layers = [NcnnLayer(line) for line in lines if line.strip()]
    ranges = ncnn_ranges(folder, layers)
    readers = {}
    for layer in layers:
        for operand in layer.inputs:
            readers.setdefault(operand, []).append(layer)
    with open(stem + ".bin", "rb") as source, open(os.path.join(folder, "model.int8.ncnn.bin"), "wb") as target:
        for layer in layers:
            if layer.multiplies:
                write_ncnn_layer(layer, source, target, ranges, ncnn_reader(layer, readers))
        target.write(source.read())
    with open(os.path.join(folder, "model.int8.ncnn.param"), "w", encoding="utf-8") as file:
        file.write("\n".join([magic, counts, *(layer.line() for layer in layers)]) + "\n")


def write_ncnn_layer(layer, source, target, ranges, reader):
    channels, depthwise = layer.number(0), layer.type == "ConvolutionDepthWise"
    size = layer.number(2 if layer.type == "InnerProduct" else 6)
    flag = struct.unpack("<I", source.read(4))[0]
    if flag != 0:
        raise RuntimeError(f"{layer.name}: ncnn's weights are not f32 (export with fp16=0)")
    weight = np.frombuffer(source.read(4 * size), "<f4").reshape(channels, -1)
    has_bias = layer.number(1 if layer.type == "InnerProduct" else 5)
    bias = source.read(4 * channels) if has_bias else b""
    # ncnn's own tool gives 6 bits to weights that its Winograd might take, whose sums have 16 bits.
    limit = 31 if layer.may_be_winograd else 127
    scales = (limit / np.maximum(np.abs(weight).max(1), 1e-9)).astype("<f4")
    integers = np.clip(np.rint(weight * scales[:, None]), -127, 127).astype(np.int8).tobytes()
    target.write(struct.pack("<I", 0x000D4B38) + integers + b"\0" * (-len(integers) % 4) + bias)
    target.write(scales.tobytes() + struct.pack("<f", 127 / ranges[layer.name]))
    # Convolutions behind one another pass bytes on; groups of one channel have a scale for each.
    term = 1 if depthwise else 2
    if reader is not None and layer.type != "InnerProduct":
        term += 100
        target.write(struct.pack("<f", 127 / ranges[reader.name]))
    layer.params["8"] = str(term)


def write_files(runtime, program, folder):
    """What `runtime` loads in 8 bits, made once."""
    done = os.path.join(folder, f"complete.int8.{runtime}")
    if os.path.exists(done):
        return
    if runtime == "oort":
        oort_files(program, folder)
    else:
        {"onnxruntime": onnxruntime_files, "openvino": openvino_files, "ncnn": ncnn_files}[runtime](folder)
    open(done, "w").close()
