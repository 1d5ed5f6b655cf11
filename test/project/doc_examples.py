#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes sources of the C++ examples of a page, so that the build compiles them.

    doc_examples.py PAGE FOLDER

Examples stand between ```cpp and ```. One with a main() becomes a program of its own, STEM_example_N.cpp; all others
become functions of one source, STEM_examples.cpp, which have the names that the page speaks of: `graph`, `session` and
`x`. Prints the sources. Files that would be the same stay untouched."""
import pathlib
import re
import sys

HEAD = """// Generated from {page}.
#include <cstdio>
#include <thread>

#include <oort/engine.h>
#include <oort/log.h>
#include <oort/oort.h>

"""
BODY = """void Example{number}([[maybe_unused]] const std::shared_ptr<const oort::RuntimeGraph>& graph,
{space}[[maybe_unused]] oort::Session& session, [[maybe_unused]] const oort::Tensor& x) {{
{code}}}

"""


def write(path, text):
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    print(path)


def main():
    page, folder = map(pathlib.Path, sys.argv[1:])
    folder.mkdir(parents=True, exist_ok=True)
    examples = re.findall(r"^```cpp\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    functions = ""
    for number, code in enumerate(examples, 1):
        if re.search(r"^int main\(", code, re.MULTILINE):
            write(folder / f"{page.stem}_example_{number}.cpp", code)
        else:
            functions += BODY.format(number=number, code=code, space=" " * len(f"void Example{number}("))
    if functions:
        write(folder / f"{page.stem}_examples.cpp", HEAD.format(page=page.name) + functions + "int main() {}\n")


if __name__ == "__main__":
    main()
