"""Find, verify and fetch CIFAR-10, CIFAR-100, MNIST and SVHN in a data folder.

Two layouts are read: torchvision's own (what `gapbench fetch` writes), checked file by file against the
published md5 sums, and a single `cifar10.npz`, `cifar100.npz`, `mnist.npz` or `svhn.npz` (x_train, y_train, x_test,
y_test as uint8) for machines without internet. An npz whose content is not known to be the official set is used,
but marked `unofficial`.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gapbench_base.errors import TaskError
from gapbench_tasks.task import fingerprint

Array = NDArray[np.uint8]


@dataclass(frozen=True)
class PublishedSet:
    """What is known of a published data set.

    Attributes:
        title: its name.
        image_shape: of one image.
        fingerprint: of the official arrays; None where it is not known, so that no npz can be told to be official.
        folder: where torchvision puts it, below the data folder; empty for the data folder itself.
        files: (path below the folder, md5) of each file.
        npz: the file of the other layout.
        dataset: torchvision's class.
        classes: how many there are.
        splits: what torchvision's class takes for the training and for the test set.
        whole: whether downloading one split downloads both.
    """

    title: str
    image_shape: tuple[int, ...]
    fingerprint: str | None
    folder: str
    files: tuple[tuple[str, str], ...]
    npz: str
    dataset: str
    classes: int = 10
    splits: tuple[tuple[str, object], tuple[str, object]] = (("train", True), ("train", False))
    whole: bool = True

    @property
    def layout(self) -> str:
        """Torchvision's layout below the data folder, in words."""
        return f"{self.folder}/" if self.folder else " and ".join(file for file, _ in self.files)

    def place(self, folder: Path) -> str:
        """What is to be removed of a data folder to be rid of torchvision's files, in words."""
        if self.folder:
            return str(folder / self.folder)
        return " and ".join(str(folder / file) for file, _ in self.files)


SOURCES = {
    "cifar10": PublishedSet(
        title="CIFAR-10",
        image_shape=(32, 32, 3),
        fingerprint="ec08e12f9a0b14f2ed9153b4070e5bfe792fc81357826743c6532e03df546bf6",
        folder="cifar-10-batches-py",
        files=(
            ("data_batch_1", "c99cafc152244af753f735de768cd75f"),
            ("data_batch_2", "d4bba439e000b95fd0a9bffe97cbabec"),
            ("data_batch_3", "54ebc095f3ab1f0389bbae665268c751"),
            ("data_batch_4", "634d18415352ddfa80567beed471001a"),
            ("data_batch_5", "482c414d41f54cd18b22e5b47cb7c3cb"),
            ("test_batch", "40351d587109b95175f43aff81a1287e"),
            ("batches.meta", "5ff9c542aee3614f3951f8cda6e48888"),
        ),
        npz="cifar10.npz",
        dataset="CIFAR10",
    ),
    "cifar100": PublishedSet(
        title="CIFAR-100",
        image_shape=(32, 32, 3),
        fingerprint=None,
        folder="cifar-100-python",
        files=(
            ("train", "16019d7e3df5f24257cddd939b257f8d"),
            ("test", "f0ef6b0ae62326f3e7ffdfab6717acfc"),
            ("meta", "7973b15100ade9c7d40fb424638fde48"),
        ),
        npz="cifar100.npz",
        dataset="CIFAR100",
        classes=100,
    ),
    "mnist": PublishedSet(
        title="MNIST",
        image_shape=(28, 28),
        fingerprint="bd930a59a860c3d5915c6d67631a728a21bc7c535055bac61f9487e95b28eaa5",
        folder="MNIST/raw",
        files=(
            ("train-images-idx3-ubyte", "6bbc9ace898e44ae57da46a324031adb"),
            ("train-labels-idx1-ubyte", "a25bea736e30d166cdddb491f175f624"),
            ("t10k-images-idx3-ubyte", "2646ac647ad5339dbf082846283269ea"),
            ("t10k-labels-idx1-ubyte", "27ae3e4e09519cfbb04c329615203637"),
        ),
        npz="mnist.npz",
        dataset="MNIST",
    ),
    "svhn": PublishedSet(
        title="SVHN",
        image_shape=(32, 32, 3),
        fingerprint=None,
        folder="",
        files=(
            ("train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373"),
            ("test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3"),
        ),
        npz="svhn.npz",
        dataset="SVHN",
        splits=(("split", "train"), ("split", "test")),
        whole=False,
    ),
}


@dataclass(frozen=True)
class RawImages:
    """A data set as uint8 arrays, and whether it is the official one."""

    x_train: Array
    y_train: Array
    x_test: Array
    y_test: Array
    official: bool


def data_folder(data_dir: str | os.PathLike[str] | None = None) -> Path:
    """The folder asked for, else the environment variable GAPBENCH_DATA, else ~/.cache/gapbench/data."""
    chosen = data_dir or os.environ.get("GAPBENCH_DATA") or Path.home() / ".cache" / "gapbench" / "data"
    return Path(chosen).expanduser().absolute()


def find_data(data_dir: str | os.PathLike[str] | None = None) -> dict[str, str]:
    """What each set would be read from: `torchvision`, `npz` or `missing`. Nothing is verified here."""
    folder = data_folder(data_dir)
    found = {}
    for name, source in SOURCES.items():
        present = [(folder / source.folder / file).exists() for file, _ in source.files]
        if any(present):
            found[name] = "torchvision"
        else:
            found[name] = "npz" if (folder / source.npz).exists() else "missing"
    return found


def load_images(name: str, data_dir: str | os.PathLike[str] | None = None) -> RawImages:
    """Read and verify one set. Raises `TaskError` if it is missing or corrupt."""
    return _load_images(name, str(data_folder(data_dir)))


