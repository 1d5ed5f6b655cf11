#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`oort convert` of language models from outside: what it writes, how much memory it takes, what it leaves behind."""
import os
import resource
import signal
import subprocess
import time
import unittest

from cli_test import OORT, SOURCE, Case
from hollow import write_hollow_model

TINY = SOURCE / "test" / "checkpoints"


class ConvertLanguageModelTest(Case):
    def test_writes_both_files(self):
        out = self.dir / "m.pnnx.param"
        for arguments in ([], ["--weights", "int8"], ["--weights", "int4", "--group", "64", "--asymmetric"]):
            report = self.json("convert", TINY / "qwen3.gguf", out, *arguments)
            self.assertEqual(report["bin_bytes"], (self.dir / "m.pnnx.bin").stat().st_size)
            self.assertIn("oort.QuantizedLinear", self.oort("info", out).out)
        self.assertEqual(sorted(path.name for path in self.dir.iterdir()), ["m.pnnx.bin", "m.pnnx.param"])

    def test_files_of_version_0_1_still_load(self):
        """Operators had other names then."""
        out = self.dir / "m.pnnx.param"
        self.json("convert", SOURCE / "models" / "storyteller", out, "--weights", "int8")
        generate = ("generate", out, "--prompt", "Tell me a story.", "--max-tokens", "12")
        said = self.oort(*generate).out
        text = out.read_text()
        old = text.replace("oort.Quantized", "oort.Compact").replace("oort.PagedAttention", "oort.CachedAttention")
        self.assertIn("oort.CompactLinear", old)
        self.assertIn("oort.CachedAttention", old)
        out.write_text(old)
        self.assertEqual(self.oort(*generate).out, said)

    def test_wrong_usage(self):
        out = self.dir / "m.pnnx.param"
        self.fails("convert", TINY / "llama", out, "--weights", "int3", code=2)
        self.fails("convert", TINY / "llama", out, "--group", "7", code=2)
        self.fails("convert", TINY / "llama", out, "--group", "64", code=2, says="--weights int8")
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

    def test_under_a_limit_of_memory(self):
        """What the program may allocate is twice the largest weight, and what a small model takes; weights that it maps
        do not count."""
        total, largest = write_hollow_model(self.dir / "hollow")

        def convert(model, limit, *arguments):
            set_limit = lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
            command = [OORT, "convert", model, self.dir / "m.pnnx.param", *arguments]
            return subprocess.run(command, capture_output=True, preexec_fn=set_limit,
                                  env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=300)

        enough = next(mib << 20 for mib in range(2, 200, 2)
                      if convert(TINY / "llama", mib << 20, "--weights", "int8").returncode == 0)
        self.assertLess(enough + 2 * largest, total / 4)
        for arguments in (["--weights", "int8"], ["--weights", "int4", "--group", "64"], ["--weights", "bf16"], []):
            done = convert(self.dir / "hollow", enough + 2 * largest, *arguments)
            self.assertEqual(done.returncode, 0, done.stderr)
        # Less is an error, and leaves nothing behind.
        for path in self.dir.glob("m.*"):
            path.unlink()
        done = convert(self.dir / "hollow", enough // 2)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(list(self.dir.glob("m.*")), [])

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
        self.assertEqual(child.returncode, 130, err)
        self.assertRegex(err.decode(), r"\Aoort: [^\n]+\n\Z")
        self.assertEqual(list(out.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
