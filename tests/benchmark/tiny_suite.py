"""A suite that trains in seconds."""

TINY = """
name = "tiny"
version = 1
summary = "For tests."

[training]
max_epochs = 12
learning_rate = 0.1

[measure]
samples = 40
proxies = [
    "param_norm",
    "random",
    "parameter_count",
    { proxy = "sharpness_full", radius = 0.1, steps = 3 },
    { proxy = "sharpness_full", radius = 0.2, steps = 3 },
]

[[grid]]
task = "separable"
task_options = { shape = [1, 4, 4], train_size = 60, test_size = 200 }
training = { stop_loss = 0.2 }
[grid.axes]
family = ["plain/mlp"]
width = [0.125, 0.25, 0.5]
learning_rate = [0.1, 0.2]
seed = [0, 1]
"""
LABELS = [
    "param_norm",
    "random",
    "parameter_count",
    "sharpness_full[radius=0.1]",
    "sharpness_full[radius=0.2]",
]
