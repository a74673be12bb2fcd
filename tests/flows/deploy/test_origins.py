"""What a service that starts again leaves as people have made it."""

from __future__ import annotations

import yaml

from leadline.flows.deploy.apply import OTHER, Origins, digests
from leadline.flows.deploy.file import DeploymentFile, own_file, read_deployment_file

EVALUATE, CRASHED = "deployment evaluate", "automation leadline-crashed"


def changed(**of_evaluate: object) -> DeploymentFile:
    """Return Leadline's file with other settings of evaluate."""
    loaded = yaml.safe_load(own_file())
    loaded["deployments"][0] |= of_evaluate
    return DeploymentFile.model_validate(loaded)


def known(file: DeploymentFile, noted: dict[str, str], *, keep: bool = False) -> Origins:
    return Origins(digests(file), digests(read_deployment_file()), noted, keep)


OWN = known(read_deployment_file(), {}).note()


def test_every_thing_of_a_file_has_a_digest() -> None:
    kinds = [key.rsplit(" ", 1)[0] for key in OWN]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "work pool": 4,
        "deployment": 14,
        "trigger": 1,
        "automation": 8,
    }


def test_what_was_never_deployed_by_a_version_that_notes_it_is_brought_up_to_date() -> None:
    assert known(read_deployment_file(), {}, keep=True).standing(EVALUATE) is None


def test_what_leadlines_file_has_as_before_is_left_alone() -> None:
    again = known(read_deployment_file(), OWN, keep=True)
    assert {again.standing(key) for key in OWN} == {"unchanged"}
    assert again.note() == OWN


def test_what_a_newer_leadline_has_otherwise_is_deployed() -> None:
    older = OWN | {CRASHED: "00000000"}
    upgrade = known(read_deployment_file(), older, keep=True)
    assert upgrade.standing(CRASHED) is None
    assert upgrade.note() == OWN


def test_what_a_file_of_ones_own_has_otherwise_is_kept_through_restarts_and_upgrades() -> None:
    noted = known(changed(concurrency_limit={"limit": 9}), OWN).note()
    assert noted == OWN | {EVALUATE: OTHER}
    for earlier in (noted, noted | {CRASHED: "00000000"}):
        restart = known(read_deployment_file(), earlier, keep=True)
        assert restart.standing(EVALUATE) == "kept"
        assert restart.note() == noted


def test_a_file_with_other_schedules_changes_nothing_that_an_upgrade_would_not_mend() -> None:
    assert known(changed(schedules=[{"slug": "weekly", "cron": "0 2 * * 1"}]), OWN).note() == OWN


def test_deploying_leadlines_file_by_hand_takes_everything_back() -> None:
    noted = OWN | {EVALUATE: OTHER}
    by_hand = known(read_deployment_file(), noted)
    assert by_hand.standing(EVALUATE) is None
    assert by_hand.note() == OWN


def test_a_part_of_a_file_is_no_word_about_the_rest() -> None:
    part = changed(concurrency_limit={"limit": 9}).model_copy(update={"automations": (), "work_pools": ()})
    assert known(part, OWN).note() == OWN | {EVALUATE: OTHER}
