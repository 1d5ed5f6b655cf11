#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tools/lint finds planted faults, and only where it is told to look."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

LINT = pathlib.Path(sys.argv.pop(1))
CONFIG = LINT.parent.parent / ".clang-tidy"
CLEAN = """#include <string>
#include <utility>
std::string Kept(std::string text) {
  std::string kept = std::move(text);
  return kept;
}
"""
USED_AFTER_MOVE = CLEAN.replace("return kept", "return text + kept").replace("Kept", "Both")
HEADER = "#pragma once\n#include <string>\ninline bool None(const std::string& text) { return text.size() == 0; }\n"


class LintTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        shutil.copy(CONFIG, self.root)

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, encoding="utf-8")

    def commit(self):
        git = ["git", "-C", self.root, "-c", "user.name=a", "-c", "user.email=a@b"]
        for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"]):
            subprocess.run(git + command, check=True)

    def lint(self, *arguments):
        command = [sys.executable, LINT, "--root", self.root, "--jobs", "1", *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def test_clean_code_is_clean(self):
        self.write("source/core/a.cpp", CLEAN)
        code, text = self.lint()
        self.assertEqual(code, 0, text)
        self.assertIn("1 of 1 groups", text)

    def test_finds_faults_in_files_and_headers(self):
        self.write("source/core/a.cpp", CLEAN)
        self.write("source/core/b.cpp", '#include "core/c.h"\n' + USED_AFTER_MOVE)
        self.write("source/core/c.h", HEADER)
        code, text = self.lint()
        self.assertEqual(code, 1, text)
        self.assertRegex(text, r"source/core/b\.cpp:6:\d+: warning: .*bugprone-use-after-move")
        self.assertRegex(text, r"source/core/c\.h:3:\d+: warning: .*readability-container-size-empty")

    def test_what_does_not_compile_is_a_fault(self):
        self.write("parser/a.cpp", '#include "nowhere.h"\n')
        code, text = self.lint()
        self.assertEqual(code, 1, text)
        self.assertIn("nowhere.h", text)

    def test_long_lines_are_found_without_clang_tidy(self):
        self.write("test/a_test.cpp", "// " + "é" * 118 + "\n")
        self.write("test/b_test.cpp", "// " + "é" * 117 + "\n")
        code, text = self.lint()
        self.assertEqual(code, 1, text)
        self.assertIn("test/a_test.cpp:1: 121 characters", text)
        self.assertNotIn("b_test", text)

    def test_long_lines_of_scripts_are_found_without_their_ending(self):
        long = "# " + "é" * 119 + "\n"
        firsts = {"env": "#!/usr/bin/env python3", "python": "#!/usr/bin/python3.12 -I", "bash": "#!/usr/bin/env bash",
                  "sh": "#! /bin/sh -e"}  # fmt: skip
        for name, first in firsts.items():
            self.write(f"tools/{name}", f"{first}\n{long}")
        self.write("tools/short", f"#!/bin/sh\n{long[1:]}")
        self.write("tools/fish", f"#!/usr/bin/fish\n{long}")
        self.write("tools/notes", f"# Run #!/bin/sh\n{long}")
        (self.root / "tools/picture").write_bytes(b"\x89PNG\xff" * 99)
        code, text = self.lint()
        self.assertEqual(code, 1, text)
        for name in firsts:
            self.assertIn(f"tools/{name}:2: 121 characters", text)
        self.assertEqual(text.count("121 characters"), len(firsts), text)

    def test_changed_looks_at_what_changed(self):
        self.write("source/core/a.cpp", USED_AFTER_MOVE)
        self.write("source/graph/b.cpp", CLEAN)
        self.commit()
        code, text = self.lint("--changed", "HEAD")
        self.assertEqual((code, "0 of 0 groups" in text), (0, True), text)
        self.write("source/graph/b.cpp", CLEAN + "// more\n")
        code, text = self.lint("--changed", "HEAD")
        self.assertEqual((code, "1 of 1 groups" in text), (0, True), text)
        self.write("source/graph/new.h", HEADER)
        code, text = self.lint("--changed", "HEAD")
        self.assertEqual(code, 1, text)
        self.assertIn("source/graph/new.h:3", text)
        code, text = self.lint("--changed", "no-such-commit")
        self.assertEqual(code, 1, text)
        self.assertIn("no-such-commit", text)

    def test_seconds_begin_with_what_changed(self):
        for i in range(3):
            self.write(f"source/text/{i}/a.cpp", "int Clean() { return 1; }\n")
        self.commit()
        self.write("source/text/1/a.cpp", USED_AFTER_MOVE)
        code, text = self.lint("--seconds", "60")
        self.assertEqual(code, 1, text)
        self.assertIn("[1/2] source/text/1/a.cpp", text)
        self.assertIn("2 of 2 groups of files (3 files)", text)

    def test_folders_that_use_a_name_for_two_things_are_read_apart(self):
        self.write("source/core/a.cpp", CLEAN)
        self.write("source/graph/a.cpp", CLEAN)
        code, text = self.lint()
        self.assertEqual((code, "1 of 1 groups" in text), (0, True), text)
        self.write("source/graph/a.cpp", CLEAN + USED_AFTER_MOVE)
        code, text = self.lint()
        self.assertEqual(code, 1, text)
        self.assertRegex(text, r"source/graph/a\.cpp:11:\d+: warning: .*bugprone-use-after-move")
        self.assertNotIn("redefinition", text)

    def test_a_path_that_is_not_there_is_an_error(self):
        self.write("source/core/a.cpp", CLEAN)
        code, text = self.lint("nowhere")
        self.assertEqual(code, 1, text)
        self.assertIn("nothing for clang-tidy at nowhere", text)


if __name__ == "__main__":
    if shutil.which("clang-tidy") is None:
        print("clang-tidy is not installed")
        sys.exit(77)
    unittest.main()
