#!/usr/bin/env bash
# What a machine with a CUDA card is to show, in one call of at most ten minutes: the tests that run on the
# card, throughput figures, and a short CIFAR-10 population. Works from a bare checkout.
#
#   DATA=folder-with-cifar10.npz OUT=folder-for-results scripts/gpu_check.sh
#
# EXTRA: a folder of further packages, where the machine lacks some (msgspec: pip download, unpacked).
# DEVICE=cpu: the same steps at a stand-in size, to see that the script works; its figures are none of a GPU.
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONPATH=$PWD/benchmark:$PWD/models:$PWD/tasks:$PWD/leaderboard${EXTRA:+:$EXTRA}
out=${OUT:-runs/gpu_check}
device=${DEVICE:-cuda}
mkdir -p "$out"
if [ "$device" = cuda ]; then
    python -c 'import torch; assert torch.cuda.is_available(), "no CUDA device"; print(torch.__version__, torch.cuda.get_device_name())' | tee "$out/device.txt"
    steps=20 rounds=2 small=() few=() only=()
else
    python -c 'import torch; print(torch.__version__, "CPU, a stand-in")' | tee "$out/device.txt"
    steps=3 rounds=1 small=(--size 16) few=(--limit 3) only=(--only 'MLP-32, 8')
fi
timeout 120 python -m pytest -q -m gpu tests 2>&1 | tail -15 | tee "$out/tests.txt"
timeout 60 python performance/training.py --device "$device" --steps "$steps" "${small[@]}" 2>&1 | tee "$out/training.txt"
timeout 60 python performance/stacking.py --device "$device" --rounds "$rounds" "${only[@]}" 2>&1 | tee "$out/stacking.txt" || true
if [ -n "${DATA:-}" ]; then
    timeout 190 python -m gapbench run scripts/gpu_population.toml --device "$device" "${few[@]}" --data "$DATA" --out "$out/population" 2>&1 | tee "$out/population.txt" || true
    # The plain loop beside it, on as many networks of every width.
    timeout 80 python -m gapbench run scripts/gpu_population.toml --device "$device" --stacks off --limit 4 --data "$DATA" --out "$out/plain" 2>&1 | tee "$out/plain.txt" || true
    timeout 50 python -m gapbench run scripts/gpu_suite.toml --device "$device" "${few[@]}" --data "$DATA" --out "$out/run" 2>&1 | tee "$out/run.txt" || true
fi
