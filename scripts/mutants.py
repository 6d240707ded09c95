"""Change one operator or constant of the source at a time, and count the changes that no test notices.

    make mutants                     # a sample of all changes
    make mutants N=1000 SEED=7       # a larger one, another one
    python scripts/mutants.py --module planner --all

What is tried is appended to a file as it is done: a run that was stopped goes on where it was. Survivors are printed
with the line as it was and as it became. A change is noticed if a test fails, or takes ten times as long as it should.
Tests run without Spark, each change in a process of its own that has all libraries loaded.
"""

from __future__ import annotations

import argparse
import ast
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numba
import pytest
from hypothesis import HealthCheck, Phase, settings

ROOT: Final = Path(__file__).parents[1]
TESTED_BY: Final = {
    "salting.planner": "salting/test_planner salting/test_forecast salting/test_owners groupings/test_even",
    "salting.forecast": "salting/test_forecast salting/test_planner groupings/test_even",
    "salting.owners": "salting/test_owners salting/test_planner",
    "salting.capacities": "salting/test_capacities salting/test_planner",
    "salting.join_planner": "salting/test_join_planner salting/test_join_plan",
    "salting.join_plan": "salting/test_join_plan",
    "salting.order_plan": "salting/test_order_plan",
    "salting.planning_task": "salting/test_planning_task",
    "salting.salts": "salting/test_salts salting/test_join_plan",
    "salting.slots": "salting/test_slots salting/test_join_plan salting/test_planner",
    "salting.table": "salting/test_table",
    "combiners.partials": "combiners/test_partials combiners/test_combiner_conformance",
    "combiners.sum": "combiners/test_combiner_values combiners/test_partials combiners/test_combiner_conformance",
    "combiners.variance": "combiners/test_combiner_values combiners/test_combiner_conformance",
    "combiners.extreme": "combiners/test_combiner_values combiners/test_combiner_conformance",
    "combiners.approx_top_k": "combiners/test_combiner_values combiners/test_sketched",
    "storage.ledger": "storage/test_ledger",
    "storage.batch_directory": "storage/test_batch_directory storage/test_ledger storage/test_state_store",
    "storage.state_store": "storage/test_state_store",
    "storage.worker_report": "storage/test_ledger",
    "spark.merge": "spark/test_merge",
    "processors.processing": "processors/test_processing",
    "simulation.closed_loop": "simulation/test_closed_loop",
    "simulation.keyed_state": "simulation/test_keyed_state",
    "sketches.space_saving": "sketches/test_space_saving sketches/test_sketch_conformance",
    "sketches.key_table": "sketches/test_key_table",
    "groupings.two_choices": "groupings/test_two_choices groupings/test_kernels",
    "groupings.d_choices": "groupings/test_choices",
}
"""The modules whose mistakes would cost answers or balance, and the tests that have to notice them."""

