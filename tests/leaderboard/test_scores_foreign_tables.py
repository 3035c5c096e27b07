"""What people's tables hold besides numbers: words, notations, row numbers, copies, names that are ours."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from gapbench.cli import cli, main
from gapbench_leaderboard.intake.reading import read_table
from gapbench_leaderboard.scores import score_population, score_table
from gapbench_leaderboard.statistics import TableError, granulated_kendall, kendall_tau
from gapbench_leaderboard.statistics.cells import MISSING_WORDS, NumberFormat, nearly, remedy
from gapbench_leaderboard.statistics.configurations import axis_codes, numeric

QUICK = {"replicates": 60, "pair_replicates": 10, "prediction_replicates": 3, "workers": 1}
WORDS = ["NA", "None", "null", "nan", "NaN", "N/A", "n/a", "NULL", "<NA>", "#N/A", "-", "?", "-nan"]


@pytest.fixture
def table() -> pd.DataFrame:
    random = np.random.default_rng(3)
    frame = pd.DataFrame(
        {"lr": random.choice([0.1, 0.01], 48), "aug": random.choice(["crop", "flip", "mix"], 48)}
    )
    frame["gap"] = random.permutation(48) / 100 + 0.005
    frame["m"] = (frame["gap"] + 0.2 * random.standard_normal(48)).round(6)
    return frame


def run(path: Path, *options: str, axes: str = "lr,aug") -> Result:
    return CliRunner().invoke(cli, ["score", str(path), "--axes", axes, "--replicates", "20", *options])


def document(path: Path, *options: str, axes: str = "lr,aug") -> dict:
    found = run(path, "--json", *options, axes=axes)
    assert found.exit_code == 0, (found.output, found.exception)
    return json.loads(found.stdout)


def written(table: pd.DataFrame, folder: Path, name: str = "t.csv", **options) -> Path:
    table.to_csv(folder / name, **{"index": False, **options})
    return folder / name


def value(scores: pd.DataFrame, proxy: str, estimator: str) -> float:
    chosen = scores[(scores["proxy"] == proxy) & (scores["estimator"] == estimator)]
    assert len(chosen) == 1, (proxy, estimator)
    return float(chosen["value"].iloc[0])


def measures_of(content: dict) -> set[str]:
    return {row["proxy"] for row in content["scores"] if row["estimator"] == "tau"} - {
        "noisy_oracle",
        "hyperparameter_oracle",
    }


# levels


@pytest.mark.parametrize("word", WORDS)
def test_a_word_for_missing_is_a_level_and_gives_what_any_other_word_gives(
    table: pd.DataFrame, tmp_path: Path, word: str
) -> None:
    other = document(written(table, tmp_path))
    named = document(written(table.replace({"aug": {"flip": word}}), tmp_path))
    assert named["scores"] == other["scores"]
    assert any(repr(word) in note for note in named["notes"])


def test_words_stay_apart_from_each_other_and_from_empty_cells(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,gap,m\nNA,1,1\nNone,2,1\n,3,1\nnan,4,2\nNA,5,3\n")
    back = read_table(tmp_path / "t.csv")
    assert axis_codes(back, ["a"])[:, 0].tolist() == [0, 1, 3, 2, 0]
    empty = pd.DataFrame({"a": np.array([None, float("nan"), pd.NA, pd.NaT, "x", "None"], dtype=object)})
    assert axis_codes(empty, ["a"])[:, 0].tolist() == [2, 2, 2, 2, 1, 0]


@pytest.mark.parametrize("kind", ["object", "category", "string", "bool", "decimal", "Int64", "float"])
def test_levels_of_every_type_give_the_same_scores(table: pd.DataFrame, kind: str) -> None:
    plain = table.assign(two=np.where(table["lr"] == 0.1, 1, 0)).drop(columns="lr")
    made = {
        "object": plain["two"].map({0: None, 1: "yes"}).astype(object),
        "category": plain["two"].map({0: "low", 1: "NA"}).astype("category"),
        "string": plain["two"].map({0: pd.NA, 1: "b"}).astype("string"),
        "bool": plain["two"] == 1,
        "decimal": plain["two"].map({0: Decimal("0.1"), 1: Decimal("0.2")}),
        "Int64": plain["two"].map({0: pd.NA, 1: 2}).astype("Int64"),
        "float": plain["two"].map({0: np.nan, 1: 0.5}),
    }[kind]
    options = {"strata": ["two"], "given": ["aug"], **QUICK}
    first = score_table(
        plain.assign(two=plain["two"].map({0: "p", 1: "q"})), ["m"], "gap", ["two", "aug"], **options
    )
    second = score_table(plain.assign(two=made), ["m"], "gap", ["two", "aug"], **options)
    for estimator in ("tau", "granulated:two", "tau_within:two", "K", "tau_within", "tau_partial"):
        assert value(first, "m", estimator) == value(second, "m", estimator), estimator


def test_a_seed_of_words_tells_rows_apart(table: pd.DataFrame, tmp_path: Path) -> None:
    table = table.assign(seed=[["NA", "None", "null", ""][k % 4] + str(k // 4) * (k > 3) for k in range(48)])
    content = document(written(table, tmp_path), "--seed-column", "seed")
    assert measures_of(content) == {"m"}
    with pytest.raises(TableError, match="share their configuration and seed"):
        score_table(table.assign(seed="NA"), ["m"], "gap", ["lr", "aug"], "seed", **QUICK)


# measures


@pytest.mark.parametrize("word", sorted({*WORDS, "NaN"} - {""}))
def test_a_word_for_missing_in_a_measure_is_missing_and_named(
    table: pd.DataFrame, tmp_path: Path, word: str
) -> None:
    assert word.lower() in MISSING_WORDS
    words = table.astype({"m": object})
    words.loc[[4, 9], "m"] = word
    words.loc[11, "m"] = None
    for options in ((), ("--measures", "m")):
        content = document(written(words, tmp_path), *options)
        assert any(repr(word) in note and "data rows 5, 10" in note for note in content["notes"])
        assert any("3 of 48 values are not finite" in note and "3 empty" in note for note in content["notes"])
    scores = score_table(words, ["m"], "gap", ["lr", "aug"], **QUICK)
    kept = table.drop(index=[4, 9, 11])
    assert value(scores, "m", "tau") == pytest.approx(kendall_tau(kept["m"], kept["gap"]))
    assert any(repr(word) in note for note in scores.attrs["notes"])
    with pytest.raises(TableError, match="data row 5"):
        numeric(words, "m")  # the plain functions take no words


@pytest.mark.parametrize(
    ("cell", "option"),
    [
        ("diverged", "empty cell"),
        ("12.5%", "--percent"),
        ("0,5", "--decimal ,"),
        ("1,234.5", "--thousands ,"),
        ("1 234", "--thousands ' '"),
        ("1.234,5", "--decimal , with --thousands ."),
        ("$3.20", "without the currency"),
        ("3 ms", "plain numbers"),
        ("0.5 ± 0.1", "plain numbers"),
        ("1_000", "--thousands _"),
        ("0x10", "plain numbers"),
        ("True", "plain numbers"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_row_and_what_reads_it(
    table: pd.DataFrame, tmp_path: Path, cell: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = table.assign(other=-table["m"]).astype({"m": object})
    broken.loc[7, "m"] = cell
    file = written(broken, tmp_path)
    content = document(file)
    assert measures_of(content) == {"other"}
    note = next(note for note in content["notes"] if repr(cell) in note)
    assert note.startswith("not scored: column 'm'")
    assert "data row 8" in note
    assert option in note
    for named in ("m", "gap"):
        changed = written(
            broken.rename(columns={"m": "gap", "gap": "m"}) if named == "gap" else broken, tmp_path
        )
        with pytest.raises(SystemExit) as stop:
            main(["score", str(changed), "--axes", "lr,aug", "--measures", "m" if named == "m" else "other"])
        assert stop.value.code == 2
        said = capsys.readouterr().err
        assert repr(cell) in said
        assert "Traceback" not in said


@pytest.mark.parametrize(
    ("decimal", "thousands", "percent", "delimiter"),
    [
        (",", None, False, ";"),
        (",", ".", False, "\t"),
        (".", ",", False, ";"),
        (",", " ", True, "|"),
        (".", "'", True, ";"),
    ],
)
def test_every_notation_gives_the_scores_of_plain_numbers(
    table: pd.DataFrame, tmp_path: Path, decimal: str, thousands: str | None, percent: bool, delimiter: str
) -> None:
    table = table.assign(large=(2_000_000 * table["m"]).round(1))

    def spelled(number: float, share: bool) -> str:
        text = f"{number * 100 if share else number:,.6f}"
        marks = {",": thousands or "", ".": decimal}
        return "".join(marks.get(sign, sign) for sign in text) + ("%" if share else "")

    names = [*table.columns]
    lines = [delimiter.join(names)]
    for row in table.to_dict("records"):
        cells = [
            row[name] if name == "aug" else spelled(row[name], percent and name in ("gap", "m"))
            for name in names
        ]
        lines.append(delimiter.join(cells))
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    options = ["--decimal", decimal, "--delimiter", "tab" if delimiter == "\t" else delimiter]
    options += ["--thousands", thousands] if thousands else []
    options += ["--percent"] if percent else []
    content = document(tmp_path / "t.csv", *options)
    assert measures_of(content) == {"m", "large"}
    plain = document(written(table, tmp_path, "plain.csv"))
    own = {(r["proxy"], r["estimator"]): r["value"] for r in content["scores"]}
    for row in plain["scores"]:
        if row["estimator"] in ("tau", "tau_b", "granulated:lr", "K"):
            assert own[row["proxy"], row["estimator"]] == pytest.approx(row["value"], abs=1e-9)


@pytest.mark.parametrize("column", ["m", "gap"])
def test_percentages_among_plain_numbers_are_not_trusted(
    table: pd.DataFrame, tmp_path: Path, column: str, capsys: pytest.CaptureFixture[str]
) -> None:
    mixed = table.assign(**{column: table[column].map("{:.4%}".format)})
    mixed.loc[3, column] = "0.5"
    with pytest.raises(SystemExit) as stop:
        main(["score", str(written(mixed, tmp_path)), "--axes", "lr,aug", "--measures", "m", "--percent"])
    assert stop.value.code == 2
    assert "'0.5' in data row 4 (it has no percent sign" in capsys.readouterr().err


def test_numbers_are_read_strictly() -> None:
    plain = NumberFormat()
    for text, number in (
        ("1", 1), ("+1.5e-3", 0.0015), (".5", 0.5), ("5.", 5.0), ("-0", 0), ("−2", -2), ("inf", np.inf),
        ("9007199254740993", 9007199254740993), ("1_000", None), ("0x1", None), ("1e", None), ("", None),
        ("٣", None), ("1 2", None), ("e5", None), ("--1", None), ("1,5", None), ("5%", None),
    ):  # fmt: skip
        assert plain.read(text) == number, text
    assert isinstance(plain.read("12"), int)
    grouped = NumberFormat(thousands=",")
    assert [grouped.read(t) for t in ("1,234", "12,34", "1,2345", "1234", "1,234,567.5")] == [
        1234, None, None, 1234, 1234567.5,
    ]  # fmt: skip
    assert NumberFormat(percent=True).read("12.5 %") == 0.125
    assert NumberFormat(",").read("1.5") is None
    assert "--decimal ," in remedy("0,5")
    assert "--thousands ," not in remedy("0,5")
    assert nearly("5 ms")
    assert not nearly("resnet18")
    for bad in (
        {"decimal": ";"},
        {"thousands": "ab"},
        {"thousands": "5"},
        {"decimal": ",", "thousands": ","},
    ):
        with pytest.raises(TableError):
            NumberFormat(**bad)


@pytest.mark.parametrize("kind", ["object", "string", "category", "decimal", "Float64", "Int64", "bool"])
def test_measures_of_every_type_are_numbers(table: pd.DataFrame, kind: str) -> None:
    whole = (1000 * table["m"]).round().astype(int)
    made = {
        "object": whole.astype(object),
        "string": whole.astype(str),
        "category": whole.astype("category"),
        "decimal": whole.map(Decimal),
        "Float64": whole.astype("Float64"),
        "Int64": whole.astype("Int64"),
        "bool": whole > 250,
    }[kind]
    expected = kendall_tau((whole > 250) if kind == "bool" else whole, table["gap"])
    scores = score_table(table.assign(m=made), ["m"], "gap", ["lr"], **QUICK)
    assert value(scores, "m", "tau") == pytest.approx(expected)
    if kind in ("object", "Float64", "Int64", "decimal"):
        holes = made.copy()
        holes.iloc[[1, 2]] = {"decimal": None, "object": None}.get(kind, pd.NA)
        scores = score_table(table.assign(m=holes), ["m"], "gap", ["lr"], **QUICK)
        assert value(scores, "m", "left_out:value not finite") == 2
    with pytest.raises(TableError, match="data row 1"):
        score_table(table.assign(m=pd.Timestamp("2024-01-01")), ["m"], "gap", ["lr"], **QUICK)


@pytest.mark.parametrize("base", [2**53, 2**62, -(2**60), 2**70])
@pytest.mark.parametrize("column", ["m", "gap"])
def test_large_whole_numbers_that_differ_do_not_become_equal(
    table: pd.DataFrame, tmp_path: Path, base: int, column: str
) -> None:
    order = np.argsort(np.argsort(table[column].to_numpy()))
    large = table.assign(**{column: np.array([base + int(k) for k in order], dtype=object)})
    expected = kendall_tau(table["m"], table["gap"])
    for frame in (large, read_table(written(large, tmp_path))):
        scores = score_table(frame, ["m"], "gap", ["lr", "aug"], **QUICK)
        assert value(scores, "m", "tau") == pytest.approx(expected)
        assert any(f"{column}: whole numbers beyond 2^53" in note for note in scores.attrs["notes"])
    wide = table.assign(m=np.array([2**60, 2**60 + 1, *table["m"].tolist()[2:]], dtype=object))
    notes = score_table(wide, ["m"], "gap", ["lr", "aug"], **QUICK).attrs["notes"]
    assert any("count as ties" in note and "data rows 1 and 2" in note for note in notes)


# row numbers, empty columns, copies


@pytest.mark.parametrize("heading", ["", "Unnamed: 0", "index", "level_0", "Unnamed: 0.1", "id", "#", "X"])
@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("shuffled", [False, True])
def test_numbers_of_rows_are_no_measure(
    table: pd.DataFrame, tmp_path: Path, heading: str, start: int, shuffled: bool
) -> None:
    numbers = np.random.default_rng(0).permutation(48) if shuffled else np.arange(48)
    table.insert(0, heading, numbers + start)
    file = written(table, tmp_path)
    content = document(file)
    assert measures_of(content) == {"m"}
    said = heading or "Unnamed: 0"
    assert any(f"not scored: {said!r}" in note for note in content["notes"])
    assert measures_of(document(file, "--measures", said)) == {said}


def test_a_part_of_a_table_with_its_index_and_empty_columns(table: pd.DataFrame, tmp_path: Path) -> None:
    part = table[table["gap"] > 0.1]
    text = part.to_csv()
    (tmp_path / "t.csv").write_text("\n".join(f"{line},," for line in text.splitlines()) + "\n,,,,,,\n")
    content = document(tmp_path / "t.csv")
    assert measures_of(content) == {"m"}
    notes = " ".join(content["notes"])
    assert "'Unnamed: 0' numbers the rows" in notes
    assert "2 columns without a heading and without any value" in notes
    assert "1 rows without any value" in notes
    bare = pd.read_csv(tmp_path / "t.csv").dropna(how="all")  # as pandas names them: Unnamed: 5, Unnamed: 6
    content = document(written(bare, tmp_path, "again.csv"))
    assert measures_of(content) == {"m"}
    assert any("'Unnamed: 6' is empty in every row" in note for note in content["notes"])
    named = document(written(table.assign(remark=np.nan, truth=table["m"] > 0.2, name="net"), tmp_path))
    notes = " ".join(named["notes"])
    for said in ("'remark' is empty", "truth (true or false)", "name (text)"):
        assert said in notes


def test_copied_rows_are_left_out_and_named(table: pd.DataFrame, tmp_path: Path) -> None:
    doubled = pd.concat([table, table.iloc[[3, 5]]], ignore_index=True)
    plain = document(written(table, tmp_path))
    for copied in (doubled, doubled.reset_index()):  # with row numbers of their own they are copies as well
        content = document(written(copied, tmp_path))
        assert content["scores"] == plain["scores"]
        assert any("2 rows equal another in every column (data rows 49, 50)" in n for n in content["notes"])
    whole = score_table(pd.concat([table, table]), ["m"], "gap", ["lr", "aug"], **QUICK)
    once = score_table(table, ["m"], "gap", ["lr", "aug"], **QUICK)
    pd.testing.assert_frame_equal(whole, once)
    renamed = doubled.assign(file=[f"net{k}" for k in range(50)])
    notes = document(written(renamed, tmp_path))["notes"]
    assert any(
        "2 rows equal another of their configuration in the target and in every measure" in n for n in notes
    )


@pytest.mark.parametrize("heading", ["", "index", "level_0"])
def test_a_part_of_a_table_keeps_the_numbers_of_its_rows(
    table: pd.DataFrame, tmp_path: Path, heading: str
) -> None:
    part = table[table["gap"] > 0.15].reset_index(names=heading or "rows")
    content = document(written(part.rename(columns={"rows": ""}), tmp_path))
    assert measures_of(content) == {"m"}


def test_numbers_of_an_axis_in_another_notation_are_pointed_out(table: pd.DataFrame, tmp_path: Path) -> None:
    words = table.assign(lr=table["lr"].map(lambda number: str(number).replace(".", ",")))
    notes = document(written(words, tmp_path))["notes"]
    assert any(n.startswith("axis lr: '0,") and "--decimal ," in n for n in notes)


def test_columns_need_not_be_named_by_texts(table: pd.DataFrame) -> None:
    numbered = table.rename(columns={"lr": 0, "aug": 1, "gap": 2, "m": 3})
    options = {"strata": [0], "given": [1], **QUICK}
    first = score_table(numbered, [3], 2, [0, 1], **options)  # type: ignore[list-item, arg-type]
    second = score_table(table, ["m"], "gap", ["lr", "aug"], strata=["lr"], given=["aug"], **QUICK)
    assert value(first, "3", "granulated:0") == value(second, "m", "granulated:lr")
    assert value(first, "3", "tau_within:1") == value(second, "m", "tau_within:aug")
    with pytest.raises(TableError, match="twice"):
        score_table(numbered, [3], 2, [0, 0], **QUICK)  # type: ignore[list-item, arg-type]


@pytest.mark.parametrize("cell", [[1, 2], np.zeros(2), {"a": 1}, 1j, pd.Timedelta("1s")])
def test_cells_that_are_no_cells_are_named(table: pd.DataFrame, cell: object) -> None:
    for column, axes in (("m", ["lr"]), ("aug", ["aug"])):
        odd = table.astype({column: object})
        odd[column] = pd.Series([cell, *odd[column].tolist()[1:]], dtype=object)
        if column == "aug" and not isinstance(cell, list | dict | np.ndarray):
            continue
        with pytest.raises(TableError, match=column):
            score_table(odd, ["m"], "gap", axes, **QUICK)


def test_a_word_in_a_column_held_fixed_by_partial_tau_does_not_make_it_a_category(
    table: pd.DataFrame,
) -> None:
    sizes = np.random.default_rng(5).random(48).tolist()
    options = {"given": ["size"], **QUICK}
    words = score_table(table.assign(size=["NA", *sizes[1:]]), ["m"], "gap", ["lr"], **options)
    empty = score_table(table.assign(size=[np.nan, *sizes[1:]]), ["m"], "gap", ["lr"], **options)
    assert value(words, "m", "tau_partial") == value(empty, "m", "tau_partial")
    assert any("size: 1 words such as 'NA'" in note for note in words.attrs["notes"])


@pytest.mark.parametrize("axis", ["gap", "cell", "status", "task"])
def test_a_population_whose_axis_has_another_meaning_is_refused(axis: str) -> None:
    population = pd.DataFrame(
        {"cell": ["a", "b"], "task": "t", "status": "converged", "gap": [0.1, 0.2], "lr": [1, 2]}
    )
    measurements = pd.DataFrame({"cell": ["a", "b"], "proxy": "p", "value": [1.0, 2.0], "status": "ok"})
    with pytest.raises(TableError, match=f"'{axis}' cannot be an axis"):
        score_population(population, measurements, axes=["lr", axis], **QUICK)
    twice = pd.concat([population, population[["lr"]]], axis=1)
    with pytest.raises(TableError, match="several columns named 'lr'"):
        score_population(twice, measurements, axes=["lr"], **QUICK)


# files


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        ("utf-8", ""),
        ("utf-8-sig", ""),
        ("utf-16", "UTF-16"),
        ("utf-16-be", "UTF-16"),
        ("utf-32", "UTF-32"),
        ("cp1252", "Latin-1"),
    ],
)
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.tsv"])
def test_every_encoding_is_read_and_said(
    table: pd.DataFrame, tmp_path: Path, encoding: str, said: str, name: str
) -> None:
    table = table.rename(columns={"m": "größe"}).replace({"aug": {"flip": "façade"}})
    data = table.to_csv(index=False, sep="\t" if name == "t.tsv" else ",").encode(encoding)
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    back = read_table(tmp_path / name)
    pd.testing.assert_frame_equal(back, table)
    assert said in " ".join(back.attrs["notes"])
    assert bool(back.attrs["notes"]) == bool(said)


def test_a_workbook_gives_the_same_table(table: pd.DataFrame, tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    words = table.astype({"m": object}).replace({"aug": {"flip": "NA"}})
    words.loc[2, "m"] = "NA"
    with pd.ExcelWriter(tmp_path / "t.xlsx") as book:
        words.to_excel(book, index=False, sheet_name="networks")
        table.to_excel(book, sheet_name="more")
    content = document(tmp_path / "t.xlsx")
    text = document(written(words, tmp_path))
    for one, other in zip(content["scores"], text["scores"], strict=True):
        assert one == pytest.approx(other, abs=1e-9)  # openpyxl writes 16 digits
    assert any("only the sheet 'networks' was read, not 'more'" in note for note in content["notes"])


@pytest.mark.parametrize(("module", "suffix"), [("openpyxl", "xlsx"), ("pyarrow", "parquet")])
def test_a_missing_package_is_named_with_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, suffix: str
) -> None:
    import builtins

    real = builtins.__import__

    def without(name: str, *rest, **options):
        if name.split(".")[0] == module:
            raise ImportError(f"No module named {name!r}")
        return real(name, *rest, **options)

    def unable(*_: object, **__: object) -> None:
        raise ImportError("Unable to find a usable engine")

    (tmp_path / f"t.{suffix}").write_bytes(b"PK")
    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.setattr(pd, "read_parquet", unable)
    with pytest.raises(TableError, match=f"pip install {module}.*gapbench\\[tables\\]"):
        read_table(tmp_path / f"t.{suffix}")


def test_parquet_keeps_types_and_an_index_with_a_name(table: pd.DataFrame, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    typed = table.assign(aug=table["aug"].astype("category"), m=table["m"].astype("Float64"))
    typed.set_index("lr").to_parquet(tmp_path / "t.parquet")
    large = pd.DataFrame({"m": pd.array([2**60, None, 2**60 + 1], dtype="Int64")})
    large.to_parquet(tmp_path / "large.parquet")
    assert read_table(tmp_path / "large.parquet")["m"].dropna().tolist() == [2**60, 2**60 + 1]
    first = document(tmp_path / "t.parquet")
    assert first["scores"] == document(written(table, tmp_path))["scores"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,gap,m\n0,1,2\n1,2\n", ""),
        ("a,gap,m\n0,1,2,,\n1,2,4,\n", ""),
        ("a,gap,m,m\n0,1,2,3\n", "more than one column is named 'm'"),
        ('a,gap,m\n0,1,"2\n1,2,3\n', "never closed"),
        ("a|gap|m\n0|1|2\n", "separated by pipes"),
        ("a;gap;m, of all\n0;0,1;3\n1;0,2;5,5\n2;1;4\n", "separated by semicolons.*--delimiter ';'"),
    ],
)
def test_ragged_and_wrongly_separated_rows(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "t.csv").write_text(content)
    if message:
        with pytest.raises(TableError, match=message):
            read_table(tmp_path / "t.csv")
    else:
        back = read_table(tmp_path / "t.csv")
        assert list(back.columns) == ["a", "gap", "m"]
        assert back["gap"].tolist() == [1, 2]


def test_columns_that_pandas_renamed_are_noticed(table: pd.DataFrame) -> None:
    scores = score_table(table.assign(**{"m.1": -table["m"]}), ["m", "m.1"], "gap", ["lr"], **QUICK)
    assert any("'m' and 'm.1'" in note for note in scores.attrs["notes"])


def test_notes_are_said_wherever_scores_are_written(table: pd.DataFrame, tmp_path: Path) -> None:
    file = written(table.reset_index(), tmp_path)
    found = run(file, "--output", str(tmp_path / "scores.csv"))
    assert "nan" not in found.output.lower()
    assert "configuration ceiling of tau: " in found.output
    beside = (tmp_path / "scores.csv.notes.txt").read_text()
    assert "'index' numbers the rows" in found.output
    assert "'index' numbers the rows" in beside
    assert document(file)["notes"] == beside.splitlines()


# names


NAMES = [
    "value", "models", "gap", "low", "high", "cell", "index", "level_0", "stratum", "weight", "task", "family",
    "width", "status", "seed", "parameters", "log(parameters)", "test_size", "test_error", "train_size", "proxy",
    "estimator", "target", "rank", "tau", "repeat", "seconds", "reason", "random", "train_loss", "column 0",
    "axis:lr", "size", "name", "0", "a:b", "left_out:x", "granulated", "values", "shape", "T", "median",
]  # fmt: skip


ROLES = ["axis", "target", "measure", "text axis", "given", "seed", "error"]


@pytest.mark.parametrize(
    ("name", "role"),
    [
        (name, role)
        for k, name in enumerate(NAMES)
        for r, role in enumerate(ROLES)
        if r < 3 or (k + r) % 4 == 0
    ],
)
def test_no_name_of_a_column_changes_a_number(table: pd.DataFrame, name: str, role: str) -> None:
    test_size = 500 if len(name) % 2 else None
    table = table.assign(run=range(48), err=table["gap"])
    if name in table.columns:
        table = table.rename(columns={name: "their own"})
    old = {
        "axis": "lr",
        "text axis": "aug",
        "measure": "m",
        "target": "gap",
        "given": "size_of",
        "seed": "run",
        "error": "err",
    }
    table["size_of"] = np.random.default_rng(1).random(48)
    target = "their own" if name == "gap" else "gap"

    def scored(frame: pd.DataFrame, renamed: dict[str, str]) -> pd.DataFrame:
        r = renamed.get
        return score_table(
            frame, [r("m", "m"), r("lr", "lr")], r(target, target), [r("lr", "lr"), r("aug", "aug")],
            r("run", "run"), test_size, strata=[r("aug", "aug")], given=[r("size_of", "size_of")],
            test_error=r("err", "err"), replicates=20, pair_replicates=3, prediction_replicates=1, workers=1,
        )  # fmt: skip

    column = target if role == "target" else old[role]
    before = scored(table, {})
    after = scored(table.rename(columns={column: name}), {column: name})
    oracles = ["noisy_oracle"] if role == "target" else []
    expected = before[~before["proxy"].isin(oracles)].copy()
    found = after[~after["proxy"].isin(oracles)].copy()
    for frame in (expected, found):
        frame["proxy"] = frame["proxy"].replace({column: "renamed", name: "renamed"})
        suffix = {f"{p}:{n}": f"{p}:renamed" for n in (column, name) for p in (
            "granulated", "tau_within", "tau_pooled_minus_within", "simpson", "sign_error", "pairs:granulated",
            "pairs:tau_within", "tau_minus",
        )}  # fmt: skip
        suffix |= {f"left_out:{n} not finite": "left_out" for n in (column, name)}
        frame["estimator"] = frame["estimator"].replace(suffix)
        frame["target"] = "t"
    keys = ["proxy", "estimator"]
    pairs = ("tau_minus:", "tau_minus_p:")
    kept = ~expected["estimator"].str.startswith(pairs)
    expected = expected[kept].sort_values(keys).reset_index(drop=True)
    found = found[~found["estimator"].str.startswith(pairs)].sort_values(keys).reset_index(drop=True)
    pd.testing.assert_frame_equal(found, expected, check_exact=False, rtol=1e-12)


@pytest.mark.parametrize("name", ["noisy_oracle", "hyperparameter_oracle", "", " "])
def test_names_of_the_scorers_rows_are_refused(table: pd.DataFrame, name: str) -> None:
    with pytest.raises(TableError, match="cannot be called"):
        score_table(table.rename(columns={"m": name}), [name], "gap", ["lr"], **QUICK)


def test_an_axis_can_be_a_measure_and_a_measure_named_width_is_ranked(
    table: pd.DataFrame, tmp_path: Path
) -> None:
    table = table.rename(columns={"lr": "width"})
    scores = score_table(table, ["width", "m"], "gap", ["width", "aug"], **QUICK)
    assert value(scores, "width", "tau") == pytest.approx(kendall_tau(table["width"], table["gap"]))
    assert value(scores, "width", "rank") >= 1
    expected = granulated_kendall(table, "m", "gap", ["width", "aug"])
    assert value(scores, "m", "granulated:width") == pytest.approx(expected.per_axis["width"])
    found = run(written(table, tmp_path), "--measures", "width,m", axes="width,aug")
    line = next(line for line in found.output.splitlines() if " width " in line)
    assert "baseline" not in line
