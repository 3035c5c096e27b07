"""The page of the proxies is that of the registry, and says of every family what was measured."""

import re

import pytest

from gapbench.proxies.registry import list_proxies, proxy_entry
from gapbench_models import list_models
from script import script

docs = script("proxies_docs")
plots = script("proxies_plots")


def test_the_page_is_up_to_date():
    assert docs.PAGE.read_text(encoding="utf-8") == docs.page(), "python scripts/proxies_docs.py"


def test_every_proxy_was_measured_in_its_version_on_every_family_and_never_failed():
    assert docs.unmeasured() == [], "python scripts/proxies_docs.py --measure"
    rows = docs.up_to_date(docs.rows_of(docs.MEASURED, docs.Row))
    assert len(rows) == len(docs.built_in()) * len(list_models())
    assert {row.status for row in rows} == {"ok", "not_applicable"}
    assert all(row.reason for row in rows if row.status == "not_applicable")
    assert {row.proxy for row in rows if row.status == "ok"} == set(docs.built_in())


def test_every_proxy_was_audited_in_its_version():
    rows = docs.up_to_date(docs.rows_of(docs.AUDITED, docs.Verdict))
    assert {(row.proxy, row.family) for row in rows} == {(n, f) for n in docs.built_in() for f in docs.AUDIT}
    changed = {row.proxy for row in rows if row.kind == "permutation" and row.verdict == "not invariant"}
    assert {"initial" in proxy_entry(name).needs for name in changed} == {True}  # where the order is another


@pytest.mark.parametrize("name", ["param_norm", "sharpness_quotient"])
def test_a_section_says_what_a_proxy_is(name):
    entry = proxy_entry(name)
    section = docs.page().partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    assert entry.reference in section
    assert f"cost: {entry.cost}" in section
    assert name in list_proxies()


def test_formulas_stand_as_they_are_in_code_and_escaped_elsewhere():
    assert docs._escaped("|w|_2 in `a_b*c` and <x>") == "|w|\\_2 in `a_b*c` and \\<x\\>"


def test_every_proxy_is_drawn_in_its_version():
    assert plots.missing() == [], "python scripts/proxies_plots.py --measure runs/quick"
    for path, text in plots.drawings().items():
        assert path.read_text(encoding="utf-8") == text, "python scripts/proxies_plots.py"
    assert {path.name for path in plots.PICTURES.glob("*.svg")} == {f"{n}.svg" for n in docs.built_in()}


@pytest.mark.parametrize(("values", "logarithmic"), [([1.0, 2.0, 3.0], False), ([0.1, 1.0, 10.0], True)])
def test_a_drawing_has_each_network_at_its_place(values, logarithmic):
    """Equal steps of what is drawn are equal steps there: widths in their logarithm, larger values above."""
    column = plots.column_of("param_norm")
    rows = [{"width": 2.0**k, "gap": 0.1 * k, column: value} for k, value in enumerate(values)]
    text = plots.drawing("param_norm", rows)
    circles = [(float(x), float(y)) for x, y in re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', text)]
    assert len(circles) == 6
    for panel in (circles[:3], circles[3:]):
        (x0, y0), (x1, y1), (x2, y2) = panel
        assert x1 - x0 == pytest.approx(x2 - x1, abs=0.11)
        assert x1 > x0
        assert y0 - y1 == pytest.approx(y1 - y2, abs=0.11)
        assert y1 < y0
    assert (">log<" in text) == logarithmic
    assert ">10<" in text or ">3<" in text
    assert "not applicable" in plots.drawing("param_norm", [{"width": 1.0, "gap": 0.1}])
