#!/bin/bash
# local helper (git-ignored by exclude)
cd /work/wt/core && cmake -S . -B build/core -G Ninja -DCMAKE_BUILD_TYPE=Release -DCROWDSIFT_WERROR=ON -DPython_EXECUTABLE=/work/venv/bin/python -Dnanobind_DIR=$(/work/venv/bin/python -m nanobind --cmake_dir) >/tmp/core_cmake.log 2>&1 && cmake --build build/core 2>&1 | grep -E "error|warning|FAILED|ninja:|note:" -A4 | head -${1:-80}; cp build/core/_core*.so src/crowdsift/ && ls -la src/crowdsift/_core*.so
