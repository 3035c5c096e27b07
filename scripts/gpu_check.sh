#!/usr/bin/env bash
# What a machine with a CUDA card is to show, in one call of at most nine minutes: the tests that run on the
# card, throughput figures, and a short CIFAR-10 population. Works from a bare checkout.
#
#   DATA=folder-with-cifar10.npz OUT=folder-for-results scripts/gpu_check.sh
#
# EXTRA: a folder of further packages, where the machine lacks some (msgspec: pip download, unpacked).
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONPATH=$PWD/benchmark:$PWD/models:$PWD/tasks:$PWD/leaderboard${EXTRA:+:$EXTRA}
out=${OUT:-runs/gpu_check}
mkdir -p "$out"
python -c 'import torch; assert torch.cuda.is_available(), "no CUDA device"; print(torch.__version__, torch.cuda.get_device_name())' | tee "$out/device.txt"
timeout 150 python -m pytest -q -m gpu tests 2>&1 | tail -15 | tee "$out/tests.txt"
timeout 120 python performance/training.py --device cuda 2>&1 | tee "$out/training.txt"
timeout 80 python performance/stacking.py --device cuda --rounds 2 2>&1 | tee "$out/stacking.txt" || true
if [ -n "${DATA:-}" ]; then
    timeout 180 python -m gapbench run scripts/gpu_suite.toml --device cuda --data "$DATA" --out "$out/run" 2>&1 | tee "$out/run.txt" || true
fi
