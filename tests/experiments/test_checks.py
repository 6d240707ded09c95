"""Checks and proofs: what counts, and what makes a verdict."""

from __future__ import annotations

import pytest

from skewless.errors import SkewlessError
from skewless.experiments.base import Outcome, Verdict
from skewless.experiments.checks import Check, Proof, close, within

HOLDS = within("bound", 1.0, most=2.0)
FAILS = within("other bound", 3.0, most=2.0)
OFF = close("number", 3.0, 2.0, tolerance=0.1)
PROOF = Proof("Table 1 has half", claimed=10, bound=2.1)


def outcome(*checks: Check) -> Outcome:
    return Outcome(checks, ())


def test_a_proof_needs_an_inequality_that_holds() -> None:
    assert "claimed 10 > 2.1 possible" in PROOF.text
    assert "claimed 1 < 2 possible" in Proof("by Little's law", claimed=1, bound=2, at_least=True).text
    for claimed, bound, at_least in ((2.0, 2.1, False), (2.1, 2.1, False), (3.0, 2.0, True)):
        with pytest.raises(SkewlessError, match="no contradiction"):
            Proof("nothing", claimed=claimed, bound=bound, at_least=at_least)


def test_what_a_proof_excludes_is_not_counted() -> None:
    found = outcome(HOLDS, FAILS.against(PROOF))
    assert (len(found.counted), found.failed, found.n_excluded) == (1, [], 1)


@pytest.mark.parametrize(
    ("checks", "verdict"),
    [
        ((HOLDS,), Verdict.REPRODUCED),
        ((HOLDS, OFF), Verdict.IN_SHAPE),
        ((HOLDS, OFF, FAILS), Verdict.NOT),
        ((HOLDS, FAILS.against(PROOF)), Verdict.CONTRADICTS),
        ((HOLDS, OFF, FAILS.against(PROOF)), Verdict.IN_SHAPE),
        ((FAILS, OFF.against(PROOF)), Verdict.NOT),
    ],
)
def test_verdicts(checks: tuple[Check, ...], verdict: Verdict) -> None:
    assert outcome(*checks).verdict is verdict
