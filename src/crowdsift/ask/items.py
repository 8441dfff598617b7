"""The items of a study: read from a file, checked, and rendered without active content."""

from collections.abc import Iterable
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from crowdsift.errors import InputError, RequestError
from crowdsift.io.columns import lookup, open_source, refuse_empty, resolve_column

MAX_ITEMS = 5_000
MAX_TEXT = 100_000  # characters of a text
MAX_IMAGE = 10_000_000  # bytes of an image
_IMAGES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}
# Links and images of Markdown are removed: a page of a study sends no request to another host.
_TAGS = {"p", "br", "hr", "em", "strong", "s", "code", "pre", "blockquote", "ul", "ol", "li"}
_TAGS |= {"table", "thead", "tbody", "tr", "th", "td"} | {f"h{level}" for level in range(1, 7)}


class Content(NamedTuple):
    """The content of an item that judges see: one row of the items file; with prompts, one reply."""

    item: str
    prompt: str = ""
    text: str = ""
    markdown: str = ""
    image: bytes | None = None
    media: str = ""


def read_items(path: str) -> list[Content]:
    """Return the items of a study, one for each row of the file."""
    # The file has a column item, and may have text, markdown, image (a file beside it) and prompt. With prompts a row
    # is the reply of an item to a prompt, and only replies to the same prompt are compared. Without text, markdown and
    # image, judges see the name of the item.
    with closing(open_source(path, called="items")) as table:
        item = resolve_column(table, "item", "the items")
        names = ("prompt", "text", "markdown", "image")
        known = {name: own for name in names if (own := lookup(table, table.names, name))}
        refuse_empty(table, table.load([item, *known.values()]), "items")
        found: dict[tuple[str, str], Content] = {}
        for row, values in enumerate(table.rows([item, *known.values()])):
            cells = ["" if value is None else str(value) for value in values]
            fields = dict(zip(("item", *known), cells, strict=True))
            try:
                content = _content(fields, Path(path).resolve().parent)
                if (key := (content.item, content.prompt)) in found:
                    where = " for the same prompt" if content.prompt else ""
                    raise ValueError(f"the item {content.item!r} occurs twice{where}; remove one")
            except ValueError as error:
                raise table.fault(row, item, str(error)) from None
            found[key] = content
    _require_comparable(found, path)
    return list(found.values())


def _content(fields: dict[str, str], folder: Path) -> Content:
    label = fields["item"].strip()
    if not label:
        raise ValueError("empty label of an item")
    for name, value in fields.items():
        if len(value) > MAX_TEXT:
            raise ValueError(f"{name} has {len(value):,} characters; at most {MAX_TEXT:,} are shown")
    texts = {name: fields.get(name, "") for name in ("prompt", "text", "markdown")}
    image, media = _image(fields.get("image", "").strip(), folder)
    if not (image or texts["text"].strip() or texts["markdown"].strip()):
        if any(name in fields for name in ("text", "markdown", "image")):
            raise ValueError(f"the item {label!r} has nothing to show")
        texts["text"] = label
    return Content(label, **texts, image=image, media=media)


def _image(name: str, folder: Path) -> tuple[bytes | None, str]:
    """Return an image and its media type; it must be in the folder of the items file or below."""
    if not name:
        return None, ""
    path = (folder / name).resolve()
    if not path.is_relative_to(folder):
        raise ValueError(f"the image {name!r} is outside the folder of the items file")
    try:
        if path.stat().st_size > MAX_IMAGE:
            raise ValueError(f"the image {name!r} has more than {MAX_IMAGE // 10**6} MB")
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ValueError(f"the image {name!r} cannot be read: {reason}") from None
    media = next((kind for start, kind in _IMAGES.items() if content.startswith(start)), "")
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        media = "image/webp"
    if not media:
        raise ValueError(f"the image {name!r} is neither PNG, JPEG, GIF nor WebP")
    return content, media


def _require_comparable(keys: Iterable[tuple[str, str]], source: str) -> None:
    """Raise an error for items, with their prompts, of which no two can be compared."""
    replies: dict[str, set[str]] = {}
    for item, prompt in keys:
        replies.setdefault(prompt, set()).add(item)
    items = set().union(*replies.values())
    if len(items) < 2:
        raise InputError(f"{len(items)} item; a study compares at least two", source=source)
    if len(items) > MAX_ITEMS:
        raise InputError(f"{len(items):,} items; at most {MAX_ITEMS:,} are possible", source=source)
    alone = next((prompt for prompt, named in replies.items() if len(named) < 2), None)
    if alone is not None:
        fault = f"the prompt {alone[:60]!r} has one reply only; replies are compared by prompt"
        raise InputError(fault, source=source, column="prompt")


@cache
def _markdown() -> Any:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def safe_html(markdown: str) -> str:
    """Return Markdown as HTML with plain formatting only: no links, images or attributes."""
    import nh3

    rendered = _markdown().render(markdown)
    return nh3.clean(rendered, tags=_TAGS, attributes={}, link_rel=None)


def require_packages() -> None:
    """Raise an error if the packages of the extra are missing."""
    from importlib.util import find_spec

    if missing := [name for name in ("starlette", "uvicorn", "nh3", "markdown_it") if find_spec(name) is None]:
        raise RequestError(f"crowdsift ask needs {', '.join(missing)}; pip install 'crowdsift[ask]'")
