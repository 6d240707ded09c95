"""The operator behind a stage, from the query plans in the log.

A plan is a tree. Cut at its exchanges it falls into fragments, and each stage runs one of them. Which one, the
identifiers of its metrics say: they are in the plan and in what the stage reports at its end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

STATE: Final = "state store"
GROUP_MAP: Final = "Python group map"
WINDOW: Final = "window"
JOIN: Final = "join"
AGGREGATE: Final = "aggregate"
SORT: Final = "sort"
WRITE: Final = "write"
SCAN: Final = "scan"
EXCHANGE: Final = "exchange"
RDD: Final = "RDD"

_KEYED: Final = (
    (STATE, re.compile(r"StateStore|WithState|SymmetricHashJoin|StreamingDeduplicate")),
    (GROUP_MAP, re.compile(r"FlatMap(Co)?Groups|AggregateInPandas|AggregatePython|^MapGroups|^CoGroup")),
    (WINDOW, re.compile(r"Window(InPandas|Python|GroupLimit)?$")),
    (JOIN, re.compile(r"(SortMerge|ShuffledHash|ShuffleHash|Merge)Join|CartesianProduct")),
    (AGGREGATE, re.compile(r"Aggregate$|GroupingAgg")),
    (SORT, re.compile(r"^Sort$")),
)
_WRITES: Final = re.compile(
    r"WriteFiles|InsertInto|AppendData|Overwrite|ReplaceData|WriteDelta|WriteToDataSource|AsSelect|SaveInto"
)
_SHUFFLE: Final = re.compile(r"\w*(?<!Broadcast)Exchange$")
_BROADCAST: Final = re.compile(r"Broadcast(Exchange|QueryStage)|Subquery")
_SCAN: Final = re.compile(r"Scan\b|^Range$|ExistingRDD|^Relation")
_PARTIAL: Final = re.compile(r"functions=\[partial_")
_WHOLE_SORT: Final = re.compile(r"\], true, \d+$")
_WRITTEN: Final = ("shuffle ", "data size", "number of partitions")
_PARTITIONING: Final = re.compile(r"(hash|range)partitioning\((.*), (\d+)\)")
_COLUMN: Final = re.compile(r"`?([^#`,()]+?)`?#\d+L?")
_JOIN_TYPE: Final = re.compile(r"\b(Inner|Cross|LeftOuter|RightOuter|FullOuter|LeftSemi|LeftAnti|ExistenceJoin)\b")
_FORMAT: Final = re.compile(r"(?:FileScan|Scan|BatchScan) (\w+)")
_JOIN_NAMES: Final = {
    "Inner": "inner join", "Cross": "cross join", "LeftOuter": "left outer join", "RightOuter": "right outer join",
    "FullOuter": "full outer join", "LeftSemi": "left semi join", "LeftAnti": "left anti join",
    "ExistenceJoin": "left semi join",
}  # fmt: skip
_LONGEST_TEXT: Final = 4_000


@dataclass(frozen=True, kw_only=True)
class Operator:
    """What a stage does.

    Parameters
    ----------
    kind : str
        One of the constants of this module.
    name : str
        The kind, and the type of a join or the format of a scan.
    node : str
        Spark's name of the operator.
    keys : tuple of str
        The columns by which rows were exchanged before it; empty if unknown.
    order : tuple of str
        The columns that a window is ordered by.
    partitions : int or None
        Number of partitions of the exchange before it, if that was by hash or to a single one.
    compressed : bool
        Whether it scans files that are compressed as a whole.
    """

    kind: str
    name: str
    node: str = ""
    keys: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    partitions: int | None = None
    compressed: bool = False


@dataclass
class _Node:
    name: str
    text: str


@dataclass
class _Read:
    """An exchange that a fragment reads, and the operator that needed it."""

    text: str
    operator: tuple[str, _Node] | None
    sizes: set[int] = field(default_factory=set)

    def remember(self, earlier: Iterable[_Read]) -> None:
        """Take over the operator that needed the exchange in an earlier plan, if there is none in this one."""
        if self.operator is None:
            self.operator = next((one.operator for one in earlier if one.operator and one.sizes & self.sizes), None)


@dataclass
class Fragment:
    """The part of a plan that one stage runs."""

    nodes: list[_Node] = field(default_factory=list)
    reads: list[_Read] = field(default_factory=list)
    metrics: set[int] = field(default_factory=set)

    def operator(self, values: Mapping[int, int]) -> Operator:
        """Return what the fragment does, as far as skew matters: the operator at the exchange with most bytes.

        Parameters
        ----------
        values : mapping
            The stage's metrics by their identifiers.
        """
        stateful = next((node for node in self.nodes if _kind(node) == STATE), None)
        read = max(self.reads, key=lambda one: sum(values.get(size, 0) for size in one.sizes), default=None)
        if read is None:
            return self._without_exchange(stateful)
        keys, partitions = _partitioning(read.text)
        found = (STATE, stateful) if stateful is not None else read.operator
        if found is None:
            kind = WRITE if any(_WRITES.search(node.name) for node in self.nodes) else EXCHANGE
            return Operator(kind=kind, name=kind, keys=keys, partitions=partitions)
        kind, node = found
        return Operator(
            kind=kind,
            name=_shown(kind, node),
            node=node.name,
            keys=keys,
            partitions=partitions,
            order=_order(kind, node),
        )

    def _without_exchange(self, stateful: _Node | None) -> Operator:
        if stateful is not None:
            return Operator(kind=STATE, name=STATE, node=stateful.name)
        scan = next((node for node in self.nodes if _SCAN.search(node.name)), None)
        if scan is None:
            written = any(_WRITES.search(node.name) for node in self.nodes)
            return Operator(kind=WRITE, name=WRITE) if written else Operator(kind=EXCHANGE, name="query")
        form = _FORMAT.search(scan.text)
        compressed = re.search(r"\.(gz|gzip|zip|xz|zst|zstd|lz4|snappy)\b", scan.text) is not None
        return Operator(
            kind=SCAN, name=f"{SCAN} {form[1].lower()}" if form else SCAN, node=scan.name, compressed=compressed
        )


def fragments_of(plan: Mapping[str, Any], earlier: Sequence[Fragment] = ()) -> list[Fragment]:
    """Cut a plan, as the log has it, at its exchanges.

    Parameters
    ----------
    plan : mapping
        The plan.
    earlier : sequence of Fragment
        The fragments of the plan that it replaces: adaptive execution drops an operator whose work an exchange has
        done already, such as a join with a side that turned out to be empty, and the stage is still there for it.
    """
    fragments = _cut(plan)
    reads = [read for fragment in earlier for read in fragment.reads]
    for fragment in fragments:
        for read in fragment.reads:
            read.remember(reads)
    return fragments


def _cut(plan: Mapping[str, Any]) -> list[Fragment]:
    fragments = [Fragment()]
    waiting: list[tuple[Mapping[str, Any], Fragment, tuple[str, _Node] | None]] = [(plan, fragments[0], None)]
    while waiting:  # plans can be deeper than Python's stack
        node, fragment, above = waiting.pop()
        name, text = str(node.get("nodeName", "")), str(node.get("simpleString", ""))[:_LONGEST_TEXT]
        children = node.get("children") or []
        if _BROADCAST.match(name):
            fragments.append(Fragment())
            waiting += [(child, fragments[-1], None) for child in children]
            continue
        if _SHUFFLE.match(name):
            read, below = _Read(text, above), Fragment()
            for metric, number in _metrics(node):
                if metric.startswith(_WRITTEN):
                    below.metrics.add(number)
                else:
                    fragment.metrics.add(number)
                    if "bytes read" in metric or metric == "records read":
                        read.sizes.add(number)
            fragment.reads.append(read)
            if children:  # none where an exchange is used again
                fragments.append(below)
                waiting += [(child, below, None) for child in children]
            continue
        seen = _Node(name, text)
        fragment.nodes.append(seen)
        fragment.metrics.update(number for _, number in _metrics(node))
        kind = _kind(seen)
        below_is = (kind, seen) if kind is not None else above
        waiting += [(child, fragment, below_is) for child in children]
    return fragments


def _metrics(node: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for metric in node.get("metrics") or ():
        yield str(metric.get("name", "")), int(metric.get("accumulatorId", -1))


def _kind(node: _Node) -> str | None:
    for kind, pattern in _KEYED:
        if pattern.search(node.name):
            if kind == AGGREGATE and _PARTIAL.search(node.text):
                return None
            if kind == SORT and not _WHOLE_SORT.search(node.text):  # within partitions, for a join or a window
                return None
            return kind
    return None


def _shown(kind: str, node: _Node) -> str:
    match = _JOIN_TYPE.search(node.text) if kind == JOIN else None
    return _JOIN_NAMES[match[1]] if match else kind


def _partitioning(text: str) -> tuple[tuple[str, ...], int | None]:
    """Return the columns of an exchange by hash or by range, and the number of partitions of one by hash.

    >>> _partitioning("Exchange hashpartitioning(k#1, pmod(v#2L, 3), 200), ENSURE_REQUIREMENTS, [plan_id=1]")
    (('k', 'v'), 200)
    >>> _partitioning("Exchange rangepartitioning(k#1 ASC NULLS FIRST, v#2L DESC NULLS LAST, 9), ENSURE_REQUIREMENTS")
    (('k', 'v'), None)
    """
    match = _PARTITIONING.search(text)
    if match is None:
        return (), 1 if "SinglePartition" in text else None
    columns = tuple(dict.fromkeys(name.strip() for name in _COLUMN.findall(match[2])))
    return columns, int(match[3]) if match[1] == "hash" else None


def _order(kind: str, node: _Node) -> tuple[str, ...]:
    """Return the columns that a window is ordered by.

    >>> _order(WINDOW, _Node("Window", "Window [row_number() AS n#7], [k#1], [v#2L ASC NULLS FIRST]"))
    ('v',)
    """
    lists = re.findall(r"\[([^\[\]]*)\]", node.text) if kind == WINDOW else []
    return tuple(name.strip() for name in _COLUMN.findall(lists[-1])) if len(lists) > 2 else ()
