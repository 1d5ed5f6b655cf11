# SPDX-License-Identifier: MIT
"""Whether processes that are ranks have come to compute."""
import os
import time


def processor_ticks(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


def await_work(case, pids):
    """Until all of them compute: to start and to wait for each other takes them less processor time."""
    ticks = os.sysconf("SC_CLK_TCK") // 2
    for _ in range(3600):
        if all(processor_ticks(pid) >= ticks for pid in pids):
            return
        time.sleep(0.05)
    case.fail("the ranks do not come to compute")
