"""Amazon Mechanical Turk: the results of a batch, as its page offers them for download.

Rejected assignments are kept: they are votes like others, and what they are worth is for the fit
to say. The intake counts them, and ``--where "AssignmentStatus != 'Rejected'"`` leaves them out.
"""

from crowdsift.io.formats.base import Format

MTURK = Format(
    name="mturk",
    title="results of a Mechanical Turk batch",
    columns={"worker": ("WorkerId",)},
    needs=("left", "right", "winner", "worker"),
    marks=("AssignmentId",),
    unique=("AssignmentId",),
    noted=("AssignmentStatus", "Rejected", "rejected assignments"),
    pairs="Input.",
    words=True,
    answers="Answer.",
)
