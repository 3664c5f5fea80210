"""How a change on several brokers is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rocketline.admin.views import Outcome
    from rocketline.cli.output import Output


def report(output: Output, sentence: str, values: Mapping[str, object], outcome: Outcome) -> None:
    """What was done, where; then, on standard error, each broker that failed."""
    done = [broker.address for broker in outcome.done]
    failed = {broker.address: str(error) for broker, error in outcome.failed.items()}
    output.done(f"{sentence} on {', '.join(done)}", {**values, "done": done, "failed": failed})
    for address, problem in failed.items():
        click.echo(f"rocketline: not on {address}: {problem}", err=True)
