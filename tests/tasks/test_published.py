"""CIFAR-100 and SVHN in torchvision's layout and as npz, with tiny files in the place of the published ones."""

import dataclasses
import hashlib
import pickle

import numpy as np
import pytest
import torch
import torchvision.datasets
from scipy.io import savemat

from gapbench_tasks import TaskError, folder, list_tasks, load_task, task_entry
from gapbench_tasks.folder import SOURCES, fetch, find_data
from gapbench_tasks.loaders.cifar100 import CIFAR100_MEAN, CIFAR100_STD
from gapbench_tasks.loaders.svhn import SVHN_MEAN, SVHN_STD

MOMENTS = {"cifar100": (CIFAR100_MEAN, CIFAR100_STD), "svhn": (SVHN_MEAN, SVHN_STD)}
NEW = ["cifar100", "svhn"]


def arrays_of(name):
    generator = np.random.default_rng(1)
    classes = SOURCES[name].classes
    return {
        "x_train": generator.integers(0, 256, (2 * classes, 32, 32, 3), dtype=np.uint8),
        "y_train": (np.arange(2 * classes) % classes).astype(np.uint8),
        "x_test": generator.integers(0, 256, (classes, 32, 32, 3), dtype=np.uint8),
        "y_test": np.arange(classes)[::-1].astype(np.uint8),
    }


def write_files(name, root):
    """The arrays as the publishers lay them out, which their formats' descriptions say."""
    found = arrays_of(name)
    if name == "svhn":  # height, width, channels, examples; the digit 0 is labelled 10
        for split in ("train", "test"):
            labels = np.where(found[f"y_{split}"] == 0, 10, found[f"y_{split}"])[:, None]
            savemat(
                root / f"{split}_32x32.mat", {"X": found[f"x_{split}"].transpose(1, 2, 3, 0), "y": labels}
            )
        return
    (root / "cifar-100-python").mkdir()
    for split in ("train", "test"):  # rows: all red, then all green, then all blue
        rows = found[f"x_{split}"].transpose(0, 3, 1, 2).reshape(-1, 3072)
        fine = found[f"y_{split}"].tolist()
        content = {"data": rows, "fine_labels": fine, "coarse_labels": [0] * len(fine)}
        (root / "cifar-100-python" / split).write_bytes(pickle.dumps(content))
    names = {"fine_label_names": [str(k) for k in range(100)]}
    (root / "cifar-100-python" / "meta").write_bytes(pickle.dumps(names))


def publish(name, root, monkeypatch):
    """Let what lies in `root` be the published files, for us and for torchvision."""
    source = SOURCES[name]
    sums = {
        file: hashlib.md5((root / source.folder / file).read_bytes()).hexdigest() for file, _ in source.files
    }
    monkeypatch.setitem(SOURCES, name, dataclasses.replace(source, files=tuple(sums.items())))
    if name == "svhn":
        lists = {split: ["", f"{split}_32x32.mat", sums[f"{split}_32x32.mat"]] for split in ("train", "test")}
        monkeypatch.setattr(torchvision.datasets.SVHN, "split_list", lists)
    else:
        for split in ("train", "test"):
            monkeypatch.setattr(torchvision.datasets.CIFAR100, f"{split}_list", [[split, sums[split]]])
        meta = torchvision.datasets.CIFAR100.meta | {"md5": sums["meta"]}
        monkeypatch.setattr(torchvision.datasets.CIFAR100, "meta", meta)


def check(name, task):
    found = arrays_of(name)
    mean, std = (torch.tensor(values).reshape(3, 1, 1) for values in MOMENTS[name])
    expected = (torch.from_numpy(found["x_test"]).permute(0, 3, 1, 2) / 255 - mean) / std
    torch.testing.assert_close(task.test.inputs, expected)
    assert task.test.targets.tolist() == found["y_test"].tolist()
    assert sorted(task.train.targets.tolist()) == sorted(found["y_train"].tolist())
    assert task.num_classes == SOURCES[name].classes
    assert task.input_shape == (3, 32, 32)
    assert task.black == pytest.approx((-mean / std).flatten().tolist())


@pytest.fixture(autouse=True)
def fresh():
    folder._load_images.cache_clear()
    yield
    folder._load_images.cache_clear()


@pytest.mark.parametrize("name", NEW)
def test_npz(name, tmp_path):
    assert name in list_tasks()
    assert task_entry(name).classes == SOURCES[name].classes
    np.savez(tmp_path / f"{name}.npz", **arrays_of(name))
    assert find_data(tmp_path) == dict.fromkeys(SOURCES, "missing") | {name: "npz"}
    task = load_task(name, tmp_path, train_size=2 * SOURCES[name].classes)
    assert task.source == "unofficial"
    check(name, task)
    half = load_task(name, tmp_path, train_size=SOURCES[name].classes, label_noise=0.5, seed=1)
    assert torch.bincount(half.train.targets).sum() == SOURCES[name].classes
    clean = load_task(name, tmp_path, train_size=SOURCES[name].classes, seed=1)
    assert int((half.train.targets != clean.train.targets).sum()) == SOURCES[name].classes // 2
    assert int(half.train.targets.max()) < SOURCES[name].classes


