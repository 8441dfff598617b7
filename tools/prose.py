"""Check the prose of documentation, docstrings and messages: length of sentences and pages, words.

``python -m tools.prose`` prints every finding with its place and exits with 1 if there is one. `make lint` and
tests/test_prose.py run it. A line of EXCEPTIONS is a piece of text that may stay.
"""

from __future__ import annotations

import ast
import inspect
import io
import json
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAX_SENTENCE_WORDS = 40
MAX_PAGE_WORDS = 1200
MAX_README_WORDS = 700
# Words and turns that readers stumbled over; the pattern says what to avoid, the text what to do.
DIALECT = {
    r"so many": "give the number, or write 'many'",
    r"of (?:its|their|his|one's) own": "write 'own', 'separate' or 'for each'",
    r"told|tells of": "write 'given', 'known' or 'shows'",
    r"nobody|whatever|with whose|wherefore|lest|thereof|hereof": "use a plain word",
    r"what (?:\w+ ){1,3}(?:is|are) of": "name the thing",
    r"where (?:it|they) (?:is|are) many": "write 'if there are many'",
    r"leave (?:--?)?[a-z -]{1,30} away": "write 'omit'",
    r"hangs? on|is there twice|grain of salt": "write 'depends on', 'occurs twice' or what to do",
    r"(?:votes?|bytes|rows?|comparisons?|seconds) an? (?:worker|item|vote|comparison|shard|island)": "write 'per'",
    r"at hand|of late|taken apart|go on from there": "write 'present', 'recent', 'split' or 'continue'",
    r"as ever|anew|doubled rows|is said|are said": "write 'as before', 'again', 'stated'",
}
EXCEPTIONS = (
    'fit = crowdsift.fit("votes.csv")',  # code
    "items only won: ",  # a list that a program writes
)

_WORDS = re.compile("|".join(rf"\b(?:{each})\b" for each in DIALECT), re.IGNORECASE)
# Numbers and symbols of formulas do not count.
_WORD = re.compile(r"(?<!\w)(?:[A-Za-z][a-z][\w'’-]*|[A-Z]{2,}|[aA])(?!\w)")
_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[A-Zα-ωΑ-Ω`*\[\"'(0-9.−])")


def plain(markdown: str) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of every paragraph, list item and table cell, without code and markup."""
    text = re.sub(r"<!--.*?-->", lambda found: "\n" * found[0].count("\n"), markdown, flags=re.S)
    text = re.sub(r"(?ms)^ *```.*?^ *```", lambda found: "\n" * found[0].count("\n"), text)
    block: list[str] = []
    start = 0
    for number, line in enumerate([*text.split("\n"), ""], 1):
        row = line.strip()
        new = not row or row.startswith(("|", "#", "!")) or re.match(r"([-*>]|\d+\.) ", row)
        if (new or line.startswith("    ")) and block:
            yield start, " ".join(block)
            block = []
        if row.startswith("|"):
            yield from ((number, cell) for cell in re.split(r"(?<!\\)\|", row) if cell.strip())
        elif row and not line.startswith("    ") and not row.startswith(("#", "!")):
            start = start if block else number
            block.append(row)


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a paragraph; links and code count as they are read."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", lambda found: "_".join(found[0].split()), text)
    text = re.sub(r"\b(e\.g|i\.e|vs|cf|al|etc)\.", r"\1", text)
    parts = (
        part for each in _END.split(text) for part in re.split(r"; (?=`[\w, `]+`:? )", each)
    )  # a list of attributes
    yield from (each for each in parts if each.strip())


def faults(text: str) -> Iterator[str]:
    """Yield what is wrong with a paragraph."""
    for sentence in sentences(text):
        if any(each in sentence for each in EXCEPTIONS):
            continue
        length = len(_WORD.findall(sentence))
        if length > MAX_SENTENCE_WORDS:
            yield f"{length} words in a sentence: {sentence[:90]}..."
        for found in _WORDS.finditer(re.sub(r"`[^`]*`", "", sentence)):
            yield f"'{found[0]}': {sentence[:110]}"


