# SPDX-License-Identifier: MIT
"""Only files that call CUDA are compiled with the folder of its headers: all else compiles as in a build without.

cuda_headers_test.py compile_commands.json FOLDER...
"""
import json
import pathlib
import re
import sys

# CUDA code, what calls CUDA from C++, and the benchmarks and the plug-in that do.
CALLS_CUDA = re.compile(r"\.cu$|\.cuda\.cpp$|/source/cuda/|/collectives/nccl/|/bench/cuda_|oort_(cuda|hopper)\.dir/")


def main():
    commands = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    folders = {str(pathlib.Path(folder).resolve()) for folder in sys.argv[2:]}
    assert folders, "no folder of CUDA's headers is named"
    with_headers, without, faults = 0, 0, []
    for command in commands:
        found = re.findall(r"-(?:I|isystem) ?(\S+)", command["command"])
        has = any(str(pathlib.Path(folder).resolve()) in folders for folder in found)
        with_headers += has
        without += not has
        if has and not CALLS_CUDA.search(command["file"]):
            faults.append(command["file"])
    assert with_headers, "no file at all has CUDA's headers: are the folders right?"
    assert without, "every file has CUDA's headers"
    if faults:
        print("compiled with CUDA's headers, which they do without:", *sorted(faults), sep="\n  ")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
