"""Which columns a table has, told from the declaration alone.

Spark's Declarative Pipelines ask for a table's plan before the tables that it reads are there, and let nobody look at
columns meanwhile. What a function of the user's makes is unknown then.
"""

from __future__ import annotations

from rocketline.pipelines.definition import Pipeline
from rocketline.pipelines.steps.expectations import PROBLEMS, accepted_columns
from rocketline.pipelines.steps.parsing import Columns
from rocketline.spark.schema import COLUMNS


def declared_columns(pipeline: Pipeline, name: str) -> Columns:
    """The columns of a source or table; None if they depend on a function."""
    if name in pipeline.sources:
        return COLUMNS
    step = pipeline.step_of(name)
    read = declared_columns(pipeline, step.inputs[0])
    if name == step.quarantine_name:
        return None if read is None else [*read, PROBLEMS]
    if step.aggregate is not None:
        return ["begins", "ends", *step.aggregate.by, *step.aggregate.values]
    return None if step.transform else accepted_columns(step, read)
