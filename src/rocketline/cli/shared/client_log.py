"""What a client logs while a command works with it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import click

from rocketline.logs import TextFormatter


@contextmanager
def client_log() -> Iterator[None]:
    """Show errors on standard error, and nothing less: a command tells by itself how it ended."""
    handler = _StandardError(logging.ERROR)
    handler.setFormatter(TextFormatter())
    logger = logging.getLogger("rocketline")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _StandardError(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        click.echo(self.format(record), err=True)
