//! What every backend must do, one function per rule. A backend's tests implement [`Harness`] and call
//! [`conformance_suite!`](crate::conformance_suite); a decorator of a backend does the same.

pub mod blobs;
pub mod breaker;
pub mod clock;
pub mod coordinator;
pub mod dead_letters;
pub mod deletion;
pub mod events;
pub mod ingest;
pub mod jobs;
pub mod keys;
pub mod notices;
pub mod once;
pub mod proof;
pub mod queue;
pub mod quotas;
pub mod records;
pub mod refs;
pub mod reruns;
pub mod restore;
pub mod retention;
pub mod schedules;
pub mod spend;
pub mod tasks;
pub mod uploads;
mod world;

use crate::Backend;
use async_trait::async_trait;
use std::time::Duration;
pub use world::{World, success};

/// A backend under test.
#[async_trait]
pub trait Harness: Send + Sync {
    /// The backend, empty when the test begins.
    fn backend(&self) -> Backend;

    /// What a new process finds after this one was killed at this moment.
    async fn crash(&self) -> Box<dyn Harness>;

    /// Lets time pass for the backend. One that goes by the time it is told has nothing to do.
    async fn wait(&self, _time: Duration) {}

    /// What the clock of the backend says, counted from some moment. None of one that goes by the time it is told.
    fn clock(&self) -> Option<Duration> {
        None
    }
}

