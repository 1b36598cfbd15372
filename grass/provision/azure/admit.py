"""``python -m grass.provision.azure.admit CLUSTER_JSON``, as user `grass`: register the key of the autoscaler.

The public key comes as JSON on standard input. Run by ``on_master``.
"""

from __future__ import annotations

import json
import sys

from grass.api import user_files
from grass.api.keyring import Role
from grass.config import ClusterConfig
from grass.provision.on_premises.design import AUTOSCALER_USER


def main(path: str, key: str) -> int:
    user_files.register_user(ClusterConfig.load(path).master_dir, AUTOSCALER_USER, Role.ADMIN, json.loads(key))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.stdin.read()))