_AT_ONCE: Final = "how much is taken at a time changes no result"
EQUIVALENT: Final = {
    (
        "salting.join_planner",
        "a, b, shares = float(of.left[key]), float(of.right[key]), costs[key] / target if target else 0.0",
        1,
    ): "without any rows no key is worth a grid, whose shares are 3 or more",
    ("combiners.partials", "return [(np.asarray(key.is_valid()).astype(np.int64), 2), *fields]", 0): (
        "pairs of codes are told apart by any number that is greater than the codes"
    ),
    ("combiners.partials", "pairs = pa.array(groups * n_codes + codes).dictionary_encode()", 0): (
        "codes are smaller than their number, so that a pair has a number of its own also if they are subtracted"
    ),
    ("salting.join_planner", "return bool(np.floor(room.clip(min=0) / size(r, c)).sum() >= r * c)", 2): (
        "a cell costs more than one row, so that there is room for none in one row either"
    ),
    ("salting.join_planner", "pieces_needed = np.ceil(costs / max(target, 1e-300)) + 1", 3): (
        "with less than one row for each worker no key has the 16 rows of a piece"
    ),
    ("simulation.closed_loop", "chosen, asked = -1, 0", 2): "if it is no source's turn, nobody has asked",
    ("simulation.closed_loop", "loop.served[worker] += 1", 0): "a ring of places can be gone round either way",
    **{
        ("sketches.space_saving", "self._fill(self.keys[:0], self.counts[:0], self.errors[:0])", at): (
            "what is written to no places does not matter"
        )
        for at in (1, 2)
    },
    ("storage.ledger", 'content = (json.dumps(_as_json(fingerprint), indent=2) + "\\n").encode()', 1): (
        "how far JSON is indented does not change what it says"
    ),
    ("storage.state_store", 'name = f"worker-{worker}-{uuid4().hex[:12]}.arrows"', 0): "a longer name is as good",
    ("storage.state_store", "newest = max((number for number in listed if number < batch), default=-1)", 3): (
        "below zero there is no batch, whatever the number"
    ),
    ("spark.merge", "_KEPT_BYTES: Final = 1 << 16  # and how large they may be: states of sketches are", 0): _AT_ONCE,
    ("spark.merge", "if n_held > 1 and (n_held > _KEPT or len(held) > _KEPT_BYTES):", 5): _AT_ONCE,
    **{
        ("salting.order_plan", "tried = np.arange(last + 1, last + 1 + 8 * n_workers, dtype=np.uint64)", at): _AT_ONCE
        for at in (3, 4, 5, 6)
    },
}
"""Changes that no test can notice, with the reason: by module, line, and number of the change in that line."""

