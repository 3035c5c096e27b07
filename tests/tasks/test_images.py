import numpy as np
import pytest
import torch

from gapbench_tasks import TaskError, list_tasks, load_task, task_options
from gapbench_tasks.folder import SOURCES, data_folder, fetch, find_data
from gapbench_tasks.loaders.digits_rotations import DIGITS_MEAN, DIGITS_STD


def small_npz(folder, name="cifar10", **changes):
    generator = np.random.default_rng(0)
    shape = SOURCES[name].image_shape
    arrays = {
        "x_train": generator.integers(0, 256, (60, *shape), dtype=np.uint8),
        "y_train": (np.arange(60) % 10).astype(np.uint8),
        "x_test": generator.integers(0, 256, (20, *shape), dtype=np.uint8),
        "y_test": (np.arange(20) % 10).astype(np.uint8),
    }
    arrays |= changes
    np.savez(folder / f"{name}.npz", **{k: v for k, v in arrays.items() if v is not None})
    return arrays


def test_names_and_common_options():
    assert {"cifar10", "digits_rotations", "mnist_rotations", "separable"} <= set(list_tasks())
    assert list_tasks() == sorted(set(list_tasks()))
    for name in list_tasks():
        assert {"train_size", "label_noise", "seed"} <= set(task_options(name))


def test_unknown_task_names_the_near_one():
    with pytest.raises(TaskError, match="Did you mean 'cifar10'"):
        load_task("cifar_10")


class TestCopies:
    def test_one_copy_is_what_was_before(self):
        assert (
            load_task("digits_rotations").fingerprint
            == load_task("digits_rotations", test_copies=1).fingerprint
            == "b38937a43443cbdbbe03953e32bb005177b99b8a9a729b5f5a08305962ea11c6"
        )
        assert load_task("digits_rotations").test_groups is None

    def test_each_image_stands_at_so_many_fixed_angles(self):
        one, three, four = (
            load_task("digits_rotations", train_size=30, seed=2, test_copies=n) for n in (1, 3, 4)
        )
        assert len(three.test) == 3 * 997
        assert torch.equal(three.test.inputs[:997], one.test.inputs)
        assert torch.equal(four.test.inputs[: 3 * 997], three.test.inputs)
        assert torch.equal(three.train.inputs, one.train.inputs)
        assert torch.equal(three.test_groups, torch.arange(997).repeat(3))
        assert torch.equal(three.test.targets, one.test.targets[three.test_groups])
        assert len({one.fingerprint, three.fingerprint, four.fingerprint}) == 3
        again = load_task("digits_rotations", train_size=30, seed=2, test_copies=3)
        assert three.fingerprint == again.fingerprint
        assert three.options["test_copies"] == 3
        # the same images, at other angles: uniform ones
        upright = three.test.upright
        assert torch.equal(upright.images[:997], upright.images[997 : 2 * 997])
        degrees = upright.degrees.reshape(3, 997)
        assert np.abs(np.corrcoef(degrees.numpy())[np.triu_indices(3, 1)]).max() < 0.15
        assert float(degrees.min()) >= 0
        assert float(degrees.max()) < 360
        assert float((degrees.mean(1) - 180).abs().max()) < 5 * 360 / (12 * 997) ** 0.5

    def test_angles_of_the_test_images_are_kept_to(self):
        task = load_task("digits_rotations", test_angles=(10, 20), test_copies=2)
        assert task.shift
        assert float(task.test.upright.degrees.min()) >= 10
        assert float(task.test.upright.degrees.max()) < 20

    def test_mnist_has_them_too(self, tmp_path):
        small_npz(tmp_path, "mnist")
        task = load_task("mnist_rotations", tmp_path, train_size=20, test_copies=2)
        assert len(task.test) == 40
        assert torch.equal(task.test_groups, torch.arange(20).repeat(2))

    def test_none_is_refused(self):
        with pytest.raises(TaskError, match="test_copies = 0"):
            load_task("digits_rotations", test_copies=0)


