#!/usr/bin/env bash
# Measures float32, TF32, float16 and bfloat16 products up to 8192³ with PyTorch on this machine's
# NVIDIA GPU, in five minutes at most. Needs Python 3.11+ with torch and NumPy, and this checkout;
# no Snakemake, no network.
#
#     benchmarks/on_gpu.sh                      records under results/, as the workflow keeps them
#     benchmarks/on_gpu.sh --out FOLDER         … under FOLDER/<machine>/, ready to be put in results/
#     OUT=FOLDER benchmarks/on_gpu.sh           … packed: tar xzf FOLDER/<machine>.tar.gz -C results
#     benchmarks/on_gpu.sh --device cpu --quick the same way on the CPU, small, to try it
#     benchmarks/on_gpu.sh --help               all options
#
# PYTHON=/path/to/python chooses the interpreter; otherwise the first on the PATH that has torch.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

for python in ${PYTHON:+"$PYTHON"} python3 python; do
    if "$python" -c 'import sys, importlib.util as found
sys.exit(sys.version_info < (3, 11) or not (found.find_spec("torch") and found.find_spec("numpy")))' \
        2>/dev/null; then
        PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}" exec "$python" -m support.on_gpu "$@"
    fi
    [ -z "${PYTHON:-}" ] || break # a Python that was named is the only one tried
done
echo "on_gpu.sh: ${PYTHON:-python3 on the PATH} is not Python 3.11+ with torch and numpy;" \
    "name one that is: PYTHON=/path/to/python $0" >&2
exit 2