@pytest.mark.parametrize("name", NEW)
def test_torchvisions_layout(name, tmp_path, monkeypatch):
    write_files(name, tmp_path)
    publish(name, tmp_path, monkeypatch)
    assert find_data(tmp_path)[name] == "torchvision"
    task = load_task(name, tmp_path, train_size=2 * SOURCES[name].classes)
    assert task.source == "official"
    check(name, task)
    other = tmp_path / "other"
    other.mkdir()
    np.savez(other / f"{name}.npz", **arrays_of(name))
    assert load_task(name, other, train_size=2 * SOURCES[name].classes).fingerprint == task.fingerprint


@pytest.mark.parametrize("name", NEW)
def test_other_bytes_are_corrupt_and_a_missing_file_is_named(name, tmp_path):
    write_files(name, tmp_path)
    first, second = (file for file, _ in SOURCES[name].files[:2])
    with pytest.raises(TaskError, match=rf"is corrupt: .*{first} has md5") as told:
        load_task(name, tmp_path)
    assert f"gapbench fetch {name}" in str(told.value)
    (tmp_path / SOURCES[name].folder / second).unlink()
    (tmp_path / SOURCES[name].folder / first).unlink()
    (tmp_path / SOURCES[name].folder / second).write_bytes(b"x")
    with pytest.raises(TaskError, match=rf"incomplete: the file .*{first} is missing"):
        load_task(name, tmp_path)


@pytest.mark.parametrize("name", NEW)
def test_missing_data_name_folder_files_and_command(name, tmp_path):
    with pytest.raises(TaskError) as told:
        load_task(name, tmp_path)
    for words in (
        str(tmp_path),
        f"{name}.npz",
        f"gapbench fetch {name} --data {tmp_path}",
        SOURCES[name].layout,
    ):
        assert words in str(told.value)
    assert SOURCES["svhn"].layout == "train_32x32.mat and test_32x32.mat"


@pytest.mark.parametrize(("name", "largest"), [("cifar100", 99), ("svhn", 9)])
def test_classes_that_there_are_not(name, largest, tmp_path):
    np.savez(
        tmp_path / f"{name}.npz",
        **(arrays_of(name) | {"y_test": np.full(largest + 1, largest + 1, np.uint8)}),
    )
    with pytest.raises(TaskError, match=f"one class from 0 to {largest}"):
        load_task(name, tmp_path)


@pytest.mark.parametrize("name", NEW)
def test_fetching_verifies_moves_and_leaves_everything_else_alone(name, tmp_path, monkeypatch):
    made, data = tmp_path / "made", tmp_path / "data"
    made.mkdir()
    data.mkdir()
    (data / "other.txt").write_text("mine")
    write_files(name, made)
    publish(name, made, monkeypatch)
    kind = getattr(torchvision.datasets, SOURCES[name].dataset)
    downloaded = []

    def download(self):
        """What is asked for appears in torchvision's root."""
        from pathlib import Path

        files = [self.filename] if name == "svhn" else [f for f, _ in SOURCES[name].files]
        for file in files:
            target = Path(self.root) / SOURCES[name].folder / file
            target.parent.mkdir(exist_ok=True)
            target.write_bytes((made / SOURCES[name].folder / file).read_bytes())
        downloaded.append(files)

    monkeypatch.setattr(kind, "download", download)
    assert fetch(name, data) == data
    assert len(downloaded) == (2 if name == "svhn" else 1)
    check(name, load_task(name, data, train_size=2 * SOURCES[name].classes))
    fetch(name, data)
    assert len(downloaded) <= 2
    top = {"other.txt", SOURCES[name].folder} if SOURCES[name].folder else {"other.txt"}
    top |= set() if SOURCES[name].folder else {file for file, _ in SOURCES[name].files}
    assert {path.name for path in data.iterdir()} == top


def test_a_failed_download_of_svhn_leaves_the_folder_as_it_was(tmp_path, monkeypatch):
    (tmp_path / "other.txt").write_text("mine")

    def broken(self):
        raise RuntimeError("connection lost")

    monkeypatch.setattr(torchvision.datasets.SVHN, "download", broken)
    with pytest.raises(TaskError, match=r"connection lost.*copy torchvision's train_32x32.mat and test"):
        fetch("svhn", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["other.txt"]
