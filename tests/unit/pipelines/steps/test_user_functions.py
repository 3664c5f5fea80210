"""Functions that a file names are found beside it, and whatever is wrong with them is told with the step."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketline.errors import ConfigError
from rocketline.pipelines.definition_file import load
from rocketline.pipelines.steps.user_functions import load_functions, module_paths
from support.pipelines.files import LANDING, _modules_as_before, written

__all__ = ["_modules_as_before"]


def functions(folder: Path, transform: str, code: str) -> object:
    (folder / "shop_steps.py").write_text(code)
    return load_functions(load(written(folder, LANDING + f'transform = "{transform}"\n'), {}))


def test_function_is_found_beside_the_file(tmp_path: Path) -> None:
    found = functions(tmp_path, "shop_steps:clean", "def clean(rows):\n    return rows\n")

    assert list(found) == ["shop_steps:clean"]  # type: ignore[call-overload]


def test_modules_and_packages_beside_the_file_that_functions_use_are_known(tmp_path: Path) -> None:
    """Executors need all of them, not only the one that the file names."""
    (tmp_path / "shop_package").mkdir()
    (tmp_path / "shop_package" / "__init__.py").write_text("")
    (tmp_path / "shop_package" / "steps.py").write_text("import shop_prices\n\ndef clean(rows): ...\n")
    (tmp_path / "shop_prices.py").write_text("import json\n")
    (tmp_path / "shop_unused.py").write_text("")
    functions(tmp_path, "shop_package.steps:clean", "")

    found = module_paths(load(tmp_path / "orders.toml", {}))
    assert found == [tmp_path / "shop_package", tmp_path / "shop_prices.py"]


def test_another_module_of_the_same_name_is_not_taken_for_it(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    functions(tmp_path / "one", "shop_steps:clean", "def clean(rows): ...")
    with pytest.raises(ConfigError, match="another of this name is loaded: rename it"):
        functions(tmp_path / "two", "shop_steps:clean", "def clean(rows): ...")


@pytest.mark.parametrize(
    ("transform", "code", "problem"),
    [
        ("no_such:clean", "", "there is no module 'no_such'"),
        ("shop_steps:claen", "def clean(rows): ...", "has no function 'claen': did you mean clean?"),
        ("shop_steps:clean", "1 / 0", "module 'shop_steps' does not load: ZeroDivisionError"),
        ("shop_steps:clean", "import not_installed", "there is no module 'not_installed'"),
        ("shop_steps:clean", "def clean(a, b): ...", "it must take 1 DataFrame"),
        ("shop_steps:clean", "clean = 7", "has no function 'clean'"),
    ],
)
def test_what_is_wrong_is_told_with_the_step(tmp_path: Path, transform: str, code: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        functions(tmp_path, transform, code)

    assert str(caught.value).startswith("orders.toml: steps.raw.transform: ")
    assert problem in str(caught.value)
