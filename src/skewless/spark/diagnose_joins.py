"""`diagnose_join`: count the keys of both sides of a join natively, and predict what ways to join would take."""

from __future__ import annotations

from pyspark.sql import DataFrame

from skewless.diagnosis.join_diagnosis import JoinDiagnosis, diagnose_plan
from skewless.errors import require_at_least
from skewless.spark.join_counting import plan_join
from skewless.spark.join_sides import On, has_one_name, join_type, sides_of
from skewless.spark.joining import Joining, is_broadcast
from skewless.spark.physical_plan import printed_plan
from skewless.spark.sampling import SAMPLE


def diagnose_join(
    left: DataFrame,
    right: DataFrame,
    on: On,
    how: str = "inner",
    *,
    workers: int | None = None,
    sample: float = SAMPLE,
    top: int = 10,
    seed: int = 0,
    label: str | None = None,
) -> JoinDiagnosis:
    """Report which keys are hot on both sides of a join, what it would take in several ways, and what to do.

    Parameters
    ----------
    left, right : DataFrame
        The two sides; not streams.
    on : str, or sequence of names or of pairs of names
        The key columns, as in `join`.
    how : str
        The type of join, as in Spark.
    workers : int, optional
        Partitions that the rows would be spread over. Default: `spark.sql.shuffle.partitions`.
    sample : float
        Fraction of the rows in which hot keys are looked for; those that are found are counted exactly.
    top : int
        Keys that the report names.
    seed : int
        Seed of the sample.
    label : str
        Name of the data in the report. Default: the keys.

    Examples
    --------
    `print(diagnose_join(clicks, pages, "page", workers=32))`
    """
    require_at_least("top", top, 0)
    plan = plan_join(left, right, on, how, workers=workers, sample=sample, seed=seed)
    one, two = sides_of(left, right, on)
    plain = Joining(left=one, right=two, how=join_type(how), one_name=has_one_name(on)).plain()
    name = ", ".join(one.on) if label is None else label
    return diagnose_plan(plan, label=name, top=top, broadcasts=is_broadcast(printed_plan(plain, "simple")))
