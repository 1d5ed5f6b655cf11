#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`oort convert` of language models from outside: what it writes, how much memory it takes, what it leaves behind."""
import json
import os
import signal
import struct
import subprocess
import time
import unittest

from cli_test import OORT, SOURCE, Case

TINY = SOURCE / "test" / "checkpoints"


def write_hollow_model(folder, layers=16, hidden=512, feed=2048, vocabulary=1000):
    """A llama whose weights are all zero: a file with holes, large for who reads it. Returns its bytes and those of
    its largest weight."""
    folder.mkdir()
    config = dict(
        model_type="llama", vocab_size=vocabulary, hidden_size=hidden, intermediate_size=feed, num_hidden_layers=layers,
        num_attention_heads=8, num_key_value_heads=8, tie_word_embeddings=True,
    )  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    shapes = {"model.embed_tokens.weight": [vocabulary, hidden], "model.norm.weight": [hidden]}
    for i in range(layers):
        stem = f"model.layers.{i}."
        shapes |= {f"{stem}{norm}_layernorm.weight": [hidden] for norm in ("input", "post_attention")}
        shapes |= {f"{stem}self_attn.{part}_proj.weight": [hidden, hidden] for part in "qkvo"}
        shapes |= {f"{stem}mlp.{part}_proj.weight": [feed, hidden] for part in ("gate", "up")}
        shapes[f"{stem}mlp.down_proj.weight"] = [hidden, feed]
    header, offset, largest = {}, 0, 0
    for name, shape in shapes.items():
        size = 4 * shape[0] * (shape[1] if len(shape) == 2 else 1)
        header[name] = dict(dtype="F32", shape=shape, data_offsets=[offset, offset + size])
        offset += size
        largest = max(largest, size)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + offset)
    return offset, largest


class ConvertLanguageModelTest(Case):
    def peak_bytes(self, *arguments):
        """What a run had in memory at most."""
        child = subprocess.Popen([OORT, *map(str, arguments)], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(child.returncode, 0, arguments)
        return 1024 * usage.ru_maxrss

    def test_writes_both_files(self):
        out = self.dir / "m.pnnx.param"
        for arguments in ([], ["--weights", "int8"], ["--weights", "int4", "--group", "64", "--asymmetric"]):
            report = self.json("convert", TINY / "qwen3.gguf", out, *arguments)
            self.assertEqual(report["bin_bytes"], (self.dir / "m.pnnx.bin").stat().st_size)
            self.assertIn("oort.CompactLinear", self.oort("info", out).out)
        self.assertEqual(sorted(path.name for path in self.dir.iterdir()), ["m.pnnx.bin", "m.pnnx.param"])

    def test_wrong_usage(self):
        out = self.dir / "m.pnnx.param"
        self.fails("convert", TINY / "llama", out, "--weights", "int3", code=2)
        self.fails("convert", TINY / "llama", out, "--group", "7", code=2)
        self.fails("convert", SOURCE / "models" / "digits", out, "--weights", "int8", code=2, says="language models")
        self.write("broken.gguf", b"GGUF" + bytes(40))
        self.fails("convert", self.dir / "broken.gguf", out, says="version 0")
        self.assertFalse(out.exists())

    def test_memory(self):
        total, largest = write_hollow_model(self.dir / "hollow")
        out = self.dir / "m.pnnx.param"
        little = self.peak_bytes("convert", TINY / "llama", out, "--weights", "int8")
        for arguments in (["--weights", "int8"], ["--weights", "f16"], []):
            much = self.peak_bytes("convert", self.dir / "hollow", out, *arguments)
            self.assertLess(much - little, 2 * largest + (16 << 20), arguments)
            self.assertGreater(total, 10 * (much - little))

    def test_an_interruption_leaves_nothing(self):
        write_hollow_model(self.dir / "hollow", layers=64)
        out = self.dir / "out"
        out.mkdir()
        child = subprocess.Popen(
            [OORT, "convert", self.dir / "hollow", out / "m.pnnx.param", "--weights", "int8"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        while child.poll() is None and not any(out.iterdir()):
            time.sleep(0.001)
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=300)
        self.assertEqual(child.returncode, 1, err)
        self.assertRegex(err.decode(), r"\Aoort: [^\n]+\n\Z")
        self.assertEqual(list(out.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
