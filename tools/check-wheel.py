#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Looks into a wheel: its name has a manylinux tag of a glibc that releases promise, it is not too large, it brings no
library along, and what it holds links to nothing but libraries that every Linux has.

    tools/check-wheel.py [--cuda] WHEEL      --cuda: code for GPUs is inside, which takes its room
"""
import pathlib
import re
import struct
import sys
import zipfile

MOST_BYTES = {False: 15_000_000, True: 60_000_000}  # without and with CUDA
ALLOWED = re.compile(r"(libc|libm|libdl|libpthread|librt|libgcc_s|ld-linux-[\w-]+)\.so\.\d+$")
NEEDED, STRING_TABLE, DYNAMIC_SEGMENT, LOADED_SEGMENT = 1, 5, 2, 1


def needed(data):
    """The libraries that an ELF file of 64 bits names."""
    offset, count = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    size = struct.unpack_from("<H", data, 54)[0]
    segments = [struct.unpack_from("<IIQQQQ", data, offset + i * size) for i in range(count)]
    dynamic = [segment for segment in segments if segment[0] == DYNAMIC_SEGMENT]
    if not dynamic:
        return []
    start, length = dynamic[0][2], dynamic[0][5]
    entries = [struct.unpack_from("<QQ", data, at) for at in range(start, start + length, 16)]
    address = next(value for tag, value in entries if tag == STRING_TABLE)
    for kind, _, file_offset, virtual, _, in_file in segments:
        if kind == LOADED_SEGMENT and virtual <= address < virtual + in_file:
            strings = address - virtual + file_offset
    names = [value for tag, value in entries if tag == NEEDED]
    return [data[strings + name : data.index(b"\0", strings + name)].decode() for name in names]


def promised_glibc():
    """The newest glibc that a release may need, as tools/check-glibc has it."""
    script = pathlib.Path(__file__).with_name("check-glibc").read_text(encoding="utf-8")
    floor = re.search(r"^floor=(\d+)\.(\d+)$", script, re.MULTILINE)
    return int(floor[1]), int(floor[2])


def main():
    arguments = sys.argv[1:]
    cuda = arguments[:1] == ["--cuda"]
    if cuda:
        del arguments[0]
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print(__doc__)
        return 2
    path = pathlib.Path(arguments[0])
    problems = []
    # pip takes it where one of its tags fits.
    tags = [(int(major), int(minor)) for major, minor in re.findall(r"manylinux_(\d+)_(\d+)", path.name)]
    needs, promised = min(tags, default=None), promised_glibc()
    if needs is None:
        problems.append("its name has no manylinux tag")
    elif needs > promised:
        problems.append(f"it needs glibc {needs[0]}.{needs[1]}, and releases promise {promised[0]}.{promised[1]}")
    size = path.stat().st_size
    if size > MOST_BYTES[cuda]:
        problems.append(f"it has {size} bytes, more than {MOST_BYTES[cuda]}")
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        programs = [name for name in names if wheel.open(name).read(4) == b"\x7fELF"]
        for name in programs:
            wrong = [library for library in needed(wheel.read(name)) if not ALLOWED.match(library)]
            problems += [f"{name} needs {library}" for library in wrong]
    problems += [f"it brings {name}" for name in names if re.search(r"\.libs/", name)]
    # The name promises later versions of Python what only the stable ABI keeps.
    suffix = ".abi3.so" if "-abi3-" in path.name else ".cpython-"
    if not any(name.startswith("oort/_oort") and suffix in name for name in names):
        problems.append(f"its name and oort._oort are not for the same versions of Python: no oort/_oort{suffix}")
    if not any(name.endswith(".data/scripts/oort") for name in names):
        problems.append("the program oort is not in it")
    for problem in problems:
        print(f"check-wheel: {path.name}: {problem}", file=sys.stderr)
    if not problems:
        print(f"{path.name}: glibc {needs[0]}.{needs[1]} or newer; {len(programs)} programs and modules; {size} bytes")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
