"""Input and output: votes from files, frames and databases, tables of items and gold, atomic writing."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crowdsift.io.databases import require_table as require_table
    from crowdsift.io.databases import write_tables as write_tables
    from crowdsift.io.files import forget_written as forget_written
    from crowdsift.io.files import is_fit_folder as is_fit_folder
    from crowdsift.io.files import locked as locked
    from crowdsift.io.files import read_files as read_files
    from crowdsift.io.files import replace_file as replace_file
    from crowdsift.io.files import require_file as require_file
    from crowdsift.io.files import require_folder as require_folder
    from crowdsift.io.files import require_separate as require_separate
    from crowdsift.io.files import written as written
    from crowdsift.io.formats.platforms import write_review as write_review
    from crowdsift.io.ingest import read_votes as read_votes
    from crowdsift.io.items import has_items as has_items
    from crowdsift.io.items import read_capacities as read_capacities
    from crowdsift.io.items import read_labels as read_labels
    from crowdsift.io.items import read_pair_queries as read_pair_queries
    from crowdsift.io.items import read_prices as read_prices
    from crowdsift.io.options import ReadOptions as ReadOptions
    from crowdsift.io.sql import masked as masked

# The names that commands use, by module. Each module is loaded on first use (PEP 562).
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


def offered(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package (PEP 562), which loads names from its modules."""
    modules = {name: module for module, names in homes.items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{modules[name]}"), name)

    return load


__getattr__ = offered(__name__, _HOMES)
