"""Has the redis for tasks write what it has when it stops: ``python -m`` this module, with CLUSTER_JSON, as `grass`.

``moving`` runs it on the old master, just before that stops. The file goes to the new one with the rest of the folder.
The redis there reads it, and ``grass.supervision.task_redis_watch`` removes it.
"""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

from grass.config import ClusterConfig, Secrets
from grass.errors import ConflictError, GrassError
from grass.store.connect import open_task_redis


def keep(config: ClusterConfig) -> None:
    """Raises ConflictError: this redis was started by an earlier Grass, and cannot."""
    with closing(open_task_redis(config, Secrets.load(config.home))) as redis:
        if not redis.save_at_end(Path(config.home) / "redis"):
            raise ConflictError(
                f"cluster {config.name}: its redis for tasks was started by an earlier Grass, and would lose what it "
                "has; `grass create FILE` starts it anew, once no task needs it"
            )


if __name__ == "__main__":
    try:
        keep(ClusterConfig.load(sys.argv[1]))
    except GrassError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)