class TestDigits:
    def test_protocol(self):
        task = load_task("digits_rotations")
        assert (len(task.train), len(task.test)) == (600, 997)
        assert task.input_shape == (1, 8, 8)
        assert task.source == "bundled"
        assert not task.shift

    def test_test_set_is_the_same_for_every_training_size_and_disjoint_from_it(self):
        from sklearn.datasets import load_digits

        small, large = (load_task("digits_rotations", train_size=n, angles=(0, 0)) for n in (100, 800))
        assert torch.equal(small.test.inputs, large.test.inputs)
        pixels = torch.cat([large.train.inputs, large.test.inputs]) * DIGITS_STD[0] + DIGITS_MEAN[0]
        found = sorted((pixels * 16).round().flatten(1).int().numpy().tolist())
        assert found == sorted(load_digits().images.reshape(1797, -1).astype(int).tolist())

    def test_constants_are_those_of_the_data(self):
        from sklearn.datasets import load_digits

        images = load_digits().images / 16
        assert abs(images.mean() - DIGITS_MEAN[0]) < 1e-4
        assert abs(images.std() - DIGITS_STD[0]) < 1e-4

    def test_black_is_a_zero_pixel(self):
        task = load_task("digits_rotations")
        assert task.train.inputs.min().item() == pytest.approx(task.black[0], abs=1e-6)

    def test_another_test_range_is_a_distribution_shift(self):
        assert load_task("digits_rotations", angles=(0, 90), test_angles=(90, 180)).shift
        assert not load_task("digits_rotations", angles=(0, 90)).shift

    def test_angles_stay_with_their_images(self):
        small, large = (load_task("digits_rotations", train_size=n) for n in (50, 51))
        rows = {tuple(x) for x in large.train.inputs.flatten(1).numpy().tolist()}
        assert sum(tuple(x) in rows for x in small.train.inputs.flatten(1).numpy().tolist()) == 50

    @pytest.mark.parametrize("angles", [(10,), (90, 0), ("a", 1), (0, float("inf"))])
    def test_wrong_angles(self, angles):
        with pytest.raises(TaskError, match="angles"):
            load_task("digits_rotations", angles=angles)


