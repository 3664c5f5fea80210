"""`rocketline store`: look at the files of a broker that does not run, and mend them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

import click

from rocketline.cli.shared.arguments import examples
from rocketline.cli.shared.output import Output, duration, output_options, size

if TYPE_CHECKING:
    from rocketline.store.config import StoreConfig
    from rocketline.store.inspection.check import CheckReport
    from rocketline.store.inspection.findings import Finding

Result = TypeVar("Result")

_REFUSED = 2
"""The status if nothing was looked at."""
_REST_MAX = 100
_COLUMNS = ("what", "file", "position", "topic", "queue", "offset", "count", "problem", "remedy")


@click.group(short_help="Check and repair the files of a broker.")
def store() -> None:
    """Check and repair the files of a broker that does not run."""


_folder_argument = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
_config_option = click.option(
    "-c",
    "--config",
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The broker's settings, for lengths of files that are not Apache's. They are guessed without.",
)


@store.command(
    epilog=examples(
        ("rocketline store check ~/store", "a broker's folder, storePathRootDir"),
        ("rocketline store check /data/mq -c broker.conf", "with the broker's own file sizes"),
        ("rocketline store check ~/store --json", "each finding a line, then the figures"),
    )
)
@_folder_argument
@_config_option
@click.option("--limit", type=click.IntRange(min=0), default=100, show_default=True, help="Findings to print at most.")
@output_options
def check(folder: Path, file: Path | None, limit: int, is_json: bool) -> None:
    """Compare everything in a store with everything else, and change nothing.

    Each record's check sum, each unit of each queue, the key index, tables, the checkpoint. Ends with status 0 if there
    is no damage, 1 if there is, 2 if it could not look: no store, or a broker has it open.
    """
    from rocketline.clock import SystemClock
    from rocketline.store.filesystem import DiskFileSystem
    from rocketline.store.inspection.check import check_store

    with _Bar() as bar:
        report = _or_refused(lambda: check_store(DiskFileSystem(), SystemClock(), _config(folder, file), bar.tell))
    _print(Output(is_json=is_json), report, limit)
    sys.exit(0 if report.findings.is_clean else 1)


@store.command(
    epilog=examples(
        ("rocketline store repair ~/store", "mend what `store check` finds"),
        ("rocketline store repair ~/store --yes --json", "without a question, for scripts"),
    )
)
@_folder_argument
@_config_option
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_options
def repair(folder: Path, file: Path | None, yes: bool, is_json: bool) -> None:
    """Mend a damaged store: derive queues and index from the log again, and let brokers get past damaged records.

    What is replaced or moved is kept below DIR/damaged. A store without damage is left as it is. Ends with status 0 if
    there is no damage any more, 1 if there is, 2 if it could not begin.
    """
    from rocketline.clock import SystemClock
    from rocketline.store.filesystem import DiskFileSystem
    from rocketline.store.inspection.repair import repair_store

    if not yes:
        click.confirm(f"Change the files in {folder}? What is there now is kept below it.", abort=True, err=True)
    with _Bar() as bar:
        repaired = _or_refused(lambda: repair_store(DiskFileSystem(), SystemClock(), _config(folder, file), bar.tell))
    output, root = Output(is_json=is_json), repaired.before.root
    rows = [(step.what, _shown(root, step.path, is_json), _shown(root, step.copy, is_json)) for step in repaired.steps]
    if rows or not is_json:
        output.table(("done", "file", "copy"), rows, empty="no damage: nothing was changed")
    _print(output, repaired.after, _REST_MAX)
    sys.exit(0 if repaired.after.findings.is_clean else 1)


def _shown(root: Path, path: Path | None, is_json: bool) -> Path | None:
    """People know in which folder they are."""
    return path.relative_to(root) if path is not None and not is_json and path.is_relative_to(root) else path


def _config(folder: Path, file: Path | None) -> StoreConfig:
    """The settings that a broker would have in this folder."""
    from rocketline.broker.config import load_settings
    from rocketline.settings import Flag
    from rocketline.store.filesystem import DiskFileSystem
    from rocketline.store.inspection.check import with_sizes_found

    root = Flag("DIR", "storePathRootDir", str(folder.expanduser().absolute()))
    config = load_settings(file, environ=os.environ, flags=[root]).value.store
    return config if file is not None else with_sizes_found(DiskFileSystem(), config)


def _or_refused(work: Callable[[], Result]) -> Result:
    """What the work gives; status 2 with its reason if it could not begin."""
    from rocketline.errors import ConfigError, RocketlineError

    try:
        return work()
    except ConfigError:
        raise
    except RocketlineError as error:
        click.echo(f"rocketline: {error}", err=True)
    except OSError as error:
        click.echo(f"rocketline: {error.filename or 'store'}: {(error.strerror or str(error)).lower()}", err=True)
    sys.exit(_REFUSED)


def _print(output: Output, report: CheckReport, limit: int) -> None:
    from rocketline.store.inspection.findings import counted

    findings = report.findings
    kept = sorted(findings.kept, key=lambda finding: not finding.is_damage)
    shown = kept[:limit]
    if shown or not output.is_json:
        output.table(_COLUMNS, [_row(report.root, finding, output.is_json) for finding in shown], empty="no findings")
    left_out = len(kept) - len(shown) + findings.left_out
    damage, notes = findings.damage.total(), findings.notes.total()
    if output.is_json:
        output.record(
            {
                "damage": damage,
                "notes": notes,
                "left_out": left_out,
                "records": report.records,
                "log_bytes": report.log_bytes,
                "queues": report.queues,
                "units": report.units,
                "index_entries": report.index_entries,
                "seconds": round(report.seconds, 3),
            }
        )
        return
    if left_out:
        click.echo(f"and {left_out:,} more; --limit shows them")
    figures = (
        f"{report.records:,} records in {size(report.log_bytes)} of log files, {report.units:,} units of "
        f"{report.queues:,} queues, {report.index_entries:,} index entries in {duration(report.seconds)}"
    )
    click.echo(f"{figures}: {counted(damage, 'damage')}, {counted(notes, 'note')}")


def _row(root: Path, finding: Finding, is_json: bool) -> tuple[object, ...]:
    what = finding.kind.value if finding.is_damage else f"note: {finding.kind.value}"
    return (
        what,
        _shown(root, finding.path, is_json),
        finding.position,
        finding.topic,
        finding.queue_id,
        finding.queue_offset,
        finding.count,
        finding.problem,
        finding.remedy,
    )


class _Bar:
    """How much of the log was read: a bar on a terminal, nothing elsewhere."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("log"),
            BarColumn(),
            DownloadColumn(binary_units=True),
            TimeRemainingColumn(),
            console=Console(stderr=True, highlight=False),
            disable=not sys.stderr.isatty(),
            transient=True,
        )
        self._task = self._progress.add_task("log", total=None)

    def tell(self, done: int, total: int) -> None:
        self._progress.update(self._task, completed=done, total=total)

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()
