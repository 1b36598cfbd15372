"""docs/reference/foreign-files.md against the tables of the readers."""

from __future__ import annotations

from pathlib import Path

import pytest

from grass.manifest.foreign import (
    dialects,
    elastic_job,
    mars_job,
    metadata,
    mpi_job,
    parameter_servers,
    pod,
    pytorch_job,
    run_policy,
    tf_job,
    training_job,
)

PAGE = Path("docs/reference/foreign-files.md").read_text()


@pytest.mark.parametrize(
    "table",
    [
        metadata.IGNORED,
        pod.IGNORED_IN_METADATA,
        pod.IGNORED_IN_POD,
        pod.REFUSED_IN_POD,
        pod.IGNORED_IN_CONTAINER,
        pod.REFUSED_IN_CONTAINER,
        mars_job.IGNORED,
        elastic_job.IGNORED,
        parameter_servers.IGNORED_IN_ROLE,
        {f"--{name}": None for name in elastic_job.FLAGS | elastic_job.VALUES},
        mars_job.ANNOTATIONS,
        training_job.ANNOTATIONS,
        run_policy.ANNOTATIONS,
        run_policy.IGNORED,
        run_policy.REFUSED,
        mpi_job.IGNORED,
        pytorch_job.IGNORED_IN_ELASTIC,
        tf_job.IGNORED,
        dialects.VERSIONS,
    ],
)
def test_the_reference_names_every_field_of_a_table(table: dict[str, object]) -> None:
    assert [key for key in table if f"`{key}`" not in PAGE] == []
    versions = [version for value in table.values() if isinstance(value, tuple) for version in value]
    assert [version for version in versions if f"`{version}`" not in PAGE] == []
