"""Votes in, results out: files, data frames, labels of other sources, whole-or-nothing writing."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crowdsift.io.databases import require_table, write_tables
    from crowdsift.io.files import (
        forget_written,
        is_fit_folder,
        locked,
        read_files,
        replace_file,
        require_file,
        require_folder,
        require_separate,
        written,
    )
    from crowdsift.io.formats.platforms import write_review
    from crowdsift.io.ingest import read_votes
    from crowdsift.io.items import has_items, read_capacities, read_labels, read_pair_queries, read_prices
    from crowdsift.io.options import ReadOptions
    from crowdsift.io.sql import masked

# The names that commands use, by module. Each is loaded on first use (PEP 562).
_HOMES = {
    "databases": "require_table write_tables",
    "files": "forget_written is_fit_folder locked read_files replace_file require_file require_folder "
    "require_separate written",
    "formats.platforms": "write_review",
    "ingest": "read_votes",
    "items": "has_items read_capacities read_labels read_pair_queries read_prices",
    "options": "ReadOptions",
    "sql": "masked",
}
__all__ = [
    "ReadOptions",
    "forget_written",
    "has_items",
    "is_fit_folder",
    "locked",
    "masked",
    "offered",
    "read_capacities",
    "read_files",
    "read_labels",
    "read_pair_queries",
    "read_prices",
    "read_votes",
    "replace_file",
    "require_file",
    "require_folder",
    "require_separate",
    "require_table",
    "write_review",
    "write_tables",
    "written",
]


def offered(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package (PEP 562) that loads names from its modules."""
    modules = {name: module for module, names in homes.items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{modules[name]}"), name)

    return load


__getattr__ = offered(__name__, _HOMES)
