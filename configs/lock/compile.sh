#!/usr/bin/env bash
# Renew the hashed locks from pyproject.toml: bash configs/lock/compile.sh (needs uv on PATH).
set -euo pipefail
cd "$(dirname "$0")/../.."
lock() {
  uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-annotate --no-header \
    --python-version 3.11 "${source:-pyproject.toml}" "$@"
}
lock --group build -o configs/lock/runtime.txt
lock --group dev -c configs/lock/runtime.txt -o configs/lock/dev.txt
# Each extra with what the server itself needs, at the releases of the others.
for extra in cluster cuda ja mcp otel play watermark zh; do
  lock --extra "$extra" -c configs/lock/dev.txt -o "configs/lock/extra-$extra.txt"
done
# What only the tests of several replicas need.
source=- lock -c configs/lock/dev.txt -o configs/lock/cluster.txt <<< "psutil>=7.2"
# What only `make docs` needs.
source=- lock -o configs/lock/docs.txt <<< "mkdocs-material>=9.6"
