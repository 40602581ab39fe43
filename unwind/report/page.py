"""A report as one page of HTML that needs nothing else: it opens from a file, and loads nothing.

Styles, scripts and data are in the page. Its content security policy allows just these styles and scripts, by their
digests, and no connection. Data is JSON in a script element that does not run: of what HTML reads there, `<` alone
could end it, and JSON has an escape for it. The scripts show names as text, never as markup.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
from importlib.resources import files
from typing import Any

_STYLES = ("page.css",)
_SCRIPTS = ("flamegraph.min.js", "data.js", "table.js", "flames.js", "main.js")


def page_of(document: dict[str, Any]) -> str:
    """Return the page of a report (`unwind.report.document`)."""
    styles = "\n".join(map(_asset, _STYLES))
    scripts = [_asset(name) for name in _SCRIPTS]
    policy = "; ".join(
        [
            "default-src 'none'",
            f"style-src {_digest(styles)}",
            f"script-src {' '.join(map(_digest, scripts))}",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ]
    )
    title = f"{os.path.basename(document['file'])}: merged functions"
    return "".join(
        [
            "<!DOCTYPE html>\n",
            '<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            '<meta name="color-scheme" content="light dark">\n',
            f"<title>{html.escape(_plain(title))}</title>\n<style>{styles}</style>\n</head>\n",
            _asset("body.html"),
            f'<script type="application/json" id="report">{_embedded(document)}</script>\n',
            *[f"<script>{script}</script>\n" for script in scripts],
            "</body>\n</html>\n",
        ]
    )


def _asset(name: str) -> str:
    return (files("unwind.report") / "assets" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """Return what allows a style or script in a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _embedded(document: dict[str, Any]) -> str:
    """Return JSON that can stand in a script element; it is ASCII, so any name can be written."""
    return json.dumps(document, separators=(",", ":")).replace("<", "\\u003c")


def _plain(text: str) -> str:
    """Return a text without what is not UTF-8."""
    return text.encode("utf-8", "replace").decode()
