#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tools/build-times on a small build of its own: what the log tells, and what --again compiles.

    build_times_test.py TOOL
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOL = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else "tools/build-times"

BUILD = """
rule compile
  command = c++ -o $out -c $in
build CMakeFiles/oort.dir/layers/norm/norm.cpp.o: compile norm.cpp
build CMakeFiles/oort_avx2.dir/layers/norm/norm.simd.cpp.o: compile norm.cpp
build CMakeFiles/oort.dir/layers/pad/pad.cpp.o: compile pad.cpp
"""
LOG = """# ninja log v5
0\t2000\t0\tCMakeFiles/oort.dir/layers/norm/norm.cpp.o\tab
0\t4000\t0\tCMakeFiles/oort_avx2.dir/layers/norm/norm.simd.cpp.o\tcd
"""


class BuildTimesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "build.ninja").write_text(BUILD)
        (self.folder / ".ninja_log").write_text(LOG)
        (self.folder / "norm.cpp").write_text("int Norm() { return 1; }\n")
        (self.folder / "pad.cpp").write_text("this is no C++\n")

    def run_tool(self, *arguments):
        return subprocess.run([sys.executable, TOOL, self.folder, *arguments], capture_output=True, text=True)

    def test_the_log_by_parts(self):
        rows = self.run_tool("--files", "1").stdout.splitlines()
        self.assertIn("| library | 1 | 2 |", rows)
        self.assertIn("| kernels: avx2 | 1 | 4 |", rows)
        self.assertEqual(rows[-1], "| layers/norm/norm.simd.cpp | kernels: avx2 | 4.0 |")

    @unittest.skipUnless(shutil.which("ninja") and shutil.which("c++"), "needs ninja and c++")
    def test_again_compiles_what_fits(self):
        for pattern, objects in (("layers/norm", 2), ("kernels: avx2", 1), ("layers/none", 0)):
            done = self.run_tool("--again", pattern)
            self.assertEqual(done.returncode, 0, done.stderr)
            rows = done.stdout.splitlines()[2:]
            self.assertEqual(len(rows), objects + 1, rows)
            seconds = [float(row.split("|")[3]) for row in rows]
            self.assertAlmostEqual(sum(seconds[:-1]), seconds[-1], delta=0.2)
        self.assertFalse((self.folder / "CMakeFiles").exists(), "the build itself stays as it is")

    @unittest.skipUnless(shutil.which("ninja") and shutil.which("c++"), "needs ninja and c++")
    def test_again_names_what_does_not_compile(self):
        done = self.run_tool("--again", "layers/pad")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("pad.cpp.o' does not compile", done.stderr)


if __name__ == "__main__":
    unittest.main()
