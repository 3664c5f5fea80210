"""The functions that a pipeline's file names as `module:function`."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rocketline.errors import ConfigError
from rocketline.pipelines.config_section import nearest
from rocketline.pipelines.definition import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    Transform = Callable[..., DataFrame]


def load_functions(pipeline: Pipeline) -> dict[str, Transform]:
    """Each function by its name in the file. Modules are looked for in the file's folder first.

    Raises `ConfigError` that names the step of each one that is not there, or takes another number of DataFrames.
    """
    found: dict[str, Transform] = {}
    problems = []
    for step in pipeline.steps.values():
        if not step.transform:
            continue
        try:
            function = _loaded(step.transform, pipeline.file.parent)
            _check_arguments(function, len(step.inputs))
        except ValueError as error:
            problems.append(f"{pipeline.file.name}: steps.{step.name}.transform: {error}")
        else:
            found[step.transform] = function
    if problems:
        raise ConfigError(problems)
    return found


def module_paths(pipeline: Pipeline) -> list[Path]:
    """The modules and packages that stand beside the file and that its functions use, once these are loaded.

    Executors need them, too, for the Python functions of a plan.
    """
    if not any(step.transform for step in pipeline.steps.values()):
        return []
    folder, found = pipeline.file.parent, set()
    for name, module in list(sys.modules.items()):
        file = Path(getattr(module, "__file__", None) or "/")
        place = Path(*list(module.__path__)[:1]) if hasattr(module, "__path__") else file
        if "." not in name and name != "__main__" and place.parent == folder and place.stem == name:
            found.add(place)
    return sorted(found)


def _loaded(name: str, folder: Path) -> Transform:
    module_name, _, function_name = name.partition(":")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ValueError(f"there is no module {error.name!r}: it must stand in {folder}, or be installed") from None
    except Exception as error:  # a module of the user's, which may raise anything
        raise ValueError(f"module {module_name!r} does not load: {type(error).__name__}: {error}") from error
    top = sys.modules[module_name.partition(".")[0]]
    beside = [folder / f"{top.__name__}.py", folder / top.__name__ / "__init__.py"]
    if any(path.is_file() for path in beside) and Path(getattr(top, "__file__", None) or "").resolve() not in beside:
        raise ValueError(f"module {top.__name__!r} stands in {folder}, but another of this name is loaded: rename it")
    function = getattr(module, function_name, None)
    if not callable(function):
        known = [each for each, value in vars(module).items() if inspect.isfunction(value)]
        meant = nearest(function_name, known)
        hint = f": did you mean {meant}?" if meant else ""
        raise ValueError(f"module {module_name!r} has no function {function_name!r}{hint}")
    transform: Transform = function
    return transform


def _check_arguments(function: Transform, count: int) -> None:
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError as error:
        raise ValueError(f"it must take {count} DataFrame{'s' if count > 1 else ''}: {error}") from None
