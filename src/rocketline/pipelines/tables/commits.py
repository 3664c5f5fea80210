"""A batch is committed on the very state of the table that was asked whether it has the batch.

Two drivers may be at the same batch: a machine that stood still wakes after its replacement has begun. Whoever asks,
and then commits on what the table has become meanwhile, adds the rows twice. So a handle answers and commits: it is the
table as it was at one version, and its commit fails if there is a newer one. Then the table is opened, and asked, anew.
The libraries must not try again by themselves: they would not ask.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from rocketline.errors import PipelineError, SupersededError
from rocketline.pipelines.definition import TableTarget
from rocketline.pipelines.tables.table import DataFile, Standing, Writer

_COMMITS_MAX: Final = 10
"""How often others may be faster, as a compaction or another pipeline; each time costs them a commit."""


class MovedOnError(Exception):
    """Somebody has committed since the handle was opened. Nothing was added."""


class Handle(Protocol):
    """A table as it was at one version."""

    def standing(self, writer: Writer) -> Standing: ...

    def commit(self, writer: Writer, batch: int, files: Sequence[DataFile]) -> None:
        """Add the files, with batch and run of their writer, to this version. Raises `MovedOnError`."""
        ...


def add_once(
    target: TableTarget, opened: Callable[[], Handle], writer: Writer, batch: int, files: Sequence[DataFile]
) -> bool:
    """Add a batch's files in one commit, unless the batch is there. Says whether the table has these very files.

    Raises `SupersededError` if a newer run has added anything. A commit that was told to have failed, and has not, as
    when an answer is lost, is found when the table is asked again: nobody else has the token of our run.
    """
    for _ in range(_COMMITS_MAX):
        handle = opened()
        standing = handle.standing(writer)
        refuse_superseded(target, writer, standing)
        if standing.has(batch):
            return standing.is_of(writer)
        try:
            handle.commit(writer, batch, files)
        except MovedOnError:
            continue
        return True
    raise PipelineError(
        f"table {target.path}: others committed {_COMMITS_MAX} times while batch {batch} was to be added: compact it, "
        "or write to it otherwise, when the pipeline rests"
    )


def refuse_superseded(target: TableTarget, writer: Writer, standing: Standing) -> None:
    """Raise `SupersededError` if a newer run than the writer's has added anything to the table."""
    if standing.run > writer.run:
        raise SupersededError(f"table {target.path}", writer.run, standing.run)
