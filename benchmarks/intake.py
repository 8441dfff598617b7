"""How fast and how small preferences with long texts are read: `python -m benchmarks.intake`.

Writes TRL rows of about 1 kB a text (three replies a prompt, every pair once), reads them in a process of its own and
prints seconds, CPU seconds and the most memory it held.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

WORDS = ["alpha", "bravo", "the", "of", "model", "\n", "print(x)", '"quoted"', "naïve", "答え"]
READ = """
import resource, sys, time
import crowdsift
started, before = time.perf_counter(), time.process_time()
votes = crowdsift.read(sys.argv[1])
seconds, cpu = time.perf_counter() - started, time.process_time() - before
most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
print(f"{seconds:.1f} s, {cpu:.1f} s of CPU, {most:.2f} GB; {votes.intake}")
"""


def write_preferences(path: Path, rows: int, seed: int = 1) -> None:
    """Preferences whose replies are all different and about 1,000 characters long."""
    draw = random.Random(seed)
    blocks = [" ".join(draw.choices(WORDS, k=60)) for _ in range(2000)]
    with path.open("w", encoding="utf-8") as file:
        for prompt in range(rows // 3 + 1):
            texts = [f"[{prompt}.{j}] {' '.join(draw.choices(blocks, k=3))}"[:1000] for j in range(3)]
            for one, two in ((0, 1), (2, 0), (1, 2)):
                row = {
                    "prompt": f"Prompt {prompt} {blocks[prompt % 2000][:200]}",
                    "chosen": texts[one],
                    "rejected": texts[two],
                    "annotator_id": f"ann_{draw.randrange(5000):04d}",
                }
                file.write(json.dumps(row) + "\n")


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows: int = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trl.jsonl")
        write_preferences(path, rows)
        print(f"{rows:,} rows, {path.stat().st_size / 1e9:.1f} GB")
        for _ in range(3):
            subprocess.run([sys.executable, "-c", READ, str(path)], check=True)


if __name__ == "__main__":
    main()
