#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Quantizes a model by Oort and by llama.cpp into the same types, lets llama.cpp read both, and tells how far each is
from the original: KL divergence and perplexity at equal size.

    bench/quantizers.py build/oort LLAMA_BIN MODEL.gguf --calibrate valid.txt --test test.txt --json quantizers.json
    bench/quantizers.py --draw quantizers.json --svg docs/images/quantizers.svg      # draws what was measured before

    bench/quantizers.py … --rescale      # needs gguf and numpy

LLAMA_BIN is the folder of llama-quantize, llama-imatrix and llama-perplexity. The original is MODEL with all its
weights as f32. Both programs see the same tokens of the text to calibrate with; llama.cpp makes an imatrix of them.

A model that was in a 4-bit type before lies on its grid, and whoever finds that grid loses nothing. --rescale moves it
off: columns are multiplied by numbers from 0.7 to 1.4, and what gives their inputs (norms, rows of v and up) divided by
the same, so that the model still computes what it did.
"""
import argparse
import json
import pathlib
import re
import subprocess
import tempfile

WINDOW = 512
TYPES = {"Q4_0": "q4_0", "Q4_1": "q4_1", "Q4_K_M": "q4_k_m"}
METHODS = ["imatrix", "gptq"]


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} failed:\n{done.stderr[-2000:]}")
    return done.stdout + done.stderr


class Judge:
    """llama.cpp's measure of how far a file is from the original."""

    def __init__(self, options, base, folder):
        self.options, self.logits = options, folder / "base.logits"
        self.run(base)

    def run(self, model, *more):
        return run(self.options.llama / "llama-perplexity", "-m", model, "-f", self.options.test, "-c", WINDOW, "-t",
                   self.options.threads, "--chunks", self.options.test_tokens // WINDOW, "--kl-divergence-base",
                   self.logits, *more)  # fmt: skip

    def __call__(self, model):
        text = self.run(model, "--kl-divergence")
        number = lambda name: [float(x) for x in re.search(name + r"\s*:\s*([\d.]+)\s*±\s*([\d.]+)", text).groups()]
        kl, error = number(r"Mean\s+KLD")
        return dict(kl=kl, kl_error=error, perplexity=number(r"Mean PPL\(Q\)")[0],
                    base_perplexity=number(r"Mean PPL\(base\)")[0], same_top=number("Same top p")[0])  # fmt: skip


