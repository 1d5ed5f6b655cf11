#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One rank of all threads beside several ranks with a part of them each, by turns on one machine.

    bench/ranks.py MODEL [--oort build/oort] [--threads 2] [--rounds 5] [--mpirun] [--best]
                   [--out FILE.json] [--plot FILE.svg]
    bench/ranks.py --from FILE.json --plot FILE.svg       # draws what was measured before

Each configuration answers in turn, so that a machine that becomes slower slows all of them. The table has medians, and
the ratio to one rank of all threads. --best: the best turn of each instead, of many, on a machine whose cores others
slow down now and then: ranks wait for the slower one, where threads of one rank take work from each other."""
import argparse
import json
import shutil
import statistics
import subprocess
import sys

PROMPT, ANSWER = 128, 64


def configurations(threads, mpirun):
    yield "one rank", [], []
    for split in ("fast", "exact"):
        yield f"{threads} ranks, {split}", [], ["--ranks", str(threads), "--split", split]
    if mpirun:
        launch = [mpirun, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(threads)]
        yield f"{threads} processes, fast", launch, ["--split", "fast"]


def measure(options):
    mpirun = shutil.which("mpirun") if options.mpirun else None
    rows = {name: {"prefill": [], "decode": []} for name, _, _ in configurations(options.threads, mpirun)}
    for _ in range(options.rounds):
        for name, launch, extra in configurations(options.threads, mpirun):
            threads = options.threads if name == "one rank" else 1
            command = [*launch, options.oort, "bench-llm", options.model, "--threads", str(threads), *extra]
            command += ["--prompt-tokens", str(PROMPT), "--new-tokens", str(ANSWER), "--rounds", "3", "--json"]
            report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            rows[name]["prefill"].append(report["prefill_tps"])
            rows[name]["decode"].append(report["decode_tps"])
    name = options.model.rpartition("/")[2]
    report = {"model": name, "threads": options.threads, "prompt": PROMPT, "answer": ANSWER, "rows": rows}
    return {**report, "best": True} if options.best else report


def typical(report, rates):
    return max(rates) if report.get("best") else statistics.median(rates)


def table(report):
    first = report["rows"]["one rank"]
    yield "| | prompt, tokens/s | ratio | answer, tokens/s | ratio |"
    yield "|---|---|---|---|---|"
    for name, rates in report["rows"].items():
        cells = []
        for kind in ("prefill", "decode"):
            # Of each turn the ratio: what slows a turn slows both.
            ratios = [one / other for one, other in zip(rates[kind], first[kind])]
            ratio = max(rates[kind]) / max(first[kind]) if report.get("best") else statistics.median(ratios)
            cells += [f"{typical(report, rates[kind]):.0f}", f"{ratio:.2f}"]
        yield f"| {name} | " + " | ".join(cells) + " |"


def svg(report):
    rows = {name: typical(report, rates["decode"]) for name, rates in report["rows"].items()}
    most, height = max(rows.values()), 34
    size = f'width="640" height="{height * len(rows) + 44}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="14">']
    title = f'Tokens a second of an answer, {report["model"]}, {report["threads"]} threads in all'
    parts.append(f'<text x="8" y="22">{title}</text>')
    for i, (name, rate) in enumerate(rows.items()):
        y, width = 34 + height * i, 380 * rate / most
        parts.append(f'<text x="8" y="{y + 20}">{name}</text>')
        color = "#888" if i == 0 else "#3a7bbf"
        parts.append(f'<rect x="170" y="{y + 4}" width="{width:.0f}" height="24" fill="{color}"/>')
        parts.append(f'<text x="{178 + width:.0f}" y="{y + 20}">{rate:.0f}</text>')
    return "\n".join([*parts, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?")
    parser.add_argument("--oort", default="build/oort")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mpirun", action="store_true", help="processes of mpirun as well")
    parser.add_argument("--best", action="store_true", help="the best of the turns, not the median")
    parser.add_argument("--from", dest="before")
    parser.add_argument("--out")
    parser.add_argument("--plot")
    options = parser.parse_args()
    if not options.before and not options.model:
        parser.error("name a MODEL, or figures of before: --from")
    if options.before:
        with open(options.before, encoding="utf-8") as file:
            report = json.load(file)
    else:
        report = measure(options)
    print("\n".join(table(report)))
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write(json.dumps(report, indent=1) + "\n")
    if options.plot:
        with open(options.plot, "w", encoding="utf-8") as file:
            file.write(svg(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
