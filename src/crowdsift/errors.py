"""The errors and warnings of crowdsift.

Every error that a user can cause is a `CrowdsiftError`. Its message says what is wrong, where, and what to do; the
command line prints it without a traceback and exits with status 1.
"""

import re
from contextvars import ContextVar

__all__ = ["ConvergenceWarning", "CrowdsiftError", "InputError", "RequestError", "ResourceError", "SignWarning"]


COMMAND_LINE = ContextVar("COMMAND_LINE", default=False)  # whether messages name options with --
# Options whose argument in Python has another name, and those with the same name.
_RENAMED = {
    "item-features": "items=",
    "no-workers": "workers=False",
    "no-sides": "sides=False",
    "time": "time_column=",
    "set": "method=",
}
_SAME = (
    *("again", "anchor", "by", "classes", "columns", "covariates", "dependent-by", "dimensions"),
    *("encoding", "engine", "format", "gold", "hide-workers", "item-features-missing", "item-text"),
    *("level", "memory", "method", "partitions", "pooling", "query", "scale", "seed", "sides"),
    *("skip-bad", "start", "style-control", "threads", "trusted", "tune", "unique", "values"),
    *("where", "worker-columns", "worker-from-path"),
)


class CrowdsiftError(Exception):
    """Base class of the errors that a user can cause.

    Examples
    --------
    >>> import crowdsift
    >>> try:
    ...     crowdsift.fit("no-such-file.csv")
    ... except crowdsift.CrowdsiftError as error:
    ...     print(error)
    no-such-file.csv: no such file...
    """

    def __str__(self) -> str:
        """Return the message; in Python with the arguments that correspond to the options it names."""
        text = super().__str__()
        if COMMAND_LINE.get():
            return text
        known = {**{name: f"{name.replace('-', '_')}=" for name in _SAME}, **_RENAMED}
        found = dict.fromkeys(known[n] for n in re.findall(r"--([a-z-]+)", text) if n in known)
        lacking = [each for each in found if each.partition("=")[0] + "=" not in text]
        return f"{text} (in Python: {', '.join(lacking)})" if lacking else text


class InputError(CrowdsiftError):
    """The votes (or the truth, or another input file) cannot be used as they are.

    Parameters
    ----------
    message
        What is wrong and what to do.
    source
        The file (or frame) in which it was found.
    row
        The row of data, counted from 1, the header not counted.
    column
        The column's name.

    Examples
    --------
    >>> from crowdsift import InputError
    >>> print(InputError("empty label", source="votes.csv", row=17, column="winner"))
    votes.csv, row 17, column 'winner': empty label
    """

    def __init__(
        self, message: str, *, source: str | None = None, row: int | None = None, column: str | None = None
    ) -> None:
        self.source, self.row, self.column = source, row, column
        place = [source] if source else []
        if row is not None:
            place.append(f"row {row}")
        if column is not None:
            place.append(f"column {column!r}")
        super().__init__(f"{', '.join(place)}: {message}" if place else message)


class RequestError(CrowdsiftError):
    """A request that cannot be fulfilled: an unknown method, or an option that does not apply.

    Examples
    --------
    >>> import crowdsift
    >>> crowdsift.model("elo")
    Traceback (most recent call last):
    ...
    crowdsift.errors.RequestError: unknown method 'elo'; the methods are ...
    """


class ResourceError(CrowdsiftError):
    """The work needs more memory or disk than is available; raised before it starts if possible.

    Examples
    --------
    >>> import crowdsift
    >>> issubclass(crowdsift.ResourceError, crowdsift.CrowdsiftError)
    True
    """


class ConvergenceWarning(UserWarning):
    """A fit stopped at its iteration limit; its result says `converged` False.

    Examples
    --------
    >>> import crowdsift
    >>> issubclass(crowdsift.ConvergenceWarning, UserWarning)
    True
    """


class SignWarning(UserWarning):
    """The votes do not determine which end of the scores is the top; gold pairs would.

    Examples
    --------
    >>> import crowdsift
    >>> issubclass(crowdsift.SignWarning, UserWarning)
    True
    """