class TestFolder:
    def test_missing_data_name_folder_file_and_command(self, tmp_path):
        for name, task in (("cifar10", "cifar10"), ("mnist", "mnist_rotations")):
            with pytest.raises(TaskError) as error:
                load_task(task, tmp_path)
            message = str(error.value)
            assert str(tmp_path) in message
            assert f"{name}.npz" in message
            assert SOURCES[name].folder in message
            assert f"gapbench fetch {name} --data {tmp_path}" in message

    def test_environment_variable_names_the_folder(self, tmp_path, monkeypatch):
        monkeypatch.setenv("GAPBENCH_DATA", str(tmp_path))
        assert data_folder() == tmp_path
        assert data_folder(tmp_path / "other") == tmp_path / "other"

    def test_npz_is_read_and_marked_unofficial(self, tmp_path):
        arrays = small_npz(tmp_path)
        assert find_data(tmp_path) == dict.fromkeys(SOURCES, "missing") | {"cifar10": "npz"}
        task = load_task("cifar10", tmp_path, train_size=60)
        assert task.source == "unofficial"
        mean = torch.tensor([0.4914, 0.4822, 0.4465]).reshape(3, 1, 1)
        std = torch.tensor([0.2470, 0.2435, 0.2616]).reshape(3, 1, 1)
        expected = (torch.from_numpy(arrays["x_test"]).permute(0, 3, 1, 2) / 255 - mean) / std
        torch.testing.assert_close(task.test.inputs, expected)
        assert task.test.targets.tolist() == arrays["y_test"].tolist()

    @pytest.mark.parametrize(
        ("changes", "word"),
        [
            ({"x_test": None}, "lacks the arrays x_test"),
            ({"x_train": np.zeros((60, 32, 32, 3))}, "dtype float64"),
            ({"x_train": np.zeros((60, 28, 28), np.uint8)}, "shape"),
            ({"y_train": np.full(60, 10, np.uint8)}, "y_train"),
            ({"y_train": np.zeros(59, np.uint8)}, "y_train"),
        ],
    )
    def test_unfit_npz(self, tmp_path, changes, word):
        small_npz(tmp_path, **changes)
        with pytest.raises(TaskError, match=word):
            load_task("cifar10", tmp_path, train_size=20)

    def test_truncated_npz_is_corrupt_by_checksum(self, tmp_path):
        small_npz(tmp_path)
        path = tmp_path / "cifar10.npz"
        path.write_bytes(path.read_bytes()[:-1000])
        with pytest.raises(TaskError, match=r"corrupt.*sha256"):
            load_task("cifar10", tmp_path, train_size=20)

    def test_pickles_in_an_npz_are_refused(self, tmp_path):
        np.savez(tmp_path / "mnist.npz", x_train=np.array([{}], dtype=object))
        with pytest.raises(TaskError, match="corrupt"):
            load_task("mnist_rotations", tmp_path)

    def test_corrupt_and_incomplete_torchvision_files(self, tmp_path):
        raw = tmp_path / "MNIST" / "raw"
        raw.mkdir(parents=True)
        (raw / "train-images-idx3-ubyte").write_bytes(b"nothing")
        with pytest.raises(TaskError, match=r"corrupt: .*train-images-idx3-ubyte has md5"):
            load_task("mnist_rotations", tmp_path)
        raw.joinpath("train-images-idx3-ubyte").unlink()
        (raw / "t10k-labels-idx1-ubyte").write_bytes(b"nothing")
        with pytest.raises(TaskError, match=r"incomplete: the file .*train-images-idx3-ubyte is missing"):
            load_task("mnist_rotations", tmp_path)

    def test_a_failed_download_leaves_the_folder_as_it_was(self, tmp_path, monkeypatch):
        import torchvision.datasets

        def broken(root, train, download):
            from pathlib import Path

            (Path(root) / "MNIST" / "raw").mkdir(parents=True)
            (Path(root) / "MNIST" / "raw" / "train-images-idx3-ubyte").write_bytes(b"half")
            raise RuntimeError("connection lost")

        monkeypatch.setattr(torchvision.datasets, "MNIST", broken)
        with pytest.raises(TaskError, match="connection lost"):
            fetch("mnist", tmp_path)
        assert list(tmp_path.iterdir()) == []

    def test_a_download_that_does_not_verify_is_refused(self, tmp_path, monkeypatch):
        import torchvision.datasets

        def wrong(root, train, download):
            from pathlib import Path

            raw = Path(root) / "MNIST" / "raw"
            raw.mkdir(parents=True)
            for file, _ in SOURCES["mnist"].files:
                (raw / file).write_bytes(b"<html>")

        monkeypatch.setattr(torchvision.datasets, "MNIST", wrong)
        with pytest.raises(TaskError, match="corrupt"):
            fetch("mnist", tmp_path)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.oracles
class TestRealData:
    def test_cifar10(self, real_data):
        task = load_task("cifar10", real_data, train_size=500)
        assert task.source == "official"
        assert task.test.inputs.shape == (10_000, 3, 32, 32)
        assert torch.bincount(task.train.targets).tolist() == [50] * 10
        assert torch.bincount(task.test.targets).tolist() == [1000] * 10
        assert task.test.inputs.mean(dim=(0, 2, 3)).abs().max() < 0.02

    def test_mnist_is_rotated_by_one_fixed_angle(self, real_data):
        import torchvision

        from gapbench_base.seeds import named_generator
        from gapbench_tasks.rotation import rotate

        task = load_task("mnist_rotations", real_data, train_size=200, seed=3)
        assert task.source == "official"
        assert len(task.test) == 10_000
        raw = torchvision.datasets.MNIST(str(real_data), train=False).data[:50, None] / 255
        degrees = named_generator("mnist_rotations", "test_angles", 3).uniform(0, 360, 10_000)
        assert degrees.min() >= 0
        assert degrees.max() < 360
        expected = (rotate(raw, torch.from_numpy(degrees[:50])) - 0.1307) / 0.3081
        torch.testing.assert_close(task.test.inputs[:50], expected)

    def test_a_changed_byte_is_found(self, real_data, tmp_path):
        import shutil

        shutil.copytree(real_data / "MNIST", tmp_path / "MNIST")
        path = tmp_path / "MNIST" / "raw" / "t10k-images-idx3-ubyte"
        content = bytearray(path.read_bytes())
        content[5000] ^= 1
        path.write_bytes(bytes(content))
        with pytest.raises(TaskError, match=r"corrupt: .*t10k-images"):
            load_task("mnist_rotations", tmp_path)
