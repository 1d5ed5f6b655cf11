#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every command that a page shows is run.

    docs_commands_test.py OORT DEMOS [PAGE…]

A block that begins with ```sh is run line by line by bash, in a copy of the tree, with OORT in the path. A block whose
first line is a comment "# needs …" or "# takes …", and a line that ends with one, is not run but listed. Commands stand
in such blocks and nowhere else: an indented block that looks like a command is an error.
"""
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
OORT, DEMOS, ONLY = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), sys.argv[3:]
del sys.argv[1:]
NOT_RUN = re.compile(r"#\s*(needs|takes) ")
COMPILES = re.compile(r"(tools/(build|demo|test|fuzz)|cmake|ninja|ctest|pip)\b")
LOOKS_LIKE_A_COMMAND = re.compile(r"(    |\t)\s*(\$ |oort |build/|tools/|bench/|cmake |ctest |ninja |python3 |pip )")


def pages():
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("*/README.md"), *ROOT.glob("*/*/README.md")]
    for path in sorted(set(found)):
        name = str(path.relative_to(ROOT))
        if not name.startswith(("build", ".", "docs/operators.md")) and (not ONLY or name in ONLY):
            yield name, path.read_text(encoding="utf-8").splitlines()


def commands_of(lines):
    """(number of the line, command, why it is not run or None); a command goes on behind a backslash"""
    block, reason = None, None
    at = 0
    while at < len(lines):
        line = lines[at].strip()
        if line.startswith("```"):
            block = line[3:].strip() if block is None else None
            reason = None
            following = lines[at + 1].strip() if at + 1 < len(lines) else ""
            if block == "sh" and NOT_RUN.match(following):
                reason = following
        elif block == "sh" and line and not line.startswith("#"):
            start = at
            while lines[at].rstrip().endswith("\\"):
                at += 1
            command = "\n".join(part.strip() for part in lines[start : at + 1])
            marked = re.search(r"#\s*(needs|takes) .*$", lines[at])
            yield start + 1, command, reason or (marked[0] if marked else None)
        at += 1


def scratch_tree(folder):
    """A copy in which commands may write; what is large and only read is linked."""
    (folder / "test").mkdir()
    for entry in (ROOT / "test").iterdir():
        if entry.name == "layers":
            shutil.copytree(entry, folder / "test" / entry.name)
        else:
            (folder / "test" / entry.name).symlink_to(entry)
    for entry in ROOT.iterdir():
        if entry.name in ("source", "parser"):
            (folder / entry.name).symlink_to(entry)
        elif entry.name == "test":
            continue
        elif entry.is_dir() and not entry.name.startswith(("build", ".")):
            shutil.copytree(entry, folder / entry.name, symlinks=True)
        elif entry.is_file() and not entry.name.startswith(".git"):
            shutil.copy(entry, folder / entry.name)
    (folder / "build").mkdir()
    (folder / "build" / "oort").symlink_to(OORT)
    (folder / "build" / "demos").symlink_to(DEMOS)


class CommandsTest(unittest.TestCase):
    def test_every_command_runs(self):
        failed, left_out, ran = [], [], 0
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            scratch_tree(folder)
            environment = {**os.environ, "PATH": f"{folder / 'build'}:{os.environ['PATH']}"}
            for page, lines in pages():
                for number, command, reason in commands_of(lines):
                    if reason:
                        left_out.append(f"{page}:{number}: {command.splitlines()[0]}   {reason}")
                        continue
                    if COMPILES.match(command):
                        failed.append(f"{page}:{number}: {command}: mark it with '# takes …' or '# needs …'")
                        continue
                    done = subprocess.run(
                        ["bash", "-euo", "pipefail", "-c", command],
                        cwd=folder,
                        env=environment,
                        stdin=subprocess.DEVNULL,
                        capture_output=True,
                        text=True,
                        timeout=300,
                    )
                    ran += 1
                    if done.returncode != 0:
                        failed.append(f"{page}:{number}: {command}\n{done.stdout[-500:]}{done.stderr[-1000:]}")
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = used.ru_utime + used.ru_stime
        print(f"{ran} commands ran in {seconds:.0f} s of processor time; not run: {len(left_out)}")
        print("\n".join(left_out), flush=True)
        self.assertEqual(failed, [], "\n".join(failed))
        if not ONLY:
            self.assertGreater(ran, 20)

    def test_what_is_not_run_names_what_exists(self):
        """Scripts, options of the build and test programs of commands that would take too long, or need more."""
        build = "".join(path.read_text() for path in [ROOT / "CMakeLists.txt", *ROOT.glob("*/*.cmake"),
                                                      *ROOT.glob("*/*/CMakeLists.txt")])
        wrong = []
        for page, lines in pages():
            for number, command, reason in commands_of(lines):
                scripts = re.findall(r"(?<![\w/-])(?:tools|bench|models|test)/[\w./-]*\w", command) if reason else []
                options = re.findall(r"-D(OORT_\w+)=", command)
                tests = re.findall(r"\btest_(\w+)", command)
                wrong += [f"{page}:{number}: no {name}" for name in scripts if not (ROOT / name).exists()]
                wrong += [f"{page}:{number}: no option {name}" for name in options if name not in build]
                wrong += [f"{page}:{number}: no test_{name}" for name in tests if not (ROOT / "test" / name).is_dir()]
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))

    def test_commands_stand_in_blocks_of_their_own(self):
        wrong = []
        for page, lines in pages():
            fenced = False
            for number, line in enumerate(lines, 1):
                fenced ^= line.strip().startswith("```")
                if not fenced and LOOKS_LIKE_A_COMMAND.match(line):
                    wrong.append(f"{page}:{number}: {line.strip()}")
        self.assertEqual(wrong, [], "put these into blocks that begin with ```sh")

    def test_what_is_taken_for_a_command(self):
        lines = "```sh\na \\\n  b\nc  # needs d\n```\n```sh\n# takes long\ne\n```\n```cpp\nf\n```".splitlines()
        expected = [(2, "a \\\nb", None), (4, "c  # needs d", "# needs d"), (8, "e", "# takes long")]
        self.assertEqual(list(commands_of(lines)), expected)


if __name__ == "__main__":
    unittest.main()