def rescale(path):
    """Changes a llama of f32 in its file."""
    import gguf
    import numpy as np

    reader, random = gguf.GGUFReader(path), np.random.default_rng(11)
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    values = {name: np.array(tensor.data, np.float32) for name, tensor in tensors.items()}
    number = lambda key: int(reader.get_field(f"llama.{key}").contents())
    heads, kv_heads = number("attention.head_count"), number("attention.head_count_kv")
    factors = lambda count: np.exp(random.uniform(-0.35, 0.35, count)).astype(np.float32)
    for layer in range(number("block_count")):
        part = lambda name: values[f"blk.{layer}.{name}.weight"]
        for norm, readers in (("attn_norm", ("attn_q", "attn_k", "attn_v")), ("ffn_norm", ("ffn_gate", "ffn_up"))):
            f = factors(part(norm).size)
            part(norm)[...] /= f
            for name in readers:
                part(name)[...] *= f
        f = factors(len(part("ffn_up")))
        part("ffn_up")[...] *= f[:, None]
        part("ffn_down")[...] /= f
        f = factors(len(part("attn_v")))
        part("attn_v")[...] *= f[:, None]
        part("attn_output")[...] /= np.repeat(f.reshape(kv_heads, -1), heads // kv_heads, 0).reshape(-1)
    with open(path, "r+b") as file:
        for name, tensor in tensors.items():
            file.seek(tensor.data_offset)
            file.write(values[name].tobytes())


def measure(options, folder):
    base, importance = folder / "base.gguf", folder / "importance.gguf"
    quantize = options.llama / "llama-quantize"
    run(quantize, "--allow-requantize", options.model, base, "F32", options.threads)
    if options.rescale:
        rescale(base)
    run(options.llama / "llama-imatrix", "-m", base, "-f", options.calibrate, "-o", importance, "-c", WINDOW, "-t",
        options.threads, "--chunks", options.tokens // WINDOW)  # fmt: skip
    judge, rows = Judge(options, base, folder), []

    def add(name, maker, file):
        row = dict(type=name, maker=maker, bytes=file.stat().st_size, **judge(file))
        rows.append(row)
        print(f"{name:8} {maker:10} {row['bytes']:11} bytes  KL {row['kl']:.5f} ± {row['kl_error']:.5f}  "
              f"perplexity {row['perplexity']:.3f} ({row['base_perplexity']:.3f})", flush=True)  # fmt: skip
        file.unlink()

    for name, ours in TYPES.items():
        if name not in options.types.split(","):
            continue
        file = folder / "quantized.gguf"
        run(quantize, "--imatrix", importance, base, file, name, options.threads)
        add(name, "llama.cpp", file)
        for method in METHODS:
            text = ["--calibrate", options.calibrate, "--tokens", options.tokens, "--window", WINDOW]
            run(options.program, "quantize", base, "--weights", ours, "--method", method, *text, "--threads",
                options.threads, "--output", file)  # fmt: skip
            add(name, method, file)
    return dict(model=options.model.name, rescaled=options.rescale, tokens=options.tokens,
                test_tokens=options.test_tokens, rows=rows)  # fmt: skip


def draw(report):
    """Bars of KL divergence: three for each type."""
    rows, width, height, left, bottom = report["rows"], 640, 300, 60, 250
    types = list(dict.fromkeys(row["type"] for row in rows))
    colors = {"llama.cpp": "#9a9a9a", "imatrix": "#7a9cc6", "gptq": "#d9653b"}
    top = 1.1 * max(row["kl"] for row in rows)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
             'font-size="13">',
             f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
             f'<text x="{left}" y="20">KL divergence to the original, nats a token: lower is better</text>']
    span = (width - left - 20) / len(types)
    for i, name in enumerate(types):
        for j, (maker, color) in enumerate(colors.items()):
            row = next((row for row in rows if row["type"] == name and row["maker"] == maker), None)
            if row is None:
                continue
            x, tall = left + i * span + j * 46, row["kl"] / top * (bottom - 40)
            parts.append(f'<rect x="{x:.0f}" y="{bottom - tall:.0f}" width="40" height="{tall:.0f}" fill="{color}"/>')
            parts.append(f'<text x="{x:.0f}" y="{bottom - tall - 4:.0f}" font-size="11">{row["kl"]:.4f}</text>')
        parts.append(f'<text x="{left + i * span + 40:.0f}" y="{bottom + 18}">{name}</text>')
    for j, (maker, color) in enumerate(colors.items()):
        name = {"imatrix": "Oort, imatrix", "gptq": "Oort, gptq"}.get(maker, "llama.cpp, imatrix")
        x = left + j * 180
        parts.append(f'<rect x="{x}" y="{bottom + 30}" width="12" height="12" fill="{color}"/>')
        parts.append(f'<text x="{x + 18}" y="{bottom + 41}">{name}</text>')
    return "\n".join(parts + ["</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?", type=pathlib.Path)
    parser.add_argument("llama", nargs="?", type=pathlib.Path)
    parser.add_argument("model", nargs="?", type=pathlib.Path)
    parser.add_argument("--calibrate", type=pathlib.Path)
    parser.add_argument("--test", type=pathlib.Path)
    parser.add_argument("--tokens", type=int, default=16384)
    parser.add_argument("--test-tokens", type=int, default=8192)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rescale", action="store_true")
    parser.add_argument("--types", default=",".join(TYPES))
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--draw", type=pathlib.Path)
    parser.add_argument("--svg", type=pathlib.Path)
    options = parser.parse_args()
    if options.draw:
        report = json.loads(options.draw.read_text(encoding="utf-8"))
    elif options.model and options.calibrate and options.test:
        with tempfile.TemporaryDirectory() as folder:
            report = measure(options, pathlib.Path(folder))
    else:
        parser.error("give the program, llama.cpp's folder, a model, --calibrate and --test; or --draw")
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if options.svg:
        options.svg.write_text(draw(report), encoding="utf-8")


if __name__ == "__main__":
    main()
