# SPDX-License-Identifier: MIT
"""tools/demo uses an installed oort where the clone is a release and the program is of it, and builds otherwise."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

DEMO = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "tools/demo").resolve()
PROGRAM = "#!/bin/sh\n[ \"$1\" != --version ] || echo \"oort {version}\"\necho {name} \"$@\" >>\"$LOG\"\n"


class Demo(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.scratch.name) / "clone"
        (self.root / "tools").mkdir(parents=True)
        (self.root / "models/digits/samples").mkdir(parents=True)
        (self.root / "models/digits/samples/1.png").touch()
        shutil.copy(DEMO, self.root / "tools/demo")
        (self.root / "CMakeLists.txt").write_text("project(oort VERSION 1.2.3 LANGUAGES CXX)\n")
        built = PROGRAM.format(version="1.2.3", name="built").replace('"', '\\"').replace("$", "\\$")
        self.write("tools/build", f'#!/bin/sh\nmkdir -p "$1/demos"\nprintf "%b" "{built}" >"$1/oort"\n'
                                  'cp "$1/oort" "$1/demos/resnet"\nchmod +x "$1/oort" "$1/demos/resnet"\n')
        self.write("../bin/oort", PROGRAM.format(version="1.2.3", name="installed"))
        self.git("init", "-q")
        self.git("add", ".")
        self.git("commit", "-q", "-m", "all")

    def tearDown(self):
        self.scratch.cleanup()

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def git(self, *command):
        subprocess.run(["git", "-C", self.root, "-c", "user.name=a", "-c", "user.email=a@b", *command], check=True)

    def demo(self, *arguments):
        """Which programs the demo ran."""
        log = self.root.parent / "log"
        log.write_text("")
        env = os.environ | {"LOG": str(log), "PATH": f"{self.root.parent}/bin:{os.environ['PATH']}"}
        done = subprocess.run([self.root / "tools/demo", *arguments], env=env, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return {line.split()[0] for line in log.read_text().splitlines() if "--version" not in line}

    def test_a_release_needs_no_build(self):
        self.git("tag", "v1.2.3")
        self.assertEqual(self.demo(), {"installed"})
        self.assertEqual(self.demo("--build"), {"built"})

    def test_other_clones_are_built(self):
        self.assertEqual(self.demo(), {"built"})
        self.git("tag", "v1.2.4")
        self.assertEqual(self.demo(), {"built"})

    def test_a_changed_release_is_built(self):
        self.git("tag", "v1.2.3")
        (self.root / "CMakeLists.txt").write_text("project(oort VERSION 1.2.3 LANGUAGES CXX) # mine\n")
        self.assertEqual(self.demo(), {"built"})

    def test_another_version_does_not_count(self):
        self.git("tag", "v1.2.3")
        self.write("../bin/oort", PROGRAM.format(version="1.2.2", name="installed"))
        self.assertEqual(self.demo(), {"built"})


class Build(unittest.TestCase):
    """What tools/build asks of CMake for the demo."""

    def configured(self, *arguments, cache=None):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            (folder / "cmake").write_text('#!/bin/sh\necho "$@"\n')
            (folder / "cmake").chmod(0o755)
            (folder / "build").mkdir()
            if cache is not None:
                (folder / "build/CMakeCache.txt").write_text(cache)
            env = os.environ | {"OORT_SKIP_DEPS": "1", "PATH": f"{folder}:{os.environ['PATH']}"}
            return subprocess.run([DEMO.parent / "build", folder / "build", "--no-cuda", *arguments], env=env,
                                  check=True, capture_output=True, text=True).stdout

    def test_the_demo_is_built_for_a_first_look(self):
        asked = self.configured("--demo")
        self.assertIn("-DOORT_SERVE=OFF -DOORT_QUICK=ON", asked)
        self.assertIn("--target oort_cli demo_resnet", asked)
        self.assertIn("-DOORT_QUICK=ON", self.configured("--demo", cache="OORT_QUICK:BOOL=ON\n"))

    def test_the_rest_is_built_whole(self):
        asked = self.configured(cache="OORT_QUICK:BOOL=ON\n")
        self.assertIn("-DOORT_SERVE=AUTO -DOORT_QUICK=OFF", asked)
        self.assertNotIn("--target", asked)

    def test_the_demo_leaves_a_whole_build_as_it_is(self):
        self.assertIn("-DOORT_SERVE=AUTO -DOORT_QUICK=OFF", self.configured("--demo", cache="OORT_QUICK:BOOL=OFF\n"))


if __name__ == "__main__":
    unittest.main()
