"""A suite of one's own from Python: train a small population, add a proxy, look at the scores.

python examples/run_a_suite.py [FOLDER]
"""

import sys
import tempfile
from pathlib import Path

import gapbench

SUITE = """
name = "example"
version = 1
summary = "Small networks on scikit-learn's digits."

[training]
max_epochs = 300

[measure]
samples = 100
proxies = ["param_norm", "mean_weight", "inverse_margin"]

[[grid]]
task = "digits_rotations"
task_options = { train_size = 200 }
[grid.axes]
family = ["plain/mlp"]
width = [0.5, 1, 2]
learning_rate = [0.02, 0.05]
seed = [0, 1]
"""


@gapbench.proxy("mean_weight")
def mean_weight(context: gapbench.Context) -> float:
    """Mean absolute weight."""
    sizes = [p.numel() for p in context.parameters]
    return float(sum(p.abs().sum() for p in context.parameters)) / sum(sizes)


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp()) / "example"
    text = folder.with_suffix(".toml")
    text.write_text(SUITE)
    run = gapbench.run(text, folder, workers=0)
    print(
        run.population[["width", "learning_rate", "seed", "train_error", "test_error", "gap"]].to_string(
            index=False
        )
    )
    scores = run.scores(targets=("gap",))
    head = scores[(scores["estimator"] == "tau") & (scores["task"] == "") & (scores["family"] == "")]
    print(head[["proxy", "value", "low", "high", "models"]].to_string(index=False))
    print(f"Board: {folder / 'board' / 'index.html'}")
