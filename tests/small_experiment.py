"""An experiment of a second, to be run in processes of its own and killed."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

from crowdsift.paper import Options
from crowdsift.paper.runner import perform
from crowdsift.paper.synthetic import Synthetic


class Small(Synthetic):
    """The six sweeps with tiny crowds."""

    def points(self, sweep):
        return ((8, 6, 100), (8, 6, 150))

    def methods(self, setting):
        return ("bt", "bora-em", "sift")

    def run(self, setting, methods):
        records = super().run(setting, methods)
        for record in records:
            record["note"] = os.environ.get("OPENBLAS_NUM_THREADS", "unset")
        return records

    def page(self, records):
        page = super().page(records)
        figure = replace(page.figures[0], panels=page.figures[0].panels[:1], columns=1)
        return replace(page, figures=[figure])


class Slow(Small):
    """The same, where a setting takes a twentieth of a second at least: time to be killed in."""

    def run(self, setting, methods):
        time.sleep(0.05)
        return super().run(setting, methods)


class Fatal(Small):
    """A setting takes its process with it."""

    def run(self, setting, methods):
        os._exit(9)


if __name__ == "__main__":
    perform(Slow(Options(seeds=2)), Path(sys.argv[1]), jobs=2)