def paragraphs(docstring: str) -> Iterator[str]:
    """Yield the paragraphs, list items and descriptions of parameters of a docstring or comment, without examples."""
    block: list[str] = []
    depth, example = 0, False
    for line in [*inspect.cleandoc(docstring).split("\n"), ""]:
        row, indent = line.strip(), len(line) - len(line.lstrip())
        new = not row or re.match(r"[-*] ", row) or indent < depth or indent >= depth + 4
        if new and block:
            yield " ".join(block)
            block = []
        example = bool(row) and (example or row.startswith(">>>"))
        if re.fullmatch(r"-+", row):
            block = []
        elif row and not example:
            block.append(row.removeprefix("- "))
            depth = indent + 2 if re.match(r"[-*] ", row) else indent


def python_texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of docstrings, comments and messages; these are other strings of five words or more."""
    tree = ast.parse(source)
    inner = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    inner |= {node.body[0].value for node in ast.walk(tree) if isinstance(node, documented) and ast.get_docstring(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inner:
            text = node.value
        else:
            text = ""
        if len(text.split()) >= 5 and not re.match(r"\s*(SELECT|WITH|CREATE|COPY|<|[.#]?[\w-]+ *\{)", text):
            yield from ((node.lineno, " ".join(each.split())) for each in re.split(r"\n\s*\n", text) if "{" not in each)
        if isinstance(node, documented) and (docstring := ast.get_docstring(node)):
            yield from ((node.body[0].lineno, each) for each in paragraphs(docstring))
    yield from comments(source)


def comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of comments; those on consecutive lines are one text."""
    block: list[str] = []
    start = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not re.match(r"# ?(noqa|type:|fmt:|pragma|!)", token.string):
            if token.start[0] != last + 1 or token.line[: token.start[1]].strip():
                yield from ((start, each) for each in paragraphs("\n".join(block)))
                block, start = [], token.start[0]
            block.append(token.string.removeprefix("#"))
            last = 0 if token.line[: token.start[1]].strip() else token.start[0]
    yield from ((start, each) for each in paragraphs("\n".join(block)))


def template_texts(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of the elements of a page, and of the texts in its expressions."""
    for number, line in enumerate(text.split("\n"), 1):
        yield from (
            (number, each) for each in re.findall(r'"([^"]* [^"]* [^"]*)"', " ".join(re.findall(r"{{.*?}}", line)))
        )
        for part in re.split(r"<[^>]*>|{%.*?%}", re.sub(r"{{.*?}}", "x", line)):
            yield number, part


def notebook_texts(text: str) -> Iterator[tuple[int, str]]:
    """Yield (number of the cell, text) of the Markdown cells of a notebook."""
    for number, cell in enumerate(json.loads(text)["cells"], 1):
        if cell["cell_type"] == "markdown":
            yield from ((number, each) for _, each in plain("".join(cell["source"])))


def check(path: Path) -> Iterator[str]:
    """Yield every finding in a file as place and reason."""
    text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT)
    found = {".py": python_texts, ".html": template_texts, ".ipynb": notebook_texts}.get(path.suffix, plain)(text)
    for line, paragraph in found:
        yield from (f"{name}:{line}: {fault}" for fault in faults(paragraph))
    limit = MAX_README_WORDS if str(name) == "README.md" else MAX_PAGE_WORDS
    page = str(name) == "README.md" or str(name).startswith("docs")
    if page and path.suffix == ".md" and path.parent.name != "research" and len(text.split()) > limit:
        yield f"{name}: {len(text.split())} words, at most {limit} are allowed"


def checked() -> list[Path]:
    """Return the pages and source files that must pass."""
    folders = ("*.md", "docs/**/*.md", "docs/*.py", "docs/**/*.ipynb", "examples/*", "src/**/*.py", "src/**/*.html")
    return [path for folder in folders for path in sorted(ROOT.glob(folder)) if path.suffix]


def main() -> None:
    """Print every finding; fail if there is one."""
    result = [fault for page in checked() for fault in check(page)]
    print("\n".join(result))
    sys.exit(bool(result))


if __name__ == "__main__":
    main()
