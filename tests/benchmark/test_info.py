"""`gapbench info NAME`, and what a shell may complete."""

import json

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

import gapbench
from benchmark.tiny_suite import TINY
from gapbench import GapbenchError
from gapbench.cli import cli
from gapbench.commands.describing import described, lines_of
from gapbench.proxies.registry import proxy_entry
from gapbench.suites.suite import load_suite
from gapbench_models import describe
from gapbench_tasks import task_options

NAMES = [
    *gapbench.list_proxies(),
    *gapbench.list_suites(),
    *gapbench.list_models(),
    *gapbench.list_tasks(),
]


@pytest.mark.parametrize("name", NAMES)
def test_everything_with_a_name_is_described(name):
    found = described(name)
    assert [content["name"] for content in found] == [name]
    text = "\n".join(lines_of(found[0]))
    assert text.startswith(f"{name}: ")
    assert len(found[0]["text"]) > 10
    assert "Returns:" not in text
    json.dumps(found)


def test_a_proxy_says_options_direction_and_needs():
    (content,) = described("sharpness_quotient")
    options = proxy_entry("sharpness_quotient").options
    assert content["facts"]["options"] == [f"{name} = {value!r}" for name, value in options.items()]
    assert content["facts"]["a larger value"] == "predicts a larger gap"
    assert "quick" in content["facts"]["in the suites"]
    (content,) = described("distance_from_initialization")
    assert content["facts"]["needs"] == "initial"


def test_a_suite_says_how_many_networks_of_what(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(TINY)
    (content,) = described(str(file))
    assert content["facts"]["networks"] == "12, of 6 configurations"
    assert content["facts"]["of which"] == ["  12  separable, plain/mlp"]
    assert content["facts"]["axes"] == ["width (3): 0.125, 0.25, 0.5", "learning_rate (2): 0.1, 0.2"]
    (quick,) = described("quick")
    assert sum(int(line.split()[0]) for line in quick["facts"]["of which"]) == len(
        load_suite("quick").configurations
    )


def test_a_family_and_a_task_say_what_they_are():
    (content,) = described("timm/resnet18")
    assert content["facts"]["width 1 has"] == describe("timm/resnet18").width
    (content,) = described("cifar10")
    assert content["facts"]["options"] == [f"{k} = {v!r}" for k, v in task_options("cifar10").items()]
    assert content["facts"]["data"].endswith("gapbench fetch cifar10")


def test_an_unknown_name_is_refused_with_near_ones():
    with pytest.raises(GapbenchError, match="Did you mean 'param_norm'"):
        cli.main(["info", "parm_norm"], standalone_mode=False)


def test_the_command_prints_and_gives_json():
    printed = CliRunner().invoke(cli, ["info", "quick"])
    assert printed.exit_code == 0
    assert printed.output.startswith("quick: suite\n")
    (content,) = json.loads(CliRunner().invoke(cli, ["info", "quick", "--json"]).output)
    assert content["kind"] == "suite"


def completions(*words):
    shell = ShellComplete(cli, {}, "gapbench", "_GAPBENCH_COMPLETE")
    return [item.value for item in shell.get_completions(list(words[:-1]), words[-1]) if item.type == "plain"]


def test_suites_and_proxies_are_completed():
    assert completions("run", "qu") == ["quick"]
    assert set(completions("pilot", "")) == set(gapbench.list_suites())
    assert completions("run", "--proxies", "param_norm,distance_from") == [
        "param_norm,distance_from_initialization"
    ]
    assert "param_norm,param_norm" not in completions("run", "--proxies", "param_norm,param")
    assert completions("info", "timm/resnet1") == ["timm/resnet18"]


def test_runs_and_their_entries_are_completed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    entries = tmp_path / "runs" / "mine" / "entries"
    entries.mkdir(parents=True)
    (tmp_path / "runs" / "mine" / "run.sqlite").touch()
    (entries / "0.json").write_text(json.dumps({"label": "my norm"}))
    (entries / "1.json").write_text("damaged")
    for words in (["audit", "ru"], ["submit", "x.py", "--run", ""], ["board", "runs/m"], ["entries", ""]):
        assert completions(*words) == ["runs/mine"]
    assert completions("verify", "--run", "runs/mine", "my") == ["my norm"]
    assert completions("entries", "runs/mine", "--withdraw", "") == ["my norm"]
    assert completions("verify", "") == []


def test_commands_and_options_are_completed():
    assert completions("entr") == ["entries"]
    assert "--put-back" in completions("entries", "runs/x", "--")
