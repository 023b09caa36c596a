"""The table of guards stays whole and true while the code moves."""

from tests.movement.mutants import ELSEWHERE, MUTANTS, stale

OF_THE_MODEL = """
ack_no_inc ack_before_commit demote_dirty demote_keeps_token hydrate_no_token hydrate_resident trim_dirty
trim_keeps_floor trim_blobs put_blind no_need no_orphans ns_assumed_empty by_id_hot_only by_id_hot_row cold_first
regular_hot_wins special_cold_wins hot_regular_overwrite arch_regular_overwrite arch_special_nothing log_once
row_before_blobs arch_no_lock arch_read_before_lock destroy_no_evict destroy_evict_late destroy_keeps_token evict_dirty
no_shared_lock snapshot_before_lock retention_age_early no_parent_check no_run_hist copy_no_archive no_hist_check
tok_no_hist no_zombie_check heal_no_skip delete_drops_row drop_no_inc inc_from_row hint_only ack_zrem wt_ack_early
wt_log_empty_ack put_no_lock_check lock_no_hist naive_keeps_token
"""


def test_every_guard_names_a_line_and_a_test_that_exist() -> None:
    assert list(stale()) == []


def test_every_guard_of_the_model_is_in_the_table() -> None:
    named = {name for mutant in MUTANTS for name in mutant.guard.split(", ")}

    assert set(OF_THE_MODEL.split()) - named - set(ELSEWHERE) == set()
