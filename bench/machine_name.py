# SPDX-License-Identifier: MIT
"""How figures call the machine that they were taken on. Not a program: measuring scripts import it."""
import platform
import re
import subprocess


def processor_name():
    """As lscpu tells it, which also knows ARM's cores by name; their /proc/cpuinfo has numbers alone."""
    try:
        listed = subprocess.run(["lscpu"], capture_output=True, text=True).stdout
    except OSError:
        listed = ""
    match = re.search(r"^Model name:\s*(.+)$", listed, re.MULTILINE)
    return match.group(1).strip() if match else platform.processor() or platform.machine()
