"""The one table of names: what the library calls a parameter, a pipeline file a key, and `skewless run` a flag."""

from __future__ import annotations

from typing import Final

from skewless.runner.config.toml_lines import Path

NAMES: Final[dict[str, tuple[str, str]]] = {
    "app": ("app", "--app"),
    "window": ("window", "--window"),
    "watermark": ("watermark", "--watermark"),
    "batch": ("batch", "--batch"),
    "follow": ("follow", "--follow"),
    "trigger": ("trigger", "--trigger"),
    "gap": ("gap", ""),
    "verify": ("verify", "--verify"),
    "seed": ("seed", "--seed"),
    "checkpoint": ("checkpoint", "--checkpoint"),
    "ledger": ("ledger", "--ledger"),
    "json": ("json", "--json"),
    "stream": ("source.stream", "--stream"),
    "input": ("source.input", "--input"),
    "path": ("source.input", "--input"),
    "address": ("source.input", "--input"),
    "rate_source": ("source.rate_source", ""),
    "rows_per_second": ("source.rate_source", ""),
    "key": ("source.key", "--key"),
    "time": ("source.time", "--time"),
    "columns": ("source.columns", "--column"),
    "fields": ("source.fields", ""),
    "tuples": ("source.tuples", "--tuples"),
    "sources": ("source.sources", "--sources"),
    "rate": ("source.rate", ""),
    "batch_size": ("source.batch_size", "--batch-size"),
    "scale": ("source.scale", ""),
    "grouping": ("grouping.name", "--grouping"),
    "workers": ("grouping.workers", "--workers"),
    "parameters": ("grouping", "--set"),
    "output": ("sink.output", "--output"),
    "sink": ("sink.output", "--output"),
    "sink.address": ("sink.output", "--output"),
    "rejects": ("sink.rejects", "--rejects"),
    "observer": ("observer", ""),
    "influx": ("observer.influx", ""),
    "prometheus": ("observer.prometheus", ""),
    "log": ("observer.log", ""),
    "page": ("observer.page", "--page"),
    "mask_keys": ("observer.mask_keys", "--mask-keys"),
    "cost.ms": ("cost.ms", "--process-ms"),
    "master": ("spark.master", "--master"),
    "packages": ("spark.packages", "--packages"),
    "archive": ("spark.archive", "--archive"),
    "spark_log": ("spark.log", "--spark-log"),
    "sql": ("sql", ""),
    "sql.key": ("sql.key", ""),
    "sql.expressions": ("sql.values", ""),
    "sql.where": ("sql.where", ""),
    "sql.time": ("sql.time", ""),
    "sql.combiners": ("combine", ""),
    "combine": ("combine", ""),
    "join": ("join", ""),
    "on": ("join.on", ""),
    "how": ("join.how", ""),
}
"""Key and flag (empty if there is none) of each parameter. What several parts of a run call alike is prefixed by its
scope: `sql.key` is the `key` of an `SqlApplication`, `key` that of an input."""

FLAGS: Final[dict[str, Path]] = {flag: tuple(key.split(".")) for key, flag in NAMES.values() if flag}
"""The place of each flag of `skewless run` in a pipeline file."""

_FLAG_OF: Final = {path: flag for flag, path in FLAGS.items()}


def path_of(subject: str, scope: str = "") -> Path:
    """Return the place of a parameter in a pipeline file; empty if it has none.

    Parameters
    ----------
    subject : str
        The parameter as an error names it; `parameter.item` is an item of a parameter that is a mapping.
    scope : str
        The part of the run that the parameter belongs to.

    >>> path_of("key"), path_of("expressions.amount", scope="sql"), path_of("nothing")
    (('source', 'key'), ('sql', 'values', 'amount'), ())
    """
    parameter, dot, item = subject.partition(".")
    key, _ = NAMES.get(f"{scope}.{parameter}") or NAMES.get(parameter) or ("", "")
    return (*key.split("."), *([item] if dot else [])) if key else ()


def flag_of(path: Path) -> str:
    """Return the flag of a place in a pipeline file; empty if there is none."""
    return _FLAG_OF.get(path, "")
