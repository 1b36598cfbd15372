"""The environment of the submitting shell: what a document takes from it, and what a task gets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from grass.config import MasterConfig
from grass.errors import InputError, ManifestError
from grass.manifest import Wrong, parse_job
from grass.manifest.shell import assignments, left_out, passable, read_file, with_shell
from grass.node_config import NodeConfig, NodeHome
from grass.system.environment import is_shared
from grass.wire.calls import Submission
from master.api.submission import Terms, accept_job
from node.agent.environment import launch
from tests.support.templates import changed, template

SHELL = {"PATH": "/venv/bin:/bin", "TOKEN": "s3", "EPOCHS": "9"}
CONFIG = NodeHome(
    "local", "local", "/g/clusters/local", "/r", master=MasterConfig(nodes_on_client=True), node=NodeConfig()
)
TEMPLATE = template()


def document(**component: Any) -> dict[str, Any]:
    return {"name": "j", "components": {"w": {"command": "true", **component}}}


def env_of(body: dict[str, Any], **added: str) -> dict[str, str]:
    return parse_job(with_shell(body, SHELL, added)).job.components["w"].env


def test_named_variables_come_from_the_shell_and_env_goes_before_them() -> None:
    body = document(inherit_env=["TOKEN", "EPOCHS"], env={"EPOCHS": 1})
    assert env_of(body) == {"TOKEN": "s3", "EPOCHS": "1"}
    assert env_of(body, EPOCHS="2") == {"TOKEN": "s3", "EPOCHS": "2"}
    assert body == document(inherit_env=["TOKEN", "EPOCHS"], env={"EPOCHS": 1})


def test_the_job_of_a_schedule_takes_them_too() -> None:
    made = with_shell({"cron": "* * * * *", "job": document(inherit_env=["TOKEN"])}, SHELL, {})
    assert made["job"]["components"]["w"]["env"] == {"TOKEN": "s3"}


def test_a_variable_that_the_shell_lacks_is_named_with_its_path() -> None:
    with pytest.raises(ManifestError, match=r"components\.w\.inherit_env\[1\]: NONE is not set"):
        with_shell(document(inherit_env=["TOKEN", "NONE"]), SHELL, {})


@pytest.mark.parametrize("wrong", ["TOKEN", [1], ["a b"], ["GRASS_HOME"], {"TOKEN": 1}])
def test_what_is_no_list_of_names_is_refused(wrong: Any) -> None:
    with pytest.raises(ManifestError, match="inherit_env"):
        env_of(document(inherit_env=wrong))


def test_a_document_that_names_values_which_were_not_sent_is_refused() -> None:
    with pytest.raises(ManifestError, match="must send the value of TOKEN"):
        parse_job(document(inherit_env=["TOKEN"]))


def test_options_set_a_variable_or_take_it_from_the_shell() -> None:
    assert assignments(("A=b=c", "TOKEN", "E="), SHELL) == {"A": "b=c", "TOKEN": "s3", "E": ""}
    for wrong in ("NONE", "=x", "a b=1", "GRASS_JOB=1"):
        with pytest.raises(InputError, match="--env"):
            assignments((wrong,), SHELL)


def test_all_variables_are_those_that_a_job_may_set() -> None:
    shell = {"A": "1", "GRASS_HOME": "/h", "BASH_FUNC_f%%": "() {}", "PWD": "/p", "SHLVL": "2", "LONG": "x" * 200_000}
    assert passable(shell) == {"A": "1"}
    assert left_out(shell) == ["BASH_FUNC_f%%", "LONG"]


def test_a_variable_of_the_shell_that_is_not_utf_8_is_named() -> None:
    with pytest.raises(InputError, match=r"variable PATH of this shell: must be UTF-8 text, got '/x/caf\\xe9'"):
        passable({"PATH": "/x/caf\udce9"})
    with pytest.raises(InputError, match=r"got …'x+.xff:/bin'…"):
        passable({"PATH": "x" * 99 + "\udcff:/bin"})


def test_a_file_of_variables_has_one_a_line_as_it_is_written() -> None:
    assert read_file('# why\nA=1 2\r\n\n  B="q" $A\nA=3=4\n') == {"A": "3=4", "B": '"q" $A'}
    for wrong, said in (("A", "must be NAME=VALUE"), ("a b=1", "the name of"), ("GRASS_JOB=1", "is reserved")):
        with pytest.raises(Wrong, match=f"line 2: .*{said}"):
            read_file(f"\n{wrong}\n")


@pytest.mark.parametrize(
    ("name", "value", "used"),
    [
        ("PATH", "/opt/x:$PATH", "$PATH"),
        ("PYTHONPATH", "src:${PYTHONPATH}", "${PYTHONPATH}"),
        ("CACHE", "$HOME/.cache", "$HOME"),
        ("OUT", "$GRASS_OUTPUT/x", "$GRASS_OUTPUT"),
        ("PRICE", "$5 or $usd", ""),
        ("PASSWORD", "$6$salt$x", ""),
    ],
)
def test_what_no_shell_will_replace_in_a_variable_is_said(name: str, value: str, used: str) -> None:
    parsed = parse_job(document(env={name: value}))
    assert parsed.job.components["w"].env == {name: value}
    said = [f"components.w.env.{name}: has {used} as it is written" in each for each in parsed.warnings]
    assert said == ([True] if used else [])


def test_a_local_process_has_the_proxies_of_the_submitting_shell() -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        assert is_shared(name)
    assert not is_shared("MY_PROXY")


def test_a_local_process_gets_the_submitting_shell_in_place_of_the_creating_one() -> None:
    base = {"PATH": "/bin", "VIRTUAL_ENV": "/old", "LC_ALL": "C", "OTHER": "kept"}
    shelled = changed(TEMPLATE, shell=(("PATH", "/venv/bin:/bin"),), env={"LC_ALL": "fr"})
    made = launch(CONFIG, shelled, base).env
    assert (made["PATH"], made["OTHER"], made["LC_ALL"]) == ("/venv/bin:/bin", "kept", "fr")
    assert "VIRTUAL_ENV" not in made and made["GRASS_HOME"] == "/g"
    assert launch(CONFIG, TEMPLATE, base).env["VIRTUAL_ENV"] == "/old"


def test_elsewhere_the_shell_stays_behind() -> None:
    submission = Submission(manifest=document(), shell={"PATH": "/x"})
    kept = accept_job(submission, list, lambda name: name).job.components["w"]
    assert kept.shell == (("PATH", "/x"),)
    left = accept_job(submission, list, lambda name: name, Terms(keep_cwd=False)).job.components["w"]
    assert left.shell == ()
    assert "GRASS_HOME" not in launch(replace(CONFIG, master=MasterConfig()), TEMPLATE, {}).env


@pytest.mark.parametrize("shell", [{"GRASS_CLUSTER": "x"}, {"a b": "1"}, {"A": "\0"}])
def test_a_shell_that_no_process_could_have_is_refused(shell: dict[str, str]) -> None:
    with pytest.raises(InputError, match="shell"):
        accept_job(Submission(manifest=document(), shell=shell), list, lambda name: name)
