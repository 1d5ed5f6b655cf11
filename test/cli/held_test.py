#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What bench/held_processor.cpp takes away from a processor, as `oort devices` sees it. See cli_test.py."""
import json
import os
import pathlib
import platform
import shutil
import subprocess
import tempfile
import unittest

OORT = os.environ["OORT"]
SOURCE = pathlib.Path(os.environ["OORT_SOURCE"]).resolve()
COMPILER = shutil.which(os.environ.get("CXX", "c++"))


def may_hold():
    if platform.machine() != "x86_64" or not COMPILER:
        return False
    flags = pathlib.Path("/proc/cpuinfo")
    return flags.exists() and "cpuid_fault" in flags.read_text().split()


@unittest.skipUnless(may_hold(), "CPUID does not trap here, or there is no compiler")
class HeldTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.library = os.path.join(folder.name, "held.so")
        command = [COMPILER, "-std=c++20", "-Wall", "-Werror", "-O1", "-shared", "-fPIC", "-o", cls.library]
        subprocess.run([*command, SOURCE / "bench" / "held_processor.cpp"], check=True)

    def run_held(self, level):
        held = {"LD_PRELOAD": self.library, "OORT_HELD_TO": level}
        # What a program finds is meant, not what its own variables take away.
        plain = {name: value for name, value in os.environ.items() if name not in ("OORT_ISA", "OORT_CPU_WITHOUT")}
        done = subprocess.run([OORT, "devices", "--json"], capture_output=True, text=True, env={**plain, **held})
        if "runtime does not come first" in done.stderr:
            self.skipTest("a sanitizer wants to be loaded first")
        return done

    def cpu(self, level):
        done = self.run_held(level)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["cpu"]

    def test_levels_are_as_their_names(self):
        avx2, vnni, wide = self.cpu("avx2"), self.cpu("avx-vnni"), self.cpu("avx512-vnni")
        self.assertEqual(avx2["features"], [])
        self.assertNotIn("avx512", [*avx2["isas"], *vnni["isas"]])
        self.assertTrue(all("AVX-VNNI" in feature for feature in vnni["features"]), vnni)
        self.assertFalse([feature for feature in wide["features"] if "tiles" in feature or "bf16" in feature], wide)

    def test_an_unknown_level_is_refused(self):
        done = self.run_held("avx9")
        self.assertEqual(done.returncode, 1)
        self.assertIn("OORT_HELD_TO", done.stderr)


if __name__ == "__main__":
    unittest.main()
