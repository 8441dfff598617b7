"""The public interface in one text, a line per name: `tests/public_api.txt` is what was promised.

``python tools/public_api.py --accept`` writes it again, for changes made on purpose.
"""

from __future__ import annotations

import argparse
import inspect
from pathlib import Path

import crowdsift
from crowdsift.models.base import Model

SNAPSHOT = Path(__file__).resolve().parents[1] / "tests" / "public_api.txt"


def _signature(thing: object) -> str:
    """Names, order, kinds and defaults of the arguments; annotations may change their spelling."""
    try:
        signature = inspect.signature(thing)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""
    plain = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
    return str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))


def _lines(name: str, thing: object) -> list[str]:
    if inspect.ismodule(thing):
        names = getattr(thing, "__all__", [n for n in vars(thing) if not n.startswith("_")])
        return [f"{name}.{each}{_signature(getattr(thing, each))}" for each in sorted(names)]
    if not inspect.isclass(thing):
        return [f"{name}{_signature(thing)}"]
    lines = [f"class {name}{_signature(thing)}"]
    if issubclass(thing, Model):  # its members are for engines and solvers
        return lines
    for member in sorted(set(dir(thing)) - set(dir(Exception))):
        if not member.startswith("_"):
            value = inspect.getattr_static(thing, member)
            value = getattr(value, "__func__", value)
            lines.append(f"{name}.{member}{_signature(value) if callable(value) else ''}")
    return lines


def describe() -> str:
    """Every public name of the package with its arguments."""
    skipped = {"models", "__version__"}  # the models have a line each
    names = [name for name in crowdsift.__all__ if name not in skipped]
    return "\n".join(line for name in names for line in _lines(name, getattr(crowdsift, name))) + "\n"


def main() -> None:
    """Print the interface, or accept it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--accept", action="store_true", help="write tests/public_api.txt")
    if parser.parse_args().accept:
        SNAPSHOT.write_text(describe())
    else:
        print(describe(), end="")


if __name__ == "__main__":
    main()