/// Makes one test of every rule, of those of one area: `conformance_suite!(queue: open())`, or of all areas that see more
/// than queues or objects: `conformance_suite!(store: open())`. `$open` is an expression of type `impl Harness`, evaluated
/// anew for each, in an async function.
#[macro_export]
macro_rules! conformance_suite {
    (blobs: $open:expr) => {
        $crate::conformance_suite! { @each $open;
            blobs::an_object_reads_back_by_range,
            blobs::a_missing_object_is_not_found,
            blobs::a_short_object_is_corrupt,
            blobs::a_body_is_verified_when_it_is_read,
            blobs::deleting_is_repeatable_and_stays_in_its_prefix,
            blobs::an_acknowledged_object_survives_a_crash,
            blobs::a_streamed_object_is_whole_and_pinned,
            blobs::a_stream_that_fails_leaves_no_object,
            blobs::other_bytes_than_the_pinned_are_never_read,
            blobs::joined_parts_are_one_object,
            blobs::objects_are_listed_by_their_keys_page_by_page,
        }
    };
    (breaker: $open:expr) => {
        $crate::conformance_suite! { @each $open;
            breaker::a_run_that_fails_too_much_is_paused_and_says_why,
            breaker::a_resumed_run_is_judged_by_what_comes_then,
        }
    };
    (clock: $open:expr) => {
        $crate::conformance_suite! { @each $open;
            clock::a_jump_of_the_clock_removes_nothing,
            clock::a_time_that_holds_for_an_hour_removes_what_is_past_it,
            clock::a_time_that_is_confirmed_removes_what_is_past_it,
        }
    };
    (coordinator: $open:expr) => {
        $crate::conformance_suite! { @each $open;
            coordinator::permits_never_pass_the_cap,
            coordinator::a_repeated_request_changes_nothing,
            coordinator::a_lapsed_share_is_given_to_others,
            coordinator::permits_in_use_are_kept_when_the_cap_falls,
            coordinator::later_limits_bind_those_who_do_not_know_of_them,
            coordinator::starts_never_pass_the_rate_while_many_ask,
            coordinator::starts_go_to_those_who_have_permits,
            coordinator::a_held_budget_starts_nothing_until_its_time,
            coordinator::a_budget_shows_what_is_held_taken_and_waited_for,
            coordinator::sites_are_their_callers_own_and_listed_by_name,
            coordinator::what_was_taken_of_a_rate_survives_a_crash,
        }
    };
    (dead_letters: $open:expr) => {
        $crate::conformance_suite! { @each $open;
            dead_letters::a_letter_that_comes_again_is_the_same_letter,
            dead_letters::letters_page_by_their_ids,
            dead_letters::of_two_who_send_a_letter_again_one_counts,
        }
    };
    (deletion: $open:expr) => {
        $crate::conformance_suite! { @each $open;
            deletion::a_live_run_is_deleted_and_its_job_is_closed,
            deletion::a_run_that_ended_is_deleted_with_its_results,
            deletion::a_run_of_a_deleted_job_goes_with_its_job,
            deletion::the_ingest_of_a_deleted_run_is_over,
            deletion::a_deleted_run_lets_go_of_its_upload,
            deletion::nothing_of_a_run_that_is_kept_is_removed,
            deletion::a_run_that_is_not_there_cannot_be_deleted,
        }
    };
    (events: $open:expr) => {
        $crate::conformance_suite! { @each $open;
            events::a_timeline_says_what_happened_in_order,
            events::a_refused_change_did_not_happen,
        }
    };
    (ingest: $open:expr) => {
        $crate::conformance_suite! { @each $open;
            ingest::an_accepted_job_is_visible_and_calls_an_ingester,
            ingest::a_repeated_accept_changes_nothing,
            ingest::a_job_needs_an_upload_that_is_there,
            ingest::a_job_pins_only_what_is_staged_when_it_is_made,
            ingest::a_chunk_is_rows_refs_total_and_event,
            ingest::of_two_ingesters_one_wins_each_step,
            ingest::a_chunk_never_resets_a_settled_row,
            ingest::a_run_completes_with_its_latch_and_not_before,
            ingest::a_stopped_run_takes_no_more_rows_and_is_cut,
            ingest::a_run_keeps_what_is_expected_of_it,
            ingest::a_failed_list_fails_its_run,
            ingest::nothing_is_written_to_a_deleted_job,
            ingest::a_list_that_is_late_is_found_by_when_it_is_there,
        }
    };
    (jobs: $open:expr) => {
        $crate::conformance_suite! { @each $open;
            jobs::a_submitted_job_is_visible_whole,
            jobs::a_repeated_submit_changes_nothing,
            jobs::acknowledged_jobs_survive_a_crash,
            jobs::a_job_is_invisible_to_other_callers,
            jobs::rows_as_large_as_they_may_be_are_kept,
            jobs::jobs_page_newest_first_without_gaps,
            jobs::a_filtered_page_of_jobs_looks_at_no_more_than_it_may,
            jobs::concurrent_additions_never_share_an_index,
            jobs::a_refused_addition_writes_nothing,
            jobs::only_running_runs_are_active,
            jobs::completion_happens_once_and_never_early,
            jobs::a_command_on_an_unknown_job_is_not_found,
            jobs::a_paused_run_starts_nothing_until_it_is_resumed,
            jobs::a_paused_run_completes_and_can_be_stopped,
            jobs::changed_limits_are_kept_with_their_revision,
            jobs::runs_that_changed_are_found_by_when,
            jobs::what_becomes_visible_late_is_found_by_when_it_does,
        }
    };
    (keys: $open:expr) => {
        $crate::conformance_suite! { @each $open;
            keys::a_key_belongs_to_its_first_caller,
        }
    };
    (notices: $open:expr) => {
        $crate::conformance_suite! { @each $open;
            notices::a_run_that_completes_is_told_of_once,
            notices::nobody_is_told_of_an_end_that_did_not_happen,
            notices::only_a_state_machine_is_told_of_a_stop,
        }
    };
    (once: $open:expr) => {
        $crate::conformance_suite! { @each $open;
            once::a_submit_and_its_answer_are_one_step,
            once::an_accept_and_its_answer_are_one_step,
            once::an_addition_and_its_answer_are_one_step,
            once::a_new_run_and_its_answer_are_one_step,
            once::of_many_operations_under_one_claim_one_happens,
            once::an_answer_survives_a_crash_with_what_it_answers,
        }
    };
    (proof: $open:expr) => {
        $crate::conformance_suite! { @each $open;
            proof::a_tally_counts_rows_by_what_became_of_them,
            proof::a_tally_names_the_objects_of_results,
            proof::a_tally_is_exact_while_workers_settle,
            proof::a_correction_is_added_once,
            proof::nobody_sees_a_count_below_zero,
            proof::a_run_is_complete_by_its_corrected_counts,
        }
    };
    (queue: $open:expr) => {
        $crate::conformance_suite! { @each $open;
            queue::messages_come_once,
            queue::a_queue_that_never_was_is_empty,
            queue::every_message_of_a_long_list_arrives,
            queue::the_depth_tells_visible_from_hidden,
            queue::a_message_comes_back_after_the_visibility_timeout,
            queue::a_stale_receipt_harms_no_other_message,
            queue::an_extended_message_stays_hidden,
            queue::a_released_message_comes_back_after_its_delay,
            queue::concurrent_receivers_share_no_message,
            queue::a_message_received_too_often_is_dead_lettered,
            queue::messages_survive_a_crash,
            queue::a_removed_queue_is_empty,
        }
    };
    (quotas: $open:expr) => {
        $crate::conformance_suite! { @each $open;
            quotas::of_many_who_ask_at_once_as_many_are_let_in_as_there_is_room_for,
            quotas::tasks_that_are_added_at_once_never_exceed_what_may_be_queued,
            quotas::lists_that_are_counted_at_once_never_exceed_what_may_be_queued,
            quotas::a_job_that_ends_makes_room,
        }
    };
    (records: $open:expr) => {
        $crate::conformance_suite! { @each $open;
            records::a_record_is_written_only_over_what_was_expected,
            records::of_many_who_write_at_once_one_wins,
            records::records_page_by_id_both_ways_and_are_their_owners_own,
            records::records_are_found_by_when_they_are_due,
            records::what_is_due_is_paged_from_either_end,
        }
    };
    (refs: $open:expr) => {
        $crate::conformance_suite! { @each $open;
            refs::the_refs_of_tasks_are_messages_like_any_others,
        }
    };
    (reruns: $open:expr) => {
        $crate::conformance_suite! { @each $open;
            reruns::a_full_rerun_has_the_same_ids_and_begins_anew,
            reruns::runs_page_newest_first,
            reruns::a_partial_rerun_hands_down_what_is_not_done_again,
            reruns::of_many_who_begin_a_run_at_once_one_does,
            reruns::a_run_is_not_begun_while_another_lives,
            reruns::an_ingested_rerun_counts_what_is_there,
            reruns::a_run_that_is_read_stays_until_it_was,
            reruns::a_run_that_nothing_was_inherited_from_can_go,
            reruns::a_run_that_was_deleted_meanwhile_is_not_replayed,
        }
    };
    (restore: $open:expr) => {
        $crate::conformance_suite! { @each $open;
            restore::a_restored_task_is_terminal_and_counted_once,
            restore::a_terminal_task_stays_as_it_is,
            restore::whoever_holds_a_restored_task_has_lost_it,
            restore::tasks_are_restored_whatever_state_their_run_is_in,
            restore::only_ends_are_restored_and_only_to_tasks_of_the_run,
        }
    };
    (retention: $open:expr) => {
        $crate::conformance_suite! { @each $open;
            retention::a_deleted_job_is_removed_in_steps_and_disappears,
            retention::a_half_removed_job_can_still_be_read,
            retention::nothing_of_a_live_job_is_removed,
            retention::nobody_can_make_a_job_of_an_id_that_is_gone,
            retention::a_job_that_is_gone_is_looked_at_until_it_need_not_be,
            retention::what_comes_after_a_job_is_gone_can_be_removed,
            retention::only_runs_that_ended_before_a_moment_are_past_their_time,
            retention::what_was_counted_of_a_run_outlives_its_rows,
            retention::a_job_past_its_time_lets_go_of_its_upload,
        }
    };
    (schedules: $open:expr) => {
        $crate::conformance_suite! { @each $open;
            schedules::a_template_is_kept_and_nobody_sees_or_works_on_it,
            schedules::a_template_is_not_removed_by_age_and_goes_with_its_job,
            schedules::a_schedule_is_found_when_it_is_due_and_not_while_it_is_paused,
            schedules::changes_of_a_schedule_are_in_the_timeline,
            schedules::jobs_are_listed_with_or_without_a_schedule,
            schedules::a_list_of_a_template_is_claimed_for_as_long_as_its_job,
            schedules::a_fire_makes_a_run_of_the_template_and_moves_the_schedule_on,
            schedules::of_many_who_fire_at_once_one_makes_a_run,
            schedules::a_fire_over_a_live_run_is_skipped_once_and_recorded,
            schedules::nothing_fires_of_a_paused_or_deleted_job,
        }
    };
    (spend: $open:expr) => {
        $crate::conformance_suite! { @each $open;
            spend::every_attempt_is_added_once_whatever_came_of_it,
            spend::a_repeated_settle_costs_nothing_more,
            spend::what_was_spent_survives_a_crash_and_a_correction,
            spend::sums_are_exact_however_large,
        }
    };
    (tasks: $open:expr) => {
        $crate::conformance_suite! { @each $open;
            tasks::put_if_absent_never_resets_a_row,
            tasks::a_hundred_claims_leave_one_that_can_settle,
            tasks::a_hundred_settles_of_one_claim_count_once,
            tasks::a_settle_repeated_after_a_lost_answer_counts_once,
            tasks::a_settle_that_is_broken_off_is_counted_or_did_not_happen,
            tasks::a_superseded_claim_cannot_settle,
            tasks::a_terminal_task_cannot_be_claimed,
            tasks::a_retry_waits_and_keeps_its_history,
            tasks::a_release_burns_no_attempt,
            tasks::too_many_claims_exhaust_a_task,
            tasks::claims_that_reach_an_end_exhaust_nothing,
            tasks::tasks_of_a_stopped_run_cannot_be_claimed_but_still_settle,
            tasks::foreign_and_unknown_tasks_are_gone,
            tasks::one_lost_settle_does_not_spoil_its_group,
            tasks::failures_are_counted_by_class,
            tasks::pages_are_dense_ordered_and_complete,
            tasks::filtered_pages_are_dense,
            tasks::a_filtered_page_looks_at_no_more_than_it_may,
            tasks::a_filtered_list_has_each_row_once_while_they_change,
            tasks::pages_are_stable_under_concurrent_writes,
            tasks::stats_never_pass_the_total_while_workers_race,
            tasks::settles_survive_a_crash,
        }
    };
    (uploads: $open:expr) => {
        $crate::conformance_suite! { @each $open;
            uploads::an_upload_is_its_callers_own_and_survives_a_crash,
            uploads::staged_bytes_can_be_replaced_until_a_job_is_made_of_them,
            uploads::parts_are_replaced_by_number,
            uploads::uploads_page_newest_first,
            uploads::a_page_of_uploads_looks_at_no_more_than_it_may,
            uploads::a_caller_cannot_have_too_many_unused_uploads,
            uploads::an_expired_or_aborted_upload_is_gone_before_it_is_removed,
            uploads::an_upload_that_is_wanted_is_never_marked,
            uploads::an_upload_stays_while_a_job_needs_it,
        }
    };
    (@each $open:expr; $($area:ident :: $rule:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $rule() {
                let harness = $open;
                $crate::conformance::$area::$rule(&harness).await;
            }
        )*
    };
    (store: $open:expr) => {
        $crate::conformance_suite! { breaker: $open }
        $crate::conformance_suite! { clock: $open }
        $crate::conformance_suite! { coordinator: $open }
        $crate::conformance_suite! { dead_letters: $open }
        $crate::conformance_suite! { deletion: $open }
        $crate::conformance_suite! { events: $open }
        $crate::conformance_suite! { ingest: $open }
        $crate::conformance_suite! { jobs: $open }
        $crate::conformance_suite! { keys: $open }
        $crate::conformance_suite! { notices: $open }
        $crate::conformance_suite! { once: $open }
        $crate::conformance_suite! { proof: $open }
        $crate::conformance_suite! { quotas: $open }
        $crate::conformance_suite! { records: $open }
        $crate::conformance_suite! { refs: $open }
        $crate::conformance_suite! { reruns: $open }
        $crate::conformance_suite! { restore: $open }
        $crate::conformance_suite! { retention: $open }
        $crate::conformance_suite! { schedules: $open }
        $crate::conformance_suite! { spend: $open }
        $crate::conformance_suite! { tasks: $open }
        $crate::conformance_suite! { uploads: $open }
    };
    ($open:expr) => {
        $crate::conformance_suite! { blobs: $open }
        $crate::conformance_suite! { queue: $open }
        $crate::conformance_suite! { store: $open }
    };
}

