"""What is collected: modules of optional libraries only where those are installed."""

from __future__ import annotations

import os
from importlib.util import find_spec

# Without a GPU Triton's kernels run in its interpreter; it asks when they are defined.
os.environ.setdefault("TRITON_INTERPRET", "1")
collect_ignore_glob = []
if find_spec("torch") is None:
    collect_ignore_glob.append("src/crowdsift/engines/torch/[!_]*.py")
if find_spec("triton") is None:
    collect_ignore_glob.append("src/crowdsift/engines/torch/triton_*.py")
