"""The takeover runs as root, with names that the user grass wrote."""

from __future__ import annotations

import pytest

from grass.errors import InputError
from grass.provision.on_premises.old_master import units
from grass.provision.on_premises.takeover_on_host import check_units


def test_units_of_the_cluster_are_enabled() -> None:
    check_units("lab.1", (*units("lab.1"), "grass-task-redis@lab.1.service"))


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("lab", "/var/lib/grass/evil.service"),
        ("lab", "--root=/var/lib/grass"),
        ("lab", "grass-redis@lab.service/../../var/lib/grass/evil.service"),
        ("lab", "grass-redis@other.service"),
        ("lab.1", "grass-redis@lab-1.service"),
        ("lab", "ssh.service"),
        ("../x", "grass-redis@../x.service"),
        ("lab", "grass-redis@lab.service\n"),
    ],
)
def test_a_name_that_is_none_of_them_ends_the_takeover(name: str, unit: str) -> None:
    with pytest.raises(InputError, match="is no unit of cluster"):
        check_units(name, (unit,))
