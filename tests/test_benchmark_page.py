"""The page of the benchmarks says where skewless loses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from table_page import ratios, write_page


def row(skew: str, **seconds: list[float]) -> dict[str, Any]:
    named = {name.replace("_", " "): taken for name, taken in seconds.items()}
    return {"case": "join", "title": "join", "skew": skew, "rows": 1_000, "remark": "Why.", "seconds": named}


def test_losses_are_in_plain_sight(tmp_path: Path) -> None:
    rows = [
        row("no skew", plain=[1.0, 1.0, 1.02], by_hand=[2.0, 2.0, 2.0], skewless=[1.03, 1.04, 1.02], planning=[0.2]),
        row("r80", plain=[4.0, 4.4, 4.0], by_hand=[1.0, 0.9, 1.1], skewless=[2.0, 2.0, 2.0]),
        row("Zipf 1.0", plain=[0.8, 0.9, 0.8], skewless=[1.0, 1.0, 1.0]),
    ]
    report = {"made": {"cores": "2"}, "workers": 16, "share": 0.1, "rows": rows, "missing": ["a write (r80)"]}
    assert ratios(rows[1], "plain") == [2.0, 2.2, 2.0]
    assert ratios(rows[2], "by hand") is None
    write_page(report, tmp_path)
    page = (tmp_path / "index.md").read_text()
    losses = page.split("## Where skewless loses")[1].split("## The table")[0].strip().splitlines()
    assert losses == [
        "- join, r80: 2.00 times as long as salting by hand. Why.",
        "- join, Zipf 1.0: 1.25 times as long as plain Spark. Why.",
        "- Short jobs without skew, whatever they do: planning takes 0.20 (join) to 0.20 s",
        "  (join), so a job of less than 4 to 4 seconds",
        "  is more than 5 % slower for it. `learn_from=` a plan that was saved spares it; a side of a join that Spark",
        "  broadcasts is not looked at.",
    ]
    assert "| join | no skew | 1,000 | 1.03 | 0.20 | 0.97 (0.96 to 1.00) | 1.94 (1.92 to 1.96) |" in page
    assert "| join | r80 | 1,000 | 2.00 | - | 2.00 (2.00 to 2.20) | **0.50** (0.45 to 0.55) |" in page
    assert "| join | Zipf 1.0 | 1,000 | 1.00 | - | **0.80** (0.80 to 0.90) | - |" in page
    assert "On 10% of the rows" in page
    assert "at least 3 times" in page
    assert "**Not measured yet**: a write (r80)." in page
    coarse = row("r80", plain=[2.0], skewless=[1.0]) | {
        "seconds": {"plain": [2.0], "plain, 5 %": [0.5], "skewless": [1.0]}
    }
    write_page(report | {"rows": [coarse]}, tmp_path)
    assert "- join, r80: 2.00 times as long as plain Spark (5 %). Why." in (tmp_path / "index.md").read_text()
    write_page(report | {"rows": rows[:1], "share": 1, "missing": []}, tmp_path)
    whole = (tmp_path / "index.md").read_text()
    assert "Nowhere:" in whole
    assert "Not measured" not in whole
    assert (tmp_path / "table.svg").read_text().count("<rect") == 2
