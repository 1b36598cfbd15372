"""Which tests hold what docs/security.md claims: ``python -m tests.support.security_claims`` writes the table there.

``MATRIX``: the fault matrix, in which an isolated user, a stolen node and a machine beside the cluster attack after
each fault of hosts (``tests/faults/spy.py``, ``tests/faults/attackers.py``).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "security.md"
BEGIN, END = "<!-- generated: which tests hold each claim -->\n", "<!-- end of the tests -->\n"
HEADINGS = ("| foothold | can | cannot |", "| traffic | protection |")
"""The tables of which each row with a claim must be held."""
MATRIX = "tests/faults/__main__.py::run"


class Held(NamedTuple):
    """By what a row is held: ``module::test``. ``after``: after faults, in each run or at night."""

    tests: tuple[str, ...]
    after: tuple[str, ...]


def _of(folder: str, module: str, *tests: str) -> tuple[str, ...]:
    return tuple(f"tests/{folder}/{module}.py::{test}" for test in tests)


_NETWORK = "test_whoever_only_reaches_the_network_gets_into_nothing"
_PLAIN = "test_nothing_that_is_secret_crosses_the_network_in_plain_text"
_REDIS = "test_redis_of_the_master_refuses_who_speaks_no_tls_1_3_or_shows_no_valid_certificate_of_the_cluster"
_STOLEN = "test_a_stolen_node_harms_only_itself_and_the_documentation_says_what_it_achieved"
_SHARE_BACK = "test_no_task_ever_sees_more_than_its_own_and_all_write_again_when_the_share_is_back"
_CUT_OFF = "test_a_disabled_or_removed_user_is_cut_off_within_a_second_even_during_a_transfer"
_RESTARTED = "test_who_was_refused_before_a_restart_of_the_api_is_refused_after_it"
_REPLAYED = "test_a_session_goes_on_after_a_restart_and_its_calls_are_still_good_once"
_OPEN = "test_what_a_disabled_user_has_open_ends_within_a_second_also_after_a_restart_of_the_api"
_ATTACKER = "test_an_attacker_reaches_nothing_of_the_node_and_of_others"
_LIMITS = "test_the_next_shepherd_knows_the_limits_and_removes_what_the_last_one_prepared"
_KILLED_BACKUP = "test_what_a_killed_backup_left_is_removed_by_the_next_and_what_another_writes_is_not"
_KEY_AFTER = "test_a_key_for_files_opens_no_more_after_each_service_behind_it_was_killed"
_IMPOSTOR = "test_who_answers_in_the_place_of_a_host_whose_sshd_ended_is_told_nothing"
_BOXED = "test_a_container_without_isolation_changes_no_image_and_no_log_after_each_fault"
_FLUENTD = "test_who_has_no_certificate_of_the_cluster_sends_nothing_also_after_fluentd_was_killed"
_SHARE = _of("e2e", "test_create", "test_the_share_is_for_whoever_has_its_password_and_speaks_smb3")

CLAIMS: dict[str, Held] = {
    "calls of users to the API": Held(
        _of("contract", "test_api_attacks", "test_a_request_that_is_played_again_is_refused"),
        _of("contract", "test_api_attacks", _REPLAYED),
    ),
    "join and login": Held(
        (
            *_of("contract", "test_api_joins", "test_a_master_with_another_key_is_not_spoken_to"),
            *_of("contract", "test_api_attacks", "test_a_client_with_a_foreign_key_is_told_so"),
        ),
        _of("contract", "test_api_joins", "test_no_token_is_good_again_after_a_restart_of_the_api"),
    ),
    "notices of where the master is": Held(
        _of(
            "unit",
            "test_follow_on_host",
            "test_root_follows_no_notice_that_its_own_key_did_not_sign_or_that_is_no_news",
        )
        + _of(
            "contract",
            "test_moved",
            "test_a_notice_that_is_forged_or_old_leads_nowhere",
            "test_a_node_asks_the_addresses_that_it_knows_and_takes_the_latest_notice_that_its_cluster_signed",
        ),
        _of("contract", "test_moved", "test_a_master_whose_redis_refuses_it_sends_clients_to_the_standby"),
    ),
    "files of users (`grass data`, `grass image`)": Held(
        (
            *_of("integration", "test_files", "test_the_key_is_good_for_nothing_else"),
            *_of("integration", "test_files", "test_another_host_key_is_refused"),
        ),
        _of("e2e", "test_after_faults", _KEY_AFTER, _IMPOSTOR),
    ),
    "a backup (`grass backup`)": Held(
        _of(
            "unit",
            "test_backup_file",
            "test_another_passphrase_is_refused_with_the_exit_code_of_a_missing_right",
            "test_a_changed_byte_is_found_wherever_it_is",
            "test_a_file_that_is_cut_off_anywhere_is_refused",
        ),
        _of("unit", "test_backup_file", "test_an_interrupted_backup_leaves_no_file_of_its_name", _KILLED_BACKUP),
    ),
    "`/metrics` for other machines": Held(
        _of("unit", "test_metrics_tls", "test_a_certificate_or_a_token_opens_the_page_and_nothing_else_does"),
        _of("unit", "test_metrics_tls", "test_the_page_is_as_closed_after_damaged_files_and_a_restart"),
    ),
    "administration of hosts": Held(
        _of("integration", "test_ssh_host", "test_the_key_that_was_seen_first_is_pinned_and_another_one_is_refused"),
        (
            *_of("integration", "test_ssh_host", "test_a_damaged_line_lets_no_other_key_be_pinned"),
            *_of("e2e", "test_after_faults", _IMPOSTOR),
        ),
    ),
    "the share": Held(_SHARE, (MATRIX,)),
    "redis between master and nodes": Held(_of("e2e", "test_work", _REDIS), (MATRIX,)),
    "redis for tasks (`task_redis`, off by default) between master and nodes": Held(
        _of(
            "integration",
            "test_task_redis",
            "test_who_reaches_the_port_of_the_master_needs_the_password_of_the_nodes",
            "test_nodes_speak_tls_with_the_master_and_with_nobody_else",
        ),
        _of("e2e", "test_work", "test_the_redis_for_tasks_shows_the_renewed_certificate_of_the_master"),
    ),
    "log records between nodes and master": Held(
        _of(
            "contract",
            "test_collector_nodes",
            "test_over_tls_a_node_sends_as_itself_and_neither_as_another_nor_in_plain_text",
            "test_the_collector_refuses_a_node_that_speaks_tls_1_2_or_shows_no_certificate",
        ),
        (MATRIX,),
    ),
    "logs sent to a fluentd in the collector's place": Held(
        _of("integration", "test_fluentd", _FLUENTD), _of("integration", "test_fluentd", _FLUENTD)
    ),
    "master or node to node-api (`exec`, `forward`, `ssh` of launchers)": Held(
        _of(
            "integration",
            "test_node_api_tls",
            "test_a_peer_that_speaks_tls_1_2_or_shows_no_certificate_is_refused",
            "test_another_node_may_not_act_as_the_master_even_with_its_token",
        ),
        (MATRIX,),
    ),
    "only the network, without reading it": Held(_of("e2e", "test_work", _NETWORK, _REDIS), (MATRIX,)),
    "reading the network": Held(
        (
            *_of("e2e", "test_join", _PLAIN),
            *_of("contract", "test_api_attacks", "test_a_question_that_is_played_again_is_refused"),
        ),
        _of("contract", "test_api_attacks", _REPLAYED),
    ),
    "a used, expired or replaced invitation": Held(
        _of(
            "contract",
            "test_api_users",
            "test_an_invitation_is_good_once",
            "test_a_replaced_or_forged_invitation_is_refused",
        ),
        _of("contract", "test_api_users", _RESTARTED),
    ),
    "a user's key": Held(
        (
            *_of("contract", "test_api_attacks", "test_a_user_can_neither_see_nor_stop_the_jobs_of_another"),
            *_of("contract", "test_api_users", "test_only_administrators_manage_users"),
            *_of(
                "integration",
                "test_exec",
                "test_no_other_user_and_no_other_job_reaches_a_session_or_a_forward_by_its_name",
            ),
        ),
        (*_of("integration", "test_exec", _OPEN), *_of("contract", "test_api_users", _RESTARTED), MATRIX),
    ),
    "a user's key for files": Held(
        _of(
            "integration",
            "test_users_files",
            "test_a_user_reaches_nothing_else",
            "test_a_key_of_a_user_changes_nothing_that_another_user_shares",
            "test_a_user_adds_own_images_and_cannot_replace_those_of_others",
            _CUT_OFF,
        ),
        _of("e2e", "test_after_faults", _KEY_AFTER),
    ),
    "an administrator's key": Held(
        _of("contract", "test_api_users", "test_bad_input_changes_nothing"),
        _of(
            "contract",
            "test_api_users",
            "test_after_a_restart_of_the_api_only_administrators_rule_and_the_last_one_stays",
        ),
    ),
    "a process task with `isolation: user`": Held(
        (
            *_of("integration", "test_isolated_tasks", _ATTACKER),
            *_of("integration", "test_task_limits", "test_a_task_cannot_lift_its_limits_or_leave_its_group"),
            *_of(
                "integration",
                "test_kernel_objects",
                "test_an_attacker_reaches_no_kernel_object_of_another_users_process",
            ),
        ),
        (
            *_of("integration", "test_share_outage", _SHARE_BACK),
            *_of("integration", "test_isolated_tasks", _ATTACKER),
            *_of("integration", "test_task_limits", _LIMITS),
            MATRIX,
        ),
    ),
    "a process task with `isolation: none`": Held(_of("contract", "test_stolen_node", _STOLEN), (MATRIX,)),
    "a container task with `isolation: user`": Held(
        _of(
            "integration",
            "test_isolated_tasks",
            "test_an_attacker_in_a_container_reaches_nothing_of_the_node_and_of_others",
        ),
        _of("integration", "test_share_outage", _SHARE_BACK),
    ),
    "a container task with `isolation: none`": Held(
        _of(
            "integration",
            "test_docker_runtime",
            "test_a_container_sees_the_share_its_scratch_and_the_addresses_as_any_user",
            "test_limits_are_the_engines",
        ),
        _of("e2e", "test_after_faults", _BOXED),
    ),
    "everything in a node's folder": Held(
        (
            *_of("contract", "test_stolen_node", _STOLEN),
            *_SHARE,
            *_of("e2e", "test_isolation", "test_root_on_a_node_harms_no_other_node_with_all_that_is_in_its_folder"),
        ),
        (MATRIX,),
    ),
}
"""First cell of a row → what holds it."""


def claimed(page: str) -> list[str]:
    """Return the first cells of the rows that claim something: not what is open, nor an empty last cell."""
    found = []
    for heading in HEADINGS:
        rows = page.partition(heading)[2].partition("\n\n")[0]
        cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows.split("\n")[2:]]
        found += [first for first, *_, last in cells if last and not last.startswith("**open**")]
    return found


def text() -> str:
    lines = ["| row | held by | after faults |", "|---|---|---|"]
    lines += [f"| {row} | {_cell(held.tests)} | {_cell(held.after)} |" for row, held in CLAIMS.items()]
    return "\n".join(lines) + "\n"


def _cell(tests: tuple[str, ...]) -> str:
    return ", ".join("[fault matrix](guide/faults-matrix.md)" if each == MATRIX else _short(each) for each in tests)


def _short(test: str) -> str:
    path, _, name = test.partition("::")
    return f"`{path.removeprefix('tests/')}` {name.removeprefix('test_').replace('_', ' ')}"


def with_text(page: str) -> str:
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    assert pattern.search(page), "docs/security.md has no place for the table"
    return pattern.sub(lambda _: f"{BEGIN}{text()}{END}", page)


if __name__ == "__main__":
    PAGE.write_text(with_text(PAGE.read_text()))