@functools.lru_cache(maxsize=2)
def _load_images(name: str, folder_name: str) -> RawImages:
    source, folder = SOURCES[name], Path(folder_name)
    if any((folder / source.folder / file).exists() for file, _ in source.files):
        arrays = _read_torchvision(name, source, folder)
        official = source.fingerprint in (None, fingerprint(**arrays))  # every md5 is the published one
        return RawImages(**arrays, official=official)
    if (folder / source.npz).exists():
        arrays = _read_npz(source, folder / source.npz)
    else:
        if not folder.is_dir():
            raise TaskError(
                f"{source.title} was not found: there is no folder {folder}. Name the one that has it with --data "
                f"FOLDER or the environment variable GAPBENCH_DATA, or fetch it with\n"
                f"    gapbench fetch {name} --data {folder}"
            )
        raise TaskError(
            f"{source.title} was not found: looked in the folder {folder} for {source.layout} "
            f"(torchvision's layout) and for {source.npz}. Fetch it with\n"
            f"    gapbench fetch {name} --data {folder}\n"
            "or name the folder that has it with --data FOLDER or the environment variable GAPBENCH_DATA."
        )
    return RawImages(**arrays, official=fingerprint(**arrays) == source.fingerprint)


def _read_torchvision(name: str, source: PublishedSet, folder: Path) -> dict[str, Array]:
    for file, expected in source.files:
        path = folder / source.folder / file
        if not path.exists():
            raise TaskError(
                f"{source.title} is incomplete: the file {path} is missing. Remove {source.place(folder)} "
                f"and fetch it again with\n    gapbench fetch {name} --data {folder}"
            )
        with path.open("rb") as stream:
            found = hashlib.file_digest(stream, "md5").hexdigest()
        if found != expected:
            raise TaskError(
                f"{source.title} is corrupt: {path} has md5 {found}, the published file has {expected}. "
                f"Remove {source.place(folder)} and fetch it again with\n"
                f"    gapbench fetch {name} --data {folder}"
            )
    arrays: dict[str, Array] = {}
    for (option, value), suffix in zip(source.splits, ("train", "test")):
        data = _torchvision_class(source)(str(folder), **{option: value}, download=False)
        images = np.asarray(data.data, dtype=np.uint8)
        if images.shape[1:] != source.image_shape:  # SVHN's have the channels first
            images = np.ascontiguousarray(images.transpose(0, 2, 3, 1))
        arrays[f"x_{suffix}"] = images
        targets = data.targets if hasattr(data, "targets") else data.labels
        arrays[f"y_{suffix}"] = np.asarray(targets, dtype=np.uint8)
    return arrays


def _torchvision_class(source: PublishedSet) -> Any:
    import torchvision.datasets

    return getattr(torchvision.datasets, source.dataset)


def _read_npz(source: PublishedSet, path: Path) -> dict[str, Array]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays: dict[str, Any] = {key: archive[key] for key in archive.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise TaskError(
            f"{path} is corrupt or no npz file ({error}). Its sha256 is {_sha256(path)}; copy it again from "
            "where it came from."
        ) from error
    wanted = {"x_train", "y_train", "x_test", "y_test"}
    if not wanted <= set(arrays):
        raise TaskError(f"{path} lacks the arrays {', '.join(sorted(wanted - set(arrays)))}.")
    for suffix in ("train", "test"):
        x, y = arrays[f"x_{suffix}"], arrays[f"y_{suffix}"]
        if x.dtype != np.uint8 or x.shape[1:] != source.image_shape:
            raise TaskError(
                f"{path}: x_{suffix} has dtype {x.dtype} and shape {x.shape}, expected uint8 and "
                f"(n, {', '.join(map(str, source.image_shape))})."
            )
        if y.dtype != np.uint8 or y.shape != (len(x),) or len(y) == 0 or y.max() >= source.classes:
            raise TaskError(
                f"{path}: y_{suffix} must be uint8, one class from 0 to {source.classes - 1} for each of "
                f"the {len(x)} images of x_{suffix}; it has dtype {y.dtype} and shape {y.shape}."
            )
    return {key: arrays[key] for key in sorted(wanted)}


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def fetch(name: str, data_dir: str | os.PathLike[str] | None = None) -> Path:
    """Download a set with torchvision, verify it, and move it into the data folder, in one step if in a folder.

    Does nothing if the set is there and sound.

    Returns:
        The data folder.

    Raises:
        TaskError: the download fails or does not verify; the data folder is then as it was.
    """
    if name not in SOURCES:
        raise TaskError(f"No data set {name!r} to fetch; there are: {', '.join(SOURCES)}.")
    source, folder = SOURCES[name], data_folder(data_dir)
    if find_data(folder)[name] == "torchvision":
        _read_torchvision(name, source, folder)
        return folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as partial:
            for option, value in source.splits[:1] if source.whole else source.splits:
                _torchvision_class(source)(partial, **{option: value}, download=True)
            _read_torchvision(name, source, Path(partial))
            _move(source, Path(partial), folder)
    except TaskError:
        raise
    except (OSError, RuntimeError) as error:
        raise TaskError(
            f"{source.title} could not be downloaded into {folder}: {error}. On a machine without internet, "
            f"copy torchvision's {source.layout} or a file {source.npz} there."
        ) from error
    return folder


def _move(source: PublishedSet, partial: Path, folder: Path) -> None:
    if not source.folder:  # never the data folder itself
        for file, _ in source.files:
            os.replace(partial / file, folder / file)
        return
    target = folder / source.folder
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(target, ignore_errors=True)
    os.replace(partial / source.folder, target)
