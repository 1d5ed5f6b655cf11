# SPDX-License-Identifier: MIT
"""What liboort-c exports is what test/c_api/symbols.txt lists, and what the headers of C declare; all else is hidden.

    symbols_test.py LIBRARY [--write]
"""
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
LIST = HERE / "symbols.txt"
HEADERS = sorted((HERE.parent.parent / "include/oort").glob("c_*.h"))


def exported(library):
    """Names with the versions of their nodes, as the dynamic linker sees them."""
    done = subprocess.run(["readelf", "--dyn-syms", "--wide", library], capture_output=True, text=True, check=True)
    found = set()
    for line in done.stdout.splitlines():
        fields = line.split()
        if len(fields) >= 8 and fields[6] != "UND" and fields[4] in ("GLOBAL",
                                                                     "WEAK") and not fields[7].startswith("OORT_C_"):
            found.add(fields[7].replace("@@", " ").replace("@", " "))
    return sorted(found)


def soname(library):
    done = subprocess.run(["readelf", "--dynamic", library], capture_output=True, text=True, check=True)
    return re.search(r"SONAME.*\[(.*)\]", done.stdout)[1]


def main():
    library = sys.argv[1]
    found = exported(library)
    if "--write" in sys.argv:
        LIST.write_text("\n".join(found) + "\n", encoding="utf-8")
    listed = LIST.read_text(encoding="utf-8").splitlines()
    header = "".join(path.read_text(encoding="utf-8") for path in HEADERS)
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    declared = sorted(re.findall(r"OORT_C_API[^;]*?\b(oort_\w+)\(", text))
    abi = re.search(r"#define OORT_ABI_VERSION (\d+)", header)[1]
    wrong = []
    wrong += [f"gone or moved: {name}; programs that use it no longer start"
              for name in sorted(set(listed) - set(found))]
    wrong += [f"new: {name}; add it to symbols.txt (--write)" for name in sorted(set(found) - set(listed))]
    names = [name.split()[0] for name in found]
    wrong += [f"declared, but not there: {name}" for name in declared if name not in names]
    wrong += [f"there, but not declared: {name}" for name in names if name not in declared and name.startswith("oort_")]
    if soname(library) != f"liboort-c.so.{abi}":
        wrong.append(f"the soname {soname(library)} is not that of ABI {abi}")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