_SWAPPED: Final[dict[type[ast.AST], Any]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.USub: ast.UAdd,
}
_RENAMED: Final = {"min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum", "maximum": "minimum"}
_FACTOR: Final = 10  # of the time of the tests, after which they hang
_LEAST_SECONDS: Final = 30.0


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change of a module.

    Parameters
    ----------
    module : str
        Below `skewless`.
    number : int
        Of the change in the module.
    line : int
        Where it is.
    before, after : str
        What is changed, and into what.
    """

    module: str
    number: int
    line: int
    before: str
    after: str

    @property
    def name(self) -> str:
        """What identifies it, as long as the module stays the same."""
        return f"{self.module}:{self.line}:{self.number}: {self.before} -> {self.after}"


def path_of(module: str) -> Path:
    return ROOT / "src" / "skewless" / f"{module.replace('.', '/')}.py"


def changes(tree: ast.Module) -> Iterator[tuple[ast.AST, Callable[[], None]]]:
    """Return every node that can be changed in place, with the change; what is only read by people is left alone."""
    skipped = {id(node) for found in ast.walk(tree) for node in _not_run(found)}
    for node in _walk(tree, skipped):
        for change in (*_other_operators(node), *_other_values(node)):
            yield node, change


def _other_operators(node: ast.AST) -> Iterator[Callable[[], None]]:
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            yield partial(node.ops.__setitem__, place, _SWAPPED[type(operator)]())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield partial(_become, node, ast.Call(ast.Name("bool", ast.Load()), [node.operand], []))
    elif isinstance(node, ast.BinOp | ast.BoolOp | ast.UnaryOp | ast.AugAssign) and type(node.op) in _SWAPPED:
        yield partial(setattr, node, "op", _SWAPPED[type(node.op)]())


def _other_values(node: ast.AST) -> Iterator[Callable[[], None]]:
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield partial(setattr, node, "value", not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield partial(setattr, node, "value", node.value + 1)
    elif isinstance(node, ast.Name) and node.id in _RENAMED:
        yield partial(setattr, node, "id", _RENAMED[node.id])
    elif isinstance(node, ast.Attribute) and node.attr in _RENAMED:
        yield partial(setattr, node, "attr", _RENAMED[node.attr])


def _not_run(node: ast.AST) -> Iterator[ast.AST]:
    """Return the parts of a node that do nothing when the program runs."""
    if isinstance(node, ast.AnnAssign | ast.arg) and node.annotation is not None:
        yield node.annotation
    if isinstance(node, ast.FunctionDef | ast.ClassDef):  # what a decorator is told is a declaration, which mypy checks
        yield from node.decorator_list
    if isinstance(node, ast.FunctionDef) and node.returns is not None:
        yield node.returns
    if isinstance(node, ast.Raise | ast.Assert):  # messages are tested where users see them
        yield node


def _walk(node: ast.AST, skipped: set[int]) -> Iterator[ast.AST]:
    if id(node) in skipped:
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _walk(child, skipped)


def _become(node: ast.UnaryOp, other: ast.Call) -> None:
    node.__class__ = ast.Call  # type: ignore[assignment] # in place: its parent need not be known
    node.__dict__.update(other.__dict__)


def places_of(module: str) -> list[tuple[str, int]]:
    """Return the numbers of all changes of a module."""
    return [(module, number) for number, _ in enumerate(changes(ast.parse(path_of(module).read_text())))]


def equivalent_places(module: str) -> set[tuple[str, int]]:
    """Return the changes of a module that are known to change nothing; refuse a list that the source has outgrown."""
    lines = [line.strip() for line in path_of(module).read_text().splitlines()]
    in_line = Counter[int]()
    found: dict[tuple[str, str, int], tuple[str, int]] = {}
    for number, (node, _) in enumerate(changes(ast.parse(path_of(module).read_text()))):
        line: int = node.lineno  # type: ignore[attr-defined] # expressions have one
        found[module, lines[line - 1], in_line[line]] = module, number
        in_line[line] += 1
    listed = [key for key in EQUIVALENT if key[0] == module]
    assert all(key in found for key in listed), f"not in the source any more: {[k for k in listed if k not in found]}"
    return {found[key] for key in listed}


def mutant_of(module: str, number: int) -> Mutant:
    """Return a change of a module."""
    tree = ast.parse(path_of(module).read_text())
    node, change = [*changes(tree)][number]
    line: int = node.lineno  # type: ignore[attr-defined] # expressions have one
    before = ast.unparse(ast.fix_missing_locations(node))
    change()
    after = ast.unparse(ast.fix_missing_locations(node))
    return Mutant(module=module, number=number, line=line, before=before, after=after)


def mutated(mutant: Mutant) -> ast.Module:
    """Return the module with the change."""
    tree = ast.parse(path_of(mutant.module).read_text())
    [*changes(tree)][mutant.number][1]()
    return ast.fix_missing_locations(tree)


class Overlay(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads one module from a tree instead of its file."""

    def __init__(self, module: str, tree: ast.Module) -> None:
        self._name, self._tree = f"skewless.{module}", tree

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        spec = importlib.machinery.PathFinder.find_spec(name, path, target) if name == self._name else None
        if spec is not None:
            spec.loader = self
        return spec

    def exec_module(self, module: ModuleType) -> None:
        assert module.__file__ is not None
        exec(compile(self._tree, module.__file__, "exec"), module.__dict__)  # noqa: S102


def verdict(mutant: Mutant | None, module: str, seconds: float) -> str:
    """Run the tests of a module in a process of its own, with a change or as it is."""
    child = os.fork()
    if not child:
        _run_tests(mutant, module, seconds)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return "hangs" if os.WTERMSIG(status) == signal.SIGALRM else "crashes"
    return "survives" if os.WEXITSTATUS(status) == 0 else "fails"