/// The names of all rules, read off the source.
pub fn rules() -> Vec<String> {
    let of = |(area, text): (&'static str, &'static str)| {
        text.lines()
            .filter_map(|line| line.strip_prefix("pub async fn ")?.split('(').next())
            .map(move |rule| format!("{area}::{rule}"))
    };
    SOURCES.iter().copied().flat_map(of).collect()
}

const SOURCES: &[(&str, &str)] = &[
    ("blobs", include_str!("blobs.rs")),
    ("breaker", include_str!("breaker.rs")),
    ("clock", include_str!("clock.rs")),
    ("coordinator", include_str!("coordinator.rs")),
    ("dead_letters", include_str!("dead_letters.rs")),
    ("deletion", include_str!("deletion.rs")),
    ("events", include_str!("events.rs")),
    ("ingest", include_str!("ingest.rs")),
    ("jobs", include_str!("jobs.rs")),
    ("keys", include_str!("keys.rs")),
    ("notices", include_str!("notices.rs")),
    ("once", include_str!("once.rs")),
    ("proof", include_str!("proof.rs")),
    ("queue", include_str!("queue.rs")),
    ("quotas", include_str!("quotas.rs")),
    ("records", include_str!("records.rs")),
    ("refs", include_str!("refs.rs")),
    ("reruns", include_str!("reruns.rs")),
    ("restore", include_str!("restore.rs")),
    ("retention", include_str!("retention.rs")),
    ("schedules", include_str!("schedules.rs")),
    ("spend", include_str!("spend.rs")),
    ("tasks", include_str!("tasks.rs")),
    ("uploads", include_str!("uploads.rs")),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// A rule that is written but not listed would never run.
    #[test]
    fn every_rule_is_listed() {
        let suite = include_str!("mod.rs");
        for (area, _) in SOURCES {
            assert!(suite.contains(&format!("conformance_suite! {{ {area}: $open }}")), "{area} is left out");
        }
        for rule in rules() {
            assert!(suite.contains(&format!("            {rule},\n")), "{rule} is not part of the suite");
        }
    }

    #[test]
    fn every_area_is_looked_at() {
        let areas = include_str!("mod.rs").lines().filter_map(|line| line.strip_prefix("pub mod "));
        assert_eq!(areas.count(), SOURCES.len());
    }
}
