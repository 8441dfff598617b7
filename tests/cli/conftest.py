"""What tests of commands share."""

from __future__ import annotations

import sys

import pytest

from crowdsift import cli


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command line in this process: exit status, output, errors."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["crowdsift", *map(str, arguments)])
        try:
            cli.main()
            status = 0
        except SystemExit as stop:
            status = stop.code or 0
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call
