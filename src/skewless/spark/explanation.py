"""Explain: which way the operators of skewless take in a query, and whether it survived Spark's optimiser.

Everything is read from the physical plan, so it is what will run, or has run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame

from skewless import notebook
from skewless.spark.columns import require_dataframe
from skewless.spark.join_explanation import broadcast_join, salted_join, why_plain
from skewless.spark.physical_plan import Operator, PhysicalPlan, read_plan

_BY_SLOT: Final = r"Exchange hashpartitioning\(skewless_slot\w*#\d+, (\d+)\)"
_BY_WORKER: Final = r"Exchange shufflepartitionidpassthrough\(.*\bskewless_worker\w*#.*, (\d+)\)"
_BY_SALT: Final = r"Exchange hashpartitioning\(.*\barray_position\(\[.*, (\d+)\)"
_EXCHANGE: Final = re.compile(f"{_BY_SLOT}|{_BY_WORKER}|{_BY_SALT}")
_NAMED: Final = re.compile(r"\barray_position\(\[([-\d,]+)\]")
_BY_KEY: Final = re.compile(r"Exchange hashpartitioning\((.*), (\d+)\)")
_BY_NUMBER: Final = re.compile(rf"{_BY_KEY.pattern}, REPARTITION_BY_NUM")
_LOOK_UP: Final = re.compile(r"(\w+(?:Join|Product)\w*)\b.*\bskewless_id#")
_OF_LOOK_UP: Final = re.compile(r"Exchange hashpartitioning\(skewless_id#")  # where the table is not broadcast
_ROUTE: Final = re.compile(r"\b(skewless_route\w*)\(")
_DRAWN: Final = re.compile(r"\brand\(")
_BY_CONTENT: Final = re.compile(r"\bshiftrightunsigned\(xxhash64\(")
_SPREAD: Final = re.compile(r"\belement_at\(\[.* AS skewless_slot#")
_EMPTY: Final = re.compile(r"cast\(null as array<struct<split:double,.* AS skewless_pieces_of_")
_SAMPLE: Final = re.compile(r"^Sample 0\.0, ([\d.E-]+),", re.MULTILINE)
_PLANNED: Final = re.compile(r"^MapInArrow (\w+)\((skewless_hash#)?", re.MULTILINE)
_COUNTED: Final = re.compile(r"^\w*Aggregate\(keys=\[skewless_hash#", re.MULTILINE)  # the input may be a sample as well
_REUSED: Final = re.compile(r"^ReusedExchange\b", re.MULTILINE)
_WORKS: Final = {
    "agg": re.compile(r"MapInArrow (?:Whole)?Work\("),
    "stateful": re.compile(r"MapInArrow StatefulWork\("),
    "apply": re.compile(r"FlatMapGroupsInPandas \[skewless_(?:worker|slot)\w*#"),
    "over": re.compile(r"Window \[.*, \[[^\[\]]*\bskewless_slot#\d+[^\[\]]*\], \[[^\[\]]*\]$"),
}
_CARRIED: Final = re.compile(r"\w+Join\b.*\bskewless_carried_\d+#")
_COPIES: Final = "skewless_copy#"  # rows of neighbouring pieces, in a union with the rows
_CHOSEN: Final = re.compile(r"\bskewless_(?:route|id|slot|worker)\w*[#(]")
_CHANGED: Final = re.compile(r"AQEShuffleRead|Exchange|Coalesce")
_NO_WORK: Final = re.compile(r"Project|Filter|Sort|AQEShuffleRead|\w+QueryStage|\w+ToRow|InMemory")
_MERGE: Final = re.compile(r"(\w*Aggregate|MapInArrow|FlatMapGroupsInPandasWithState)\b")
_WHOLE: Final = "none: workers have whole groups"
_GATHERED: Final = re.compile(r"MapInArrow merge_gathered\(")
_COMBINED: Final = re.compile(r"\w*Aggregate\(.*functions=\[(?!.*partial_collect_).*(?:partial|merge)_")
_BUCKETED: Final = re.compile(r"FileScan .* Bucketed: (?:true|false \(disabled by query planner\))")
_HASHED: Final = re.compile(r"\bxxhash64\(([^()]*), 42\)")
_ALIAS: Final = re.compile(r"([\w.]+#\d+)L? AS ([\w.]+#\d+)")
_COLUMN: Final = re.compile(r"[^\s,]+#\d+")

_PREDICTS: Final = {"Task": "plan_keys", "Owners": "group(…).explain"}

PLANNED: Final = "planned salting"
ROUTED: Final = "routing in Python, row by row"
SPREAD: Final = "spreading all rows evenly"
HASHED: Final = "plain hashing"
LOCAL: Final = "combining rows where they are read"


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What the physical plan of a query shows of skewless; `str()` renders it as text.

    Parameters
    ----------
    plan : PhysicalPlan
        The physical plan.
    operators : tuple of Operator
        The operators of skewless in it; those that run last come first.
    """

    plan: PhysicalPlan
    operators: tuple[Operator, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """What is not as it should be in any of the operators."""
        return tuple(problem for operator in self.operators for problem in operator.problems)

    def __str__(self) -> str:
        if self.operators:
            return "\n".join(map(str, self.operators))
        return f"no exchange by skewless: {_by_spark(self.plan)}"

    def _repr_html_(self) -> str:
        return notebook.preformatted(str(self))

    @classmethod
    def of(cls, df: DataFrame) -> Explanation:
        """Explain a DataFrame, as `explain` does, without printing it."""
        require_dataframe(df)
        return explained(read_plan(df))


def explain(df: DataFrame) -> None:
    """Print which way the operators of skewless take in a query, and whether it survived Spark's optimiser.

    Parameters
    ----------
    df : DataFrame
        The result of `repartition`, `agg`, `apply`, `stateful`, `over` or `join`, or a query on top of it.
    """
    print(Explanation.of(df))  # noqa: T201 - as DataFrame.explain does


def explained(plan: PhysicalPlan) -> Explanation:
    """Find the operators of skewless in a plan."""
    found = {}
    for node, text in enumerate(plan.nodes):
        if (joined := salted_join(plan, node)) is not None:
            found[node] = joined
        elif _EXCHANGE.match(text):
            found[node] = _Finder(plan, node).operator()
        elif (name := _work(text)) is not None and not _is_exchanged(plan, node):
            found[node] = _without_exchange(plan, node, name)
        elif _is_stray_look_up(plan, node):
            problem = "the exchange by skewless is missing: rows look up the plan in vain"
            found[node] = Operator(name="repartition", way="no exchange", findings=(), problems=(problem,))
    return Explanation(plan=plan, operators=tuple(found.values()))


def _work(text: str) -> str | None:
    return next((name for name, pattern in _WORKS.items() if pattern.match(text)), None)


def _is_exchanged(plan: PhysicalPlan, work: int) -> bool:
    """Whether the rows of a work come from an exchange of skewless, be it another's that is reused."""
    own = _work(plan.nodes[work])
    for node in plan.below(work):
        other = _work(plan.nodes[node])
        if other is not None and not own == other == "over":  # windows follow one another
            return False
        if _EXCHANGE.search(plan.nodes[node]):
            return True
    return False


def _without_exchange(plan: PhysicalPlan, work: int, name: str) -> Operator:
    """Return an operator whose rows stay where they are: on purpose, if nothing chooses workers for them."""
    working = _node_name(plan.nodes[work])
    findings = (("work", f"{working}, in the tasks that read the rows"),)
    if name == "agg" and not _CHOSEN.search(plan.texts(plan.below(work))):
        sent = next((plan.nodes[node] for node in plan.below(work) if not _NO_WORK.match(plan.nodes[node])), "")
        merge = ("merge", _merged(plan, work))
        if (by_key := _BY_NUMBER.match(sent)) is None:
            return Operator(name=name, way=LOCAL, findings=(*findings, merge), problems=())
        exchange = ("exchange", f"by key, {by_key[2]} workers")
        hashed = (exchange, ("work", f"{working}, on the workers"), merge)
        return Operator(name=name, way=HASHED, findings=hashed, problems=())
    problem = "the exchange by skewless is missing: its work gets rows as the input has them"
    return Operator(name=name, way="no exchange", findings=findings, problems=(problem,))


def _is_stray_look_up(plan: PhysicalPlan, node: int) -> bool:
    """Whether this is the last look-up in a table before rows are used, without an exchange in between."""
    if not _LOOK_UP.match(plan.nodes[node]):
        return False
    for other in plan.above(node):
        text = plan.nodes[other]
        if _EXCHANGE.match(text) or _LOOK_UP.match(text):
            return False
        if text.startswith("Exchange") and not _OF_LOOK_UP.match(text):
            return True
    return True


class _Finder:
    """Finds out what belongs to an exchange of skewless."""

    def __init__(self, plan: PhysicalPlan, exchange: int) -> None:
        self.plan, self.exchange = plan, exchange
        matched = _EXCHANGE.match(plan.nodes[exchange])
        by_slot, by_worker, by_salt = matched.groups() if matched else (None, None, None)
        self.is_routed, self.is_salted = by_worker is not None, by_salt is not None
        self.partitions = by_slot or by_worker or by_salt
        self.sending = [*self._sending()]
        self.look_ups = [node for node in self.sending if _LOOK_UP.match(plan.nodes[node])]
        self.work = self._work()
        self.problems: list[str] = []

    def operator(self) -> Operator:
        """Return the operator that the exchange belongs to."""
        text = "\n".join(
            self.plan.nodes[node] for node in [*self.sending, *([self.exchange] if self.is_salted else [])]
        )
        findings = [*self._routed(text)] if self.is_routed else [*self._looked_up(text)]
        findings.append(("exchange", self._exchanged(text)))
        name = "repartition" if self.work is None else str(_work(self.plan.nodes[self.work]))
        if self.work is None:
            self._check_that_used()
        else:
            findings.append(("work", f"{_node_name(self.plan.nodes[self.work])}, on the workers"))
            if name == "over":
                findings.append(("carry", self._carried()))
            else:
                findings.append(("merge", _merged(self.plan, self.work) if name == "agg" else _WHOLE))
            between = self._between(self.work)
            if any(_CHANGED.match(self.plan.nodes[node]) for node in between):
                self.problems.append("the partitions of the workers are changed before the work starts")
        findings += [("note", note) for note in self._notes(text)]
        return Operator(name=name, way=self._way(text), findings=tuple(findings), problems=tuple(self.problems))

    def _sending(self) -> Iterator[int]:
        """Return the nodes between the exchange and where its rows come from: another exchange, a join, a file…"""
        node = self.exchange
        while children := self.plan.children(node):
            if len(children) > 1 and not (_LOOK_UP.match(self.plan.nodes[node]) or self._has_copies(node)):
                return
            node = children[0]
            text = self.plan.nodes[node]
            if text.startswith("Exchange") and not _OF_LOOK_UP.match(text):
                return
            yield node

    def _has_copies(self, node: int) -> bool:
        return _COPIES in self.plan.nodes[self.plan.children(node)[-1]]

    def _carried(self) -> str:
        """Return what a piece gets to know of those around it."""
        above = (self.plan.nodes[node] for node in self.plan.above(self.exchange))
        found = ["what came before, in a small table"] if any(map(_CARRIED.match, above)) else []
        copies = any(self._has_copies(node) for node in [self.exchange, *self.sending] if self.plan.children(node))
        found += ["copies of the rows around a piece"] if copies else []
        return " and ".join(found) or "nothing"

    def _work(self) -> int | None:
        for node in self.plan.above(self.exchange):
            if _work(self.plan.nodes[node]) is not None:
                return node
            if _EXCHANGE.match(self.plan.nodes[node]):
                return None
        return None

    def _between(self, end: int) -> list[int]:
        above = list(self.plan.above(self.exchange))
        return above[: above.index(end)]

    def _way(self, text: str) -> str:
        if self.is_routed:
            return ROUTED
        if self.look_ups or self.is_salted or _EMPTY.search(text):
            return PLANNED
        return SPREAD if _SPREAD.search(text) else HASHED

    def _routed(self, text: str) -> Iterator[tuple[str, str]]:
        routes = _ROUTE.findall(text)
        if len(routes) == 1:
            yield "route", f"{routes[0]}, evaluated once per row"
        else:
            self.problems.append(f"the routing function is evaluated {len(routes)} times below an exchange, not once")
        if self.work is None:
            self.problems.append("no work of skewless follows the exchange by worker id")

    def _looked_up(self, text: str) -> Iterator[tuple[str, str]]:
        """Return where the plan comes from and how rows find it."""
        if (named := _NAMED.search(text)) is not None:
            n_keys = named[1].count(",") + 1
            keys = "1 key that is" if n_keys == 1 else f"{n_keys} keys that are"
            yield "plan", f"part of the query, with {keys} cut or moved"
        tables = [self._table(node) for node in self.look_ups]
        for node in self.look_ups:
            if not (join := self.plan.nodes[node].split(" ", 1)[0]).startswith("BroadcastHashJoin"):
                self.problems.append(f"rows look up the plan by {join}, not by a broadcast hash join: it is slow")
        planned = [table for table in tables if _PLANNED.search(table)]
        if len(planned) > 1 and self._is_final:
            self.problems.append(f"the plan is made {len(planned)} times, not once")
        if tables:
            yield "plan", next(filter(None, map(self._source, tables)), "not found")
            of = [what for what, name in (("key", "key"), ("range of hashes", "range")) if f"pieces_of_{name}#" in text]
            yield "table", f"broadcast, looked up by {' and by '.join(of) or 'key'}"
        elif _EMPTY.search(text):
            yield "plan", "was empty when the query ran: no key was cut or moved"

    @property
    def _is_final(self) -> bool:
        """Whether Spark has decided already which exchanges it computes once and uses twice."""
        above = (self.plan.nodes[node] for node in self.plan.above(self.exchange))
        return not any(text.startswith("AdaptiveSparkPlan isFinalPlan=false") for text in above)

    def _table(self, look_up: int) -> str:
        """Return the nodes that make the table of a look-up; none if it is that of another look-up."""
        side = self.plan.children(look_up)[-1]
        text = self.plan.texts(range(side, self.plan.below(side).stop))
        return "" if _REUSED.search(text) else text

    def _source(self, table: str) -> str | None:
        planned, sample = _PLANNED.search(table), _SAMPLE.search(table)
        if planned is None and "skewless_cut_0#" in table:
            return "made when over was called; its plan shows hot keys and balance"
        if planned is None:
            return "at hand (learn_from); print it to see hot keys and balance" if table else None
        if planned[2] is not None:
            share = "all rows"
            if sample is not None and _COUNTED.search(table) is None:
                share = f"a sample of {100 * float(sample[1]):.3g} % of the rows"
            predicts = _PREDICTS.get(planned[1], "diagnose")
            return f"made by this query from {share}; {predicts} predicts the balance"
        if self.plan.is_streaming:
            return "made anew in every micro-batch from the ledger; skewless watch shows the balance"
        return "made by this query from a plan at hand (learn_from)"

    def _exchanged(self, text: str) -> str:
        if self.is_routed:
            return f"by worker id, {self.partitions} workers"
        if self.is_salted:
            is_random = "_nondeterministic#" in self.plan.nodes[self.exchange]
            turn = "turns are random" if is_random else "turns follow row content"
            return f"by key and salt, {self.partitions} workers; {turn}"
        own = "\n".join(line for line in text.splitlines() if re.search(r"AS skewless_(?:turn|slot)#", line))
        drawn = len(_DRAWN.findall(own))
        if drawn > 1:
            self.problems.append(f"the turn of a row is drawn {drawn} times, not once")
        turn = "; turns are random" if drawn else "; turns follow row content" if _BY_CONTENT.search(own) else ""
        return f"by slot, {self.partitions} workers{turn}"

    def _check_that_used(self) -> None:
        """Refuse an exchange whose rows are exchanged again before anything is done with them."""
        if self.is_routed:
            return
        for node in self.plan.above(self.exchange):
            text = self.plan.nodes[node]
            if _CHANGED.match(text):
                self.problems.append(f"the partitions are changed before they are used, by {text.split(', [')[0]}")
            if not _NO_WORK.match(text):
                return

    def _notes(self, text: str) -> Iterator[str]:
        """Return what the input had and loses."""
        hashed = _HASHED.search(text)
        aliases = {new: old for old, new in _ALIAS.findall(text)}
        origins = set() if hashed is None else {_origin(key, aliases) for key in _COLUMN.findall(hashed[1])}
        for node in self._input():
            read = self.plan.nodes[node]
            if _BUCKETED.match(read):
                yield "the input is bucketed, which this exchange makes no use of"
            by_key = _BY_KEY.match(read)
            columns = _COLUMN.findall(by_key[1]) if by_key else []
            if columns and {_origin(column, aliases) for column in columns} <= origins:
                yield f"the input was partitioned by the keys already, {by_key[2] if by_key else '?'} partitions"

    def _input(self) -> Iterator[int]:
        """Return the nodes of the input down to the exchanges that it reads from."""
        waiting = [self.exchange]
        while waiting:
            node = waiting.pop()
            children = self.plan.children(node)
            for child in children[:1] if node in self.look_ups else children:
                yield child
                if not self.plan.nodes[child].startswith("Exchange") or _OF_LOOK_UP.match(self.plan.nodes[child]):
                    waiting.append(child)


def _merged(plan: PhysicalPlan, work: int) -> str:
    if plan.nodes[work].startswith("MapInArrow WholeWork("):
        return _WHOLE
    above = [plan.nodes[node] for node in plan.above(work)]
    gathered = next((node for node in above if _GATHERED.match(node)), None)  # Spark only gathers below it
    merge = next((match[1] for node in above if (match := _MERGE.match(gathered or node))), "not found")
    by_key = next((match[2] for node in above if (match := _BY_KEY.match(node))), None)
    how = "by Spark" if merge.endswith("Aggregate") else "in Python"
    where = "" if by_key is None else f", after an exchange of the partial results by key, {by_key} partitions"
    return f"{merge}, {how}{where}"


def _node_name(text: str) -> str:
    return text.split("(", maxsplit=1)[0].split(" [", maxsplit=1)[0]


def _origin(column: str, aliases: dict[str, str]) -> str:
    while column in aliases:
        column = aliases[column]
    return column


def _by_spark(plan: PhysicalPlan) -> str:
    """Return what Spark does by itself with rows of the same key."""
    exchanges = [node for node, text in enumerate(plan.nodes) if _BY_KEY.match(text)]
    if (broadcast := broadcast_join(plan)) is not None:
        return broadcast
    if not exchanges:
        return "nothing is exchanged by key"
    if all(_is_combined(plan.nodes, plan.below(node)) for node in exchanges):
        return "Spark combines the rows of a key before it exchanges them, so that skew costs nothing"
    return f"all rows of a key meet in one task{why_plain(plan)}"


def _is_combined(nodes: Sequence[str], below: range) -> bool:
    sent = next((nodes[node] for node in below if not _NO_WORK.match(nodes[node])), "")
    return _COMBINED.match(sent) is not None
