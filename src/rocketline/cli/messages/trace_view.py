"""What became of a message, for people and for machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rocketline.cli.shared.output import Output
    from rocketline.client.trace.timeline import MessageTrace, TraceEvent

_COLUMNS = ["at_ms", "step", "group", "took_s", "outcome", "retries", "where"]


def show(trace: MessageTrace, output: Output) -> None:
    """A line for each thing that happened, in order; what could not be read is told beside it."""
    if output.is_json:
        for event in trace.events:
            told = dict(zip(_COLUMNS, _row(event), strict=True))
            output.record({"message_id": trace.message_id, "topic": trace.topic, **told})
    else:
        click.echo(_title(trace))
        output.table(_COLUMNS, [_row(event) for event in trace.events])
    if trace.broken:
        click.echo(f"rocketline: trace records that could not be read: {trace.broken}", err=True)


def _title(trace: MessageTrace) -> str:
    if not trace.topic:
        return f"{trace.message_id}, of whose sending nobody has told"
    marks = [*([f"[{trace.tags}]"] if trace.tags else []), *(f"#{key}" for key in trace.keys.split())]
    return " ".join([trace.message_id, "of", trace.topic, *marks])


def _row(event: TraceEvent) -> list[object]:
    return [
        event.at_ms,
        event.step.value,
        event.group,
        None if event.took_ms is None else event.took_ms / 1000,
        event.outcome,
        event.retries,
        event.where,
    ]
