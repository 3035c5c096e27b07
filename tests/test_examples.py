"""The example scripts run as they are, and what they print is right."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def output(name, *arguments):
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py", *map(str, arguments)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def numbers(text, name):
    line = next(line for line in text.splitlines() if line.startswith(name))
    return [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", line.removeprefix(name))]


@pytest.mark.slow
def test_measure_a_network():
    text = output("measure_a_network")
    assert numbers(text, "param_norm")[0] > 10
    assert numbers(text, "hessian_trace")[0] > 0
    assert numbers(text, "sharpness_quotient")[0] <= numbers(text, "sharpness_full")[0]


def test_score_a_table():
    text = output("score_a_table")
    tau, low, high, granulated = numbers(text, "sharpness")
    assert 0 < low < tau < high
    assert granulated == 1
    assert numbers(text, "norm")[2] < 0


@pytest.mark.slow
def test_look_at_a_symmetry():
    text = output("look_at_a_symmetry")
    assert "dimension 32" in text
    assert float(re.search(r"transformation: (\S+)", text)[1]) < 1e-12
    same = {name: line.endswith("same") for line in text.splitlines() if (name := line.split()[0])}
    assert same["hessian_trace_balanced"]
    assert same["train_loss"]
    assert not same["hessian_trace"]
    assert not same["sharpness_full"]
    assert not same["param_norm"]


def test_run_a_suite(tmp_path):
    text = output("run_a_suite", tmp_path / "run")
    assert re.search(r"mean_weight +\S+ +\S+ +\S+ +12$", text, re.MULTILINE)
    assert (tmp_path / "run" / "board" / "index.html").is_file()


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.py")), ids=lambda file: file.stem)
def test_every_example_says_how_to_run_it(file):
    assert f"python examples/{file.name}" in file.read_text()
