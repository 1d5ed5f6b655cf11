#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tools/test --only: what it builds and what it runs, with a cmake and a ctest that only say how they are called."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = sys.argv.pop(1)


class OnlyTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        for name in ("bin/cmake", "bin/ctest", "test/test_layers"):
            path = self.dir / name
            path.parent.mkdir(exist_ok=True)
            status = 3 if "layers" in name else 0
            path.write_text(f'#!/bin/sh\necho "{path.name} $*"\nexit {status}\n', encoding="utf-8")
            path.chmod(0o755)

    def run_test(self, *arguments, status=0):
        """The calls that are made, without how a build is configured."""
        path = f"{self.dir}/bin:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "OORT_SKIP_DEPS": "1", "OORT_TEST_DIR": str(self.dir)}
        done = subprocess.run(["bash", SCRIPT, *arguments], env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.configured = "-DOORT_TESTS=ON" in done.stdout
        calls = [line for line in done.stdout.splitlines() if not line.startswith("cmake -S")]
        return "\n".join(calls) + done.stderr

    def test_a_program_gets_its_arguments_and_gives_its_status(self):
        for form in (["--only", "layers"], ["--only=layers"], ["--werror", "--only", "layers"]):
            text = self.run_test(*form, "--gtest_filter=A b", "-x", status=3)
            self.assertRegex(text, r"cmake --build .* --target test_layers\ntest_layers --gtest_filter=A b -x")
            self.assertTrue(self.configured)

    def test_a_build_that_is_there_stays_as_it_is(self):
        (self.dir / "build.ninja").touch()
        self.run_test("--only", "layers", status=3)
        self.assertFalse(self.configured)

    def test_cli_bench_and_lint_are_tests_of_ctest(self):
        text = self.run_test("--only", "cli", "-R", "Generate")
        self.assertRegex(text, r"--target oort_cli demo_\w+.*\nctest .*--label-regex \^cli\$ -R Generate")
        text = self.run_test("--only", "bench")
        self.assertRegex(text, r"--target benchmarks\nctest .*--label-regex \^bench\$")
        self.assertRegex(self.run_test("--only", "lint"), r"^ctest .*--label-regex \^lint\$")

    def test_other_names_are_errors_that_list_them(self):
        for form in (["--only"], ["--only", "nothing"], ["--only="]):
            text = self.run_test(*form, status=2)
            self.assertRegex(text, r"--only takes one of: .*\blayers\b.* bench cli lint python")


if __name__ == "__main__":
    unittest.main()
