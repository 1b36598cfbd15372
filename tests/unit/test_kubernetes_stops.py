"""Many pods that are stopped at once: on a double of the API server."""

from __future__ import annotations

from pathlib import Path

from node.runtime.protocol import Stop
from tests.support.pod_double import doubled_pods


def test_pods_are_deleted_soon_though_there_are_more_than_logs_that_are_followed(tmp_path: Path) -> None:
    keys = [f"j-1/c.{number}/1" for number in range(30)]
    with doubled_pods(tmp_path, followers=2) as run:
        run.begin(*keys)
        run.runtime.stop([Stop(each, 5.0) for each in keys])
        run.wait(lambda: all("deletionTimestamp" in each["metadata"] for each in run.server.pods()), 8.0)
        graces = {each["metadata"]["deletionGracePeriodSeconds"] for each in run.server.pods()}
        assert graces == {5}
        assert sum(each.method == "DELETE" for each in run.server.asked) == len(keys)
        for each in keys:
            run.server.write(run.name(each), "last words")
            run.server.end(run.name(each), 0)
        run.wait(lambda: all(each.ended is not None for each in run.known.values()))
        assert {run.stdout(each) for each in keys} == {"last words\n"}
