"""What a file system of Hadoop's says is told to the user, with the folder that it was asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from py4j.protocol import Py4JJavaError

from rocketline.errors import PipelineError
from rocketline.pipelines.tables.hadoop_files import HadoopFiles

MISSING = "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found"


def fails(*given: Any) -> NoReturn:
    raised = SimpleNamespace(_target_id="o87", _gateway_client=None, toString=lambda: MISSING)
    raise Py4JJavaError("An error occurred while calling o87.getFileSystem.", raised)


@pytest.fixture
def files() -> HadoopFiles:
    """Of a session that has no such file system."""
    path = SimpleNamespace(getFileSystem=fails)
    java = SimpleNamespace(sessionState=lambda: SimpleNamespace(newHadoopConf=dict))
    fs = SimpleNamespace(Path=lambda folder: path)
    hadoop = SimpleNamespace(apache=SimpleNamespace(hadoop=SimpleNamespace(fs=fs)))
    spark: Any = SimpleNamespace(_jsparkSession=java, _jvm=SimpleNamespace(org=hadoop))
    return HadoopFiles(spark)


def test_failure_names_the_folder_and_what_java_says(files: HadoopFiles) -> None:
    with pytest.raises(PipelineError, match=f"^s3a://lake/raw: {MISSING}$"):
        files.names("s3a://lake/raw")
    with pytest.raises(PipelineError, match=f"^s3a://lake/raw: {MISSING}$"):
        files.make_folder("s3a://lake/raw")
    with pytest.raises(PipelineError, match=f"^s3a://lake/raw/batch-1: {MISSING}$"):
        files.remove("s3a://lake/raw/batch-1")
