"""What commands read and write: declared beside each option, checked once before the work.

Every parameter that names a file or a folder carries `Reads` or `Writes` in its annotation; a test
fails for one that carries neither.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, get_type_hints

Target = str | os.PathLike[str]
Named = tuple[str, Target]  # an option and its path


@dataclass(frozen=True)
class Reads:
    """Marks a parameter that names files, a database or a saved fit that are read."""


@dataclass(frozen=True)
class Writes:
    """Marks a parameter that names a file, or a folder of files, that is written.

    Attributes
    ----------
    files
        Returns the names of the files that are written into a folder; None for a single file.
    replaces
        Whether such a folder may be one that is read: a fit is loaded before it is replaced.
    place
        Finds the path in all values of the command; None where nothing is written. By default the
        path is the value of the parameter.
    """

    files: Callable[[], tuple[str, ...]] | None = None
    replaces: bool = False
    place: Callable[[Mapping[str, Any]], Target | None] | None = None


READS = Reads()


def fit_files() -> tuple[str, ...]:
    """Return the names of all files that the folder of a saved fit may hold."""
    from crowdsift.results.store import FILES

    return FILES


def checkpoint_files() -> tuple[str, ...]:
    """Return the name of the file in a folder of --checkpoint."""
    from crowdsift.fitting.start import NAME

    return (NAME,)


_MARKS = (Reads, Writes)


@cache
def declared(command: Callable[..., None]) -> dict[str, Reads | Writes]:
    """Return the marks of a command's parameters by name."""
    hints = get_type_hints(command, include_extras=True)
    marks = {
        name: [each for each in getattr(hint, "__metadata__", ()) if isinstance(each, _MARKS)]
        for name, hint in hints.items()
    }
    return {name: found[0] for name, found in marks.items() if found}


def require_targets(
    command: Callable[..., None], given: Mapping[str, Any], options: Mapping[str, str]
) -> None:
    """Refuse outputs that cannot be written, that are read, or that are written twice.

    Parameters
    ----------
    command
        The function of the command.
    given
        The values of its parameters.
    options
        The name of every parameter on the command line.
    """
    from crowdsift.io.files import read_files, require_file, require_folder, require_separate
    from crowdsift.results.store import require_target

    marks = declared(command)
    read: list[Named] = []
    folders: list[Named] = []
    written: list[Named] = []
    replaced: list[Named] = []
    fits: list[Target] = []
    for name, mark in marks.items():
        if isinstance(mark, Reads):
            for value in _values(given[name]):
                read += [(options[name], path) for path in read_files(value)]
                folders += [(options[name], value)] if os.path.isdir(value) else []
            continue
        path = given[name] if mark.place is None else mark.place(given)
        if path is None:
            continue
        if mark.files is None:
            require_file(path)
            written.append((options[name], path))
            continue
        require_folder(path)
        fits += [path] if mark.files is fit_files else []
        inside = [(options[name], os.path.join(path, each)) for each in mark.files()]
        (replaced if mark.replaces else written).extend(inside)
    if not written and not replaced:
        return
    require_separate(read, [*replaced, *written])
    if folders:
        names = (*fit_files(), *checkpoint_files())
        saved = [(name, os.path.join(path, each)) for name, path in folders for each in names]
        require_separate(saved, written)
    for path in fits:
        require_target(path)


def _values(value: Any) -> Iterator[Target]:
    if value is not None:
        yield from value if isinstance(value, list | tuple) else (value,)
