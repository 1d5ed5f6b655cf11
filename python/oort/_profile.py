# SPDX-License-Identifier: MIT
"""What a network spends its time on."""
from typing import Any, Dict, List, NamedTuple, Tuple

from ._network import Network
from ._tables import bytes_text, count_text, seconds_text, table, table_html


class Row(NamedTuple):
    """One operator. ``seconds`` is the least of all runs, ``share`` is of the time of all operators."""

    name: str
    type: str
    algorithm: str
    seconds: float
    share: float
    flops: float
    bytes: float
    outputs: Tuple[str, ...]


class Profile:
    """What `oort.profile` measured: a table that prints itself, in notebooks as HTML, slowest operators first.

    ``seconds`` is the median of whole runs that were not profiled, ``fastest`` the least of them, ``operators`` has a
    `Row` for each operator in the order in which they run.
    """

    _COLUMNS = ("operator", "type", "algorithm", "time", "share", "FLOP/s", "byte/s", "outputs")

    def __init__(self, network: Network, report: Dict[str, Any]):
        self.network = network
        self.seconds: float = sorted(report["seconds"])[len(report["seconds"]) // 2]
        self.fastest: float = min(report["seconds"])
        least = [min(row["seconds"]) for row in report["operators"]]
        total = sum(least) or 1.0
        self.operators: List[Row] = [
            Row(row["name"], row["type"], row["algorithm"], seconds, seconds / total, row["flops"], row["bytes"],
                tuple(row["outputs"]))
            for row, seconds in zip(report["operators"], least)
        ]  # fmt: skip

    def by_type(self) -> Dict[str, float]:
        """Seconds of all operators of a type, slowest first."""
        sums: Dict[str, float] = {}
        for row in self.operators:
            sums[row.type] = sums.get(row.type, 0.0) + row.seconds
        return dict(sorted(sums.items(), key=lambda item: -item[1]))

    def _rows(self) -> List[Tuple[str, ...]]:
        rows: List[Tuple[str, ...]] = []
        for row in sorted(self.operators, key=lambda row: -row.seconds):
            rate = 1 / row.seconds if row.seconds > 0 else 0.0
            rows.append((
                row.name, row.type, row.algorithm, seconds_text(row.seconds), f"{100 * row.share:.1f} %",
                count_text(row.flops * rate) if row.flops else "", bytes_text(row.bytes * rate), " ".join(row.outputs),
            ))  # fmt: skip
        return rows

    def _total(self) -> str:
        return f"one run: median {seconds_text(self.seconds)}, least {seconds_text(self.fastest)}; {self.network!r}"

    def __str__(self) -> str:
        return table(self._COLUMNS, self._rows(), right=(3, 4, 5, 6)) + "\n" + self._total()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return table_html(self._COLUMNS, self._rows(), right=(3, 4, 5, 6), caption=self._total())


def profile(network: Network, *inputs: Any, runs: int = 20) -> Profile:
    """Runs a network again and again on these arrays, and tells what each operator takes.

    >>> import numpy, oort
    >>> found = oort.profile(oort.load("models/digits"), numpy.zeros((1, 1, 28, 28), numpy.float32), runs=3)
    >>> sum(row.share for row in found.operators) > 0.99
    True
    """
    if runs < 1:
        raise ValueError("runs is 1 or more")
    if not isinstance(network, Network):
        raise TypeError(f"profile takes a network that oort.load made, not a {type(network).__name__}")
    return Profile(network, network._measure(list(inputs), runs))
