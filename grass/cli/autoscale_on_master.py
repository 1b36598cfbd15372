"""``python -m grass.cli.autoscale_on_master CLUSTER_JSON``: the autoscaler on the master, for Azure, as root.

It does what `grass autoscale` does, with the identity of the machine. Its unit sets GRASS_HOME, and RUNTIME_DIRECTORY
to a folder in memory.
"""

from __future__ import annotations

import signal
import sys

from grass.cli import provisioning
from grass.cli.autoscale import request_of
from grass.cli.invocation import Invocation
from grass.cli.output import Output
from grass.config import ClusterConfig
from grass.provision.azure import on_master
from grass.provision.azure.lease import Lease
from grass.provision.azure.provisioner import AzureProvisioner
from grass.system import clock, environment


def main() -> int:
    config = ClusterConfig.load(sys.argv[1])
    setup = on_master.load_setup(config.name)
    memory = environment.runtime_directory() / "client"
    on_master.prepare(config, setup, environment.grass_home(), memory, on_master.admit_as_grass(config))
    invocation = Invocation(Output(sys.stdout, sys.stderr), config.name)
    signal.signal(signal.SIGTERM, _stop)
    provisioner = AzureProvisioner(provisioning.session_of(invocation, config.name))
    try:
        client = invocation.client()
        lease = Lease(on_master.HOLDER, client.tell_cloud)

        def problem(text: str) -> None:
            invocation.output.note(text)
            lease.problem = text
            lease.give_back()

        request = request_of(invocation, once=False)
        on_master.go_on(lambda: provisioner.autoscale_here(setup, request, client, lease), problem, setup, clock.sleep)
    except KeyboardInterrupt:
        return 0
    finally:
        invocation.close()
    return 0


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
