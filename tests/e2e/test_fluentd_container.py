"""fluentd as a container of the master's engine. No image can be pulled here, so a stand-in is built under such a name.

It has what the official image is documented to have: an entrypoint that runs the command it is given as any user, and
the configuration at ``/fluentd/etc/fluent.conf``. Inside is the built-in collector. So this shows that the unit, its
options, mounts, network and life under systemd are right. What a real fluentd makes of the configuration is shown in
``tests/integration/test_fluentd.py``.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from grass.api.client import Client
from tests.support.lab import SessionLab
from tests.support.on_premises import Cluster, holds, settings
from tests.support.waiting import wait_until

IMAGE = "fluent/fluentd:v0-stand-in"
_PROGRAM = """
import os, sys
assert sys.argv[1:] == ["-c", "/fluentd/etc/fluent.conf", "--no-supervisor"], sys.argv
assert "@type forward" in open("/fluentd/etc/fluent.conf").read()
assert os.access(os.environ["GRASS_BUFFERS"], os.W_OK)
logs, listen = os.environ["GRASS_LOGS"], os.environ["GRASS_COLLECTOR_BIND"] + ":" + os.environ["GRASS_COLLECTOR_PORT"]
sys.path.insert(0, "/site")
from grass.config import ClusterConfig
assert sorted(os.listdir(os.environ["GRASS_TLS"])) == ["ca.pem", "host.pem"]  # not the key that signs certificates
os.symlink(os.environ["GRASS_TLS"], "/tmp/tls")
ClusterConfig("stand-in", "local", "/tmp", "/tmp", share=os.path.dirname(logs), tls=True).save()
os.environ["PYTHONPATH"] = "/site"
os.execvp("python3", ["python3", "-m", "master.collector", "/tmp/cluster.json", "--tcp", listen, "--open"])
"""
_DOCKERFILE = """FROM fluentd-stand-in:latest
COPY site /site
COPY fluentd fluentd.py entrypoint.sh /usr/local/bin/
USER 999
ENTRYPOINT ["/usr/local/bin/entrypoint.sh"]
CMD ["fluentd"]
"""


@pytest.fixture
def cluster(lab: SessionLab, site: Path, tmp_path: Path) -> Iterator[Cluster]:
    for host in ("master", "n1"):
        lab.reset(host)
    master = {"hostname": "master", "address": lab.hosts["master"].address, "fluentd": {"image": IMAGE}}
    nodes = [{"address": lab.hosts["n1"].address, "name": "n1"}]
    made = Cluster(lab, site, tmp_path / "home", settings(lab, master=master, nodes=nodes, collector="fluentd"))
    yield made
    for host in ("master", "n1"):
        lab.reset(host)


def build_stand_in(cluster: Cluster, folder: Path) -> None:
    lab, host = cluster.lab, cluster.lab.hosts["master"]
    lab.load_image("master", lab.image_with("fluentd-stand-in", "msgpack", "msgspec"))
    (folder / "fluentd.py").write_text(_PROGRAM)
    (folder / "fluentd").write_text('#!/bin/sh\nexec python3 /usr/local/bin/fluentd.py "$@"\n')
    (folder / "entrypoint.sh").write_text('#!/bin/sh\nexec "$@"\n')
    (folder / "Dockerfile").write_text(_DOCKERFILE)
    for name in ("fluentd", "entrypoint.sh"):
        (folder / name).chmod(0o755)
    subprocess.run(["docker", "cp", str(folder), f"{host.container}:/var/tmp/stand-in"], check=True)
    subprocess.run(["docker", "cp", str(cluster.site), f"{host.container}:/var/tmp/stand-in/site"], check=True)
    host.sh(f"cd /var/tmp/stand-in && chmod -R a+rX . && DOCKER_BUILDKIT=0 docker build -q -t {IMAGE} .")
    host.sh("rm -r /var/tmp/stand-in")


@pytest.mark.nightly
def test_logs_are_written_by_a_container_that_comes_back_and_goes_with_the_cluster(
    cluster: Cluster, tmp_path: Path
) -> None:
    host, name = cluster.lab.hosts["master"], cluster.name
    refused = cluster.create()
    assert refused.returncode == 2 and f"has no image {IMAGE} and cannot pull it" in refused.stderr, refused.stderr
    assert "nothing was changed" in refused.stderr

    (tmp_path / "image").mkdir()
    build_stand_in(cluster, tmp_path / "image")
    before = holds(cluster.lab)
    done = cluster.create()
    assert done.returncode == 0, done.stderr + host.sh("journalctl -n 40 -o cat -u 'grass-fluentd-container@*'")
    with Client(name, home=cluster.home) as client:

        def says(job: str, text: str) -> None:
            client.start({"name": job, "components": {"t": {"command": f"echo {text}", "cwd": "/"}}})
            assert client.wait(job, timeout=60).state == "SUCCEEDED"
            wait_until(lambda: [each.text.strip() for each in client.logs(job)] == [text], 30, "its log", 0.2)

        says("first", "one")
        assert host.sh(f"stat -c %U:%G $(find /srv/grass/{name}/logs -name 't.0.jsonl')").strip() == "grass:grass"
        container = f"grass-fluentd-{name}"
        shown = "{{.HostConfig.NetworkMode}} {{.HostConfig.CapDrop}} {{.Config.User}} {{.HostConfig.LogConfig.Type}}"
        user = host.sh('echo "$(id -u grass):$(id -g grass)"').strip()
        assert host.sh(f"docker inspect -f '{shown}' {container}").strip() == f"host [ALL] {user} none"
        for fault in (f"docker kill {container}", "systemctl restart docker"):
            born = host.sh(f"docker inspect -f '{{{{.Id}}}}' {container}")
            host.sh(fault)
            wait_until(
                lambda: host.attempt("docker", "inspect", "-f", "{{.Id}}", container).stdout not in ("", born),  # noqa: B023
                60,
                f"another container after {fault}",
                0.2,
            )
            says("again", "two")
    done = cluster.grass("delete", "--yes", name)
    assert done.returncode == 0, done.stderr
    assert host.sh("docker ps -aq").strip() == ""
    assert [line for line in holds(cluster.lab) if "/var/lib/containerd" not in line] == [
        line for line in before if "/var/lib/containerd" not in line
    ]
