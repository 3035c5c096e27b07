"""What is shipped, what imports what, and how much is imported when."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "gapbench": ROOT / "benchmark" / "gapbench",
    "gapbench_base": ROOT / "benchmark" / "gapbench_base",
    "gapbench_models": ROOT / "models" / "gapbench_models",
    "gapbench_tasks": ROOT / "tasks" / "gapbench_tasks",
    "gapbench_leaderboard": ROOT / "leaderboard" / "gapbench_leaderboard",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel built from this checkout without the network."""
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    return next(out.glob("*.whl"))


def test_wheel_has_exactly_the_five_packages_and_their_data(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert top == set(PACKAGES)
    for package in PACKAGES:
        assert f"{package}/py.typed" in names
    for suite in ("quick", "compact", "standard"):
        assert f"gapbench/suites/{suite}.toml" in names
    assert {"gapbench/checking/check.toml", "gapbench/commands/template.txt", "gapbench/runs/run.py"} <= set(
        names
    )
    assert not [n for n in names if n.endswith((".npz", ".gz", ".safetensors", ".sqlite"))]
    metadata = next(n for n in names if n.endswith("METADATA"))
    assert "License-Expression: Apache-2.0" in zipfile.ZipFile(wheel).read(metadata).decode()


@pytest.mark.slow
def test_wheel_works_beside_a_folder_with_its_own_models_and_tasks(wheel, tmp_path):
    """Unpacked into an empty folder, run from one that has generic names of its own."""
    site, project = tmp_path / "site", tmp_path / "project"
    zipfile.ZipFile(wheel).extractall(site)
    for name in ("models", "tasks", "benchmark", "leaderboard"):
        (project / name).mkdir(parents=True)
        (project / name / "__init__.py").write_text("raise RuntimeError('the wrong package was imported')")
    code = (
        "import sys; sys.path.insert(0, ''); import gapbench\n"
        "assert gapbench.__file__.startswith(sys.argv[1]), gapbench.__file__\n"
        "net = gapbench.build_model('plain/mlp', 0.5, (1, 8, 8), 2, seed=0)\n"
        "task = gapbench.load_task('separable', train_size=20, test_size=20)\n"
        "found = gapbench.measure('param_norm', net, task.train.inputs, task.train.targets)\n"
        "assert found.status == 'ok'\n"
        "from gapbench.cli import main\n"
        "main(['run', 'quick', '--limit', '1', '--proxies', 'random', '--out', 'out'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(site)],
        cwd=project,
        env={"PYTHONPATH": str(site), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (project / "out" / "run.sqlite").exists()


def imported_modules(code):
    script = f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=_environment())
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines())


def _environment():
    import os

    return {**os.environ, "PYTHONPATH": ":".join(str(p.parent) for p in PACKAGES.values())}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["run", "--help"],
        ["list", "models"],
        ["list", "proxies"],
        ["list", "tasks"],
    ],
)
def test_quick_commands_import_nothing_heavy(arguments):
    code = f"from gapbench.cli import main; main({arguments!r})"
    heavy = {"torch", "torchvision", "timm", "wandb", "scipy", "sklearn", "pandas", "numba"}
    assert not imported_modules(code) & heavy


def test_importing_the_package_is_light_and_the_leaderboard_needs_no_torch():
    assert "torch" not in imported_modules("import gapbench; dir(gapbench)")
    assert "torch" not in imported_modules("import gapbench_leaderboard.scores, gapbench_leaderboard.board")


def test_public_names_resolve():
    import gapbench

    for name in gapbench.__all__:
        assert getattr(gapbench, name) is not None
    with pytest.raises(AttributeError):
        gapbench.nothing  # noqa: B018


def test_wandb_is_imported_by_publishing_alone():
    for package, folder in PACKAGES.items():
        for file in folder.rglob("*.py"):
            if "wandb" in file.read_text() and "import wandb" in file.read_text():
                assert "publish" in str(file) or "wandb" in file.name, f"{package}: {file}"