def _run_tests(mutant: Mutant | None, module: str, seconds: float) -> None:
    signal.setitimer(signal.ITIMER_REAL, seconds)
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
        if mutant is not None:
            sys.meta_path.insert(0, Overlay(module, mutated(mutant)))
            if "jit(" in path_of(module).read_text():  # its machine code is kept by the name of the file
                numba.config.CACHE_DIR = folder  # type: ignore[attr-defined] # it is set when Numba is loaded
        files = [str(ROOT / "tests" / f"{name}.py") for name in TESTED_BY[module].split()]
        files.append(str(path_of(module)))  # its examples are tests, too
        options = [
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            "--hypothesis-profile=mutants",
            "--assert=plain",
        ]
        code = pytest.main([*options, f"--basetemp={folder}/tests", "-m", "not spark", *files])
    os._exit(0 if code == pytest.ExitCode.OK else 1)


def load_libraries() -> None:
    """Load what all tests load, once for all processes to come."""
    for name in ("numpy", "pandas", "pyarrow", "pyspark.sql"):
        importlib.import_module(name)
    # Whether a test fails is all that matters, not by which smallest example.
    # A busy machine must not make tests fail.
    settings.register_profile(
        "mutants",
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=[*HealthCheck],
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=200, help="how many changes are tried (default 200)")
    parser.add_argument("--all", action="store_true", help="try all of them")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--module", default="", help="only modules whose name contains this")
    parser.add_argument("--to", type=Path, default=ROOT / ".cache" / "mutants.jsonl", help="where results are kept")
    parser.add_argument("--minutes", type=float, default=1e9, help="start no more after that")
    arguments = parser.parse_args()
    modules = [module for module in TESTED_BY if arguments.module in module]
    places = [place for module in modules for place in places_of(module) if place not in equivalent_places(module)]
    random.Random(arguments.seed).shuffle(places)
    chosen = [mutant_of(*place) for place in (places if arguments.all else places[: arguments.sample])]
    print(f"{len(places):,} possible changes in {len(modules)} modules; {len(chosen):,} are tried", flush=True)
    sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]
    load_libraries()
    arguments.to.parent.mkdir(exist_ok=True)
    kept = [json.loads(line) for line in arguments.to.read_text().splitlines()] if arguments.to.exists() else []
    known: dict[str, str] = {one["name"]: one["verdict"] for one in kept if "verdict" in one}
    limits: dict[str, float] = {one["module"]: one["limit_s"] for one in kept if "limit_s" in one}
    end = time.monotonic() + 60 * arguments.minutes
    for number, mutant in enumerate(chosen, 1):
        if mutant.name in known:
            continue
        if time.monotonic() > end:
            break
        if mutant.module not in limits:
            start = time.monotonic()
            if verdict(None, mutant.module, 600) != "survives":
                print(f"the tests of {mutant.module} fail as they are", file=sys.stderr)
                return 2
            limits[mutant.module] = max(_LEAST_SECONDS, _FACTOR * (time.monotonic() - start))
            note(arguments.to, module=mutant.module, limit_s=limits[mutant.module])
        known[mutant.name] = found = verdict(mutant, mutant.module, limits[mutant.module])
        note(arguments.to, name=mutant.name, verdict=found)
        if found == "survives":
            print(f"{number:>5}  {mutant.name}", flush=True)
    report(chosen, known)
    return 0


def note(file: Path, **found: Any) -> None:
    """Append to what is kept."""
    with file.open("a") as log:
        log.write(json.dumps(found, ensure_ascii=False) + "\n")


def report(chosen: Sequence[Mutant], known: dict[str, str]) -> None:
    """Print a line for each module, and one for all."""
    tried = [mutant for mutant in chosen if mutant.name in known]
    of_module, noticed = (
        Counter(mutant.module for mutant in tried if known[mutant.name] not in without)
        for without in ((), ("survives",))
    )
    print(f"\n{'module':28} tried noticed")
    for module, n in sorted(of_module.items()):
        print(f"{module:28} {n:5} {noticed[module]:5} {noticed[module] / n:7.1%}")
    if tried:
        print(f"{'all':28} {len(tried):5} {noticed.total():5} {noticed.total() / len(tried):7.1%}")


if __name__ == "__main__":
    sys.exit(main())
