"""A driver program: runs one query after the other, each compared with plain Spark.

Its argument has `settings` of the session, and `remote` for one through Spark Connect. Each line of standard input is a
query of `chaos.queries`, each line of standard output the answer: `wrong` and `rows`, or `error`.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Final

from pyspark.sql import SparkSession

from chaos.points import install_in_driver
from chaos.queries import answer
from skewless.errors import SkewlessError
from skewless.spark.deploy.session import make_session, one_line_errors

SECRET: Final = "SKEWLESS_CHAOS_SECRET"  # noqa: S105 - the name of a variable
"""The environment variable with a setting of the session that no command line may show."""


def start(options: dict[str, Any]) -> SparkSession:
    if "remote" in options:
        return SparkSession.builder.remote(options["remote"]).getOrCreate()
    return make_session(options["master"], **options["settings"], spark_hadoop_chaos_secret_key=os.environ[SECRET])


def main() -> None:
    install_in_driver()
    spark = start(json.loads(sys.argv[1]))
    for line in sys.stdin:
        try:
            with one_line_errors():
                found = answer(spark, json.loads(line))
        except SkewlessError as error:
            found = {"error": str(error)}
        print(json.dumps(found), flush=True)  # noqa: T201
    spark.stop()


if __name__ == "__main__":
    main()
