"""Runs as one HTML page without scripts, which needs no network and no other file; equal runs, equal bytes.

Described in docs/how-to/report.md. Every value goes through ``words.clean`` and the template's escaping. A
Content-Security-Policy allows the browser nothing but the page's own style sheet.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import Any

from envbuild.core.package_data import template_dir
from envbuild.errors import UsageError
from envbuild.reports import curves, distances, facts, outputs, summary
from envbuild.reports.values import LETTERS, Run
from envbuild.reports.words import SHORT, clean, duration, time

MOST = 12
"""Runs on one page."""
_TEMPLATE, _STYLE = "report.html.j2", "report.css"


def render(runs: Sequence[Run]) -> bytes:
    """Render a page about runs, each compared with the first.

    Raises:
        UsageError: no run, or too many for a page.
    """
    if not 1 <= len(runs) <= MOST:
        raise UsageError(f"a report shows 1 to {MOST} runs, found {len(runs)}", "name fewer runs: envbuild report A B")
    import jinja2
    from markupsafe import Markup

    style = template_dir().joinpath(_STYLE).read_text(encoding="utf-8")
    engine = jinja2.Environment(
        loader=jinja2.FileSystemLoader(template_dir()),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    engine.filters["svg"] = Markup  # written by ``chart``, which cleans and escapes
    text = engine.get_template(_TEMPLATE).render(
        **_view(runs),
        style=Markup(style),  # noqa: S704 - the style sheet is envbuild's own
        policy=_policy(style),
    )
    return text.encode()


def _finalize(value: Any) -> Any:
    """Clean each text before it is escaped; markup is the template's own."""
    return clean(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _policy(style: str) -> str:
    """Allow a browser the page's style sheet by its digest and nothing else: https://www.w3.org/TR/CSP3/."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def _view(runs: Sequence[Run]) -> dict[str, Any]:
    """Return what the template shows."""
    figures, undrawn = curves.figures(runs)
    files, more_files = outputs.files(runs)
    reasons = summary.reasons(runs)
    return {
        "runs": [_head(place, run, reasons) for place, run in enumerate(runs)],
        "headline": summary.headline(runs),
        "reasons": reasons,
        "figures": figures,
        "undrawn": undrawn,
        "strips": distances.strips(runs),
        "levels": distances.LEVELS,
        "pairs": [(place, LETTERS[place], run.difference) for place, run in enumerate(runs) if run.difference],
        "files": files,
        "more_files": more_files,
        "deleted": outputs.deleted(runs),
        "facts": facts.tables(runs),
    }


def _head(place: int, run: Run, reasons: Sequence[summary.Reason]) -> dict[str, Any]:
    record = run.record
    return {
        "place": place,
        "letter": LETTERS[place],
        "id": record.id,
        "short": record.id[:SHORT],
        "command": facts.command(record),
        "result": facts.result(record),
        "started": time(record.start),
        "took": duration(record.duration),
        "reason": next((reason for reason in reasons if reason.place == place), None),
    }
