"""One report of many studies: Markdown, HTML with the figures inside, and JSON."""

from __future__ import annotations

import base64
import html
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .environment import PACKAGES, environment
from .result import Finding, Study, Verdict

_HEADER = ("what", "ours", "95 %", "paper", "")
_STYLE = """
body { max-width: 62rem; margin: 2rem auto; padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid #ddd; text-align: left; }
td { vertical-align: top; }
img { max-width: 100%; } figure { margin: 1.5rem 0; } figcaption { color: #555; font-size: .9rem; }
.missed, .differs { font-weight: 600; }
"""


@dataclass(frozen=True)
class Spent:
    """Seconds that a study took: in this run, and in earlier ones whose parts it took over."""

    now: float
    before: float


def document(
    studies: Sequence[Study], settings: dict[str, Any], seconds: dict[str, Spent]
) -> dict[str, Any]:
    """Everything as JSON can hold it; ``seconds`` by the name of the study."""
    return {
        "settings": settings,
        "environment": environment(),
        "seconds": {name: asdict(spent) for name, spent in seconds.items()},
        "studies": [study.as_dict() for study in studies],
    }


def write(found: dict[str, Any], out: Path) -> list[Path]:
    """Write the report as JSON, Markdown and HTML into a folder; their paths.

    One of a single study has its name, so that it does not take the place of the whole report.
    """
    stem = "report" if found["settings"]["name"] == "all" else found["settings"]["name"]
    studies = [Study.from_dict(fields) for fields in found["studies"]]
    texts = {
        "json": json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False) + "\n",
        "md": markdown(studies, found),
        "html": page(studies, found, out),
    }
    paths = []
    for end, text in texts.items():
        path = out / f"{stem}.{end}"
        unfinished = path.with_suffix(f".{os.getpid()}")
        unfinished.write_text(text)
        os.replace(unfinished, path)
        paths.append(path)
    return paths


def write_page(found: dict[str, Any], out: Path, path: Path) -> None:
    """Write the report as one Markdown page, its figures into a folder of the same name beside."""
    studies = [Study.from_dict(fields) for fields in found["studies"]]
    folder = path.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    for study in studies:
        for figure in study.figures:
            shutil.copyfile(out / f"{figure.name}.png", folder / f"{figure.name}.png")
    path.write_text(markdown(studies, found, f"{folder.name}/"))


def shown(value: float | str | None) -> str:
    """A number with four digits, text as it is, a dash for nothing."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    if value != 0 and (abs(value) < 1e-3 or abs(value) >= 1e5):
        return f"{value:.1e}"
    return f"{value:.4g}"


def cells(finding: Finding) -> tuple[str, ...]:
    """One row of a table, in the order of the header."""
    interval = ""
    if finding.low is not None and finding.high is not None:
        interval = f"{shown(finding.low)} to {shown(finding.high)}"
    verdict = "" if finding.verdict is Verdict.shown else finding.verdict.value
    note = f"{verdict}: {finding.note}" if verdict and finding.note else verdict or finding.note
    return finding.what, shown(finding.ours), interval, shown(finding.paper), note


def not_run(study: Study) -> str:
    """Why there is nothing to show, in a sentence."""
    return f"{'Failed' if study.failed else 'Not run'}: {study.missing}"


def preamble(found: dict[str, Any]) -> list[str]:
    """How the numbers came about, in sentences."""
    env, settings = found["environment"], found["settings"]
    versions = ", ".join(f"{p} {env[p]}" for p in PACKAGES if env.get(p))
    before = sum(spent["before"] for spent in found["seconds"].values())
    total = before + sum(spent["now"] for spent in found["seconds"].values())
    earlier = f" ({before / 60:.1f} of them in earlier runs, whose parts were taken over)"
    size = "quick" if settings["quick"] else "full"
    return [
        f"`svmemory reproduce {settings['name']} --{size}`, first seed {settings['seed']}, in "
        f"{total / 60:.1f} minutes{earlier if before > 0.0 else ''} on {env['cores']} cores "
        f"({env['machine']}, {env['system']}); Python {env['python']}, {versions}.",
        '"met": as the paper has it (its number lies in our interval), or better, or an aim of '
        'ours that the note names was reached. "differs": not as the paper has it, and the note '
        'says why. "missed": an aim of ours that was not reached. "open": not measured here. '
        "Nothing: measured, and no claim made of it.",
    ]


def markdown(studies: Sequence[Study], found: dict[str, Any], folder: str = "") -> str:
    """The report as Markdown; figures are looked for in ``folder`` beside it."""
    lines = ["# The paper's results, and ours", ""]
    for sentence in preamble(found):
        lines += [sentence, ""]
    for study in studies:
        lines += [f"## {study.title}", "", f"`svmemory reproduce {study.name}`", ""]
        if study.missing:
            lines += [not_run(study), ""]
            continue
        lines += [study.setting, ""]
        if study.findings:
            lines += ["| " + " | ".join(_HEADER) + " |", "|" + "---|" * len(_HEADER)]
            for finding in study.findings:
                row = (c.replace("|", "\\|").replace("\n", " ") for c in cells(finding))
                lines.append("| " + " | ".join(row) + " |")
            lines.append("")
        for note in study.notes:
            lines += [note, ""]
        for figure in study.figures:
            lines += [f"![{figure.caption}]({folder}{figure.name}.png)", "", figure.caption, ""]
    return "\n".join(lines).rstrip() + "\n"


def page(studies: Sequence[Study], found: dict[str, Any], out: Path) -> str:
    """The report as one HTML file that needs no other."""
    body = ["<h1>The paper's results, and ours</h1>"]
    body += [f"<p>{html.escape(sentence)}</p>" for sentence in preamble(found)]
    for study in studies:
        body.append(f'<h2 id="{study.name}">{html.escape(study.title)}</h2>')
        if study.missing:
            body.append(f"<p>{html.escape(not_run(study))}</p>")
            continue
        body.append(f"<p>{html.escape(study.setting)}</p>")
        if study.findings:
            head = "".join(f"<th>{h}</th>" for h in _HEADER)
            rows = "".join(
                f'<tr class="{finding.verdict.value}">'
                + "".join(f"<td>{html.escape(c)}</td>" for c in cells(finding))
                + "</tr>"
                for finding in study.findings
            )
            body.append(f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>")
        body += [f"<p>{html.escape(note)}</p>" for note in study.notes]
        for figure in study.figures:
            picture = base64.b64encode((out / f"{figure.name}.png").read_bytes()).decode()
            caption = html.escape(figure.caption)
            body.append(
                f'<figure><img alt="{caption}" src="data:image/png;base64,{picture}">'
                f"<figcaption>{caption}</figcaption></figure>"
            )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>svmemory: results</title><style>{_STYLE}</style></head><body>"
        + "\n".join(body)
        + "</body></html>\n"
    )
