//! Requirements of every store. Only the list at the end of this file knows the implementations.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod answers;
mod approvals;
mod attachments;
mod channel;
mod clock;
mod effects;
mod failures;
mod fences;
mod files;
mod forgetting;
mod history;
mod inboxes;
mod leases;
mod library;
mod list_ranges;
mod log;
mod members;
mod proposals;
mod race;
mod reports;
mod rules;
mod runs;
mod spend;
mod suggestions;
mod tasks;
mod team;

use std::{sync::Arc, time::Duration};

use agent_worker_store::{Database, Store};

/// A case of the usual size that takes longer is stuck, also on a slow machine.
const CASE_TIMEOUT: Duration = Duration::from_mins(2);

/// Makes a test of each case for each store.
macro_rules! conformance {
    ($($topic:ident { $($case:ident),* $(,)? })*) => {
        mod file {$(
            mod $topic {$(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let folder = tempfile::tempdir().unwrap();
                    let store = crate::Database::open(folder.path()).unwrap();
                    crate::in_time(store, crate::$topic::$case).await;
                }
            )*}
        )*}
        mod memory {$(
            mod $topic {$(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let store = crate::Database::in_memory().unwrap();
                    crate::in_time(store, crate::$topic::$case).await;
                }
            )*}
        )*}
    };
}

async fn in_time<F: Future<Output = ()>>(store: Database, case: impl FnOnce(Arc<dyn Store>) -> F) {
    let limit = CASE_TIMEOUT * (race::rounds() / race::DEFAULT_ROUNDS).max(1);
    let outcome = tokio::time::timeout(limit, case(Arc::new(store.clone()))).await;
    assert!(outcome.is_ok(), "the case was not finished within {limit:?}");
    store.close().await;
}

conformance! {
    spend {
        the_spend_of_a_start_counts_for_a_day_and_that_of_a_run_for_ever,
        a_window_never_counts_less_than_a_day_and_never_more_than_ten_minutes_more,
        a_call_without_a_report_counts_with_what_it_reserved_and_is_told_apart,
        a_refused_call_reserves_nothing_and_pauses_the_team,
        a_standalone_agent_has_spend_of_its_own_until_it_is_resumed,
    }
    tasks {
        a_task_starts_and_ends_once_with_everything_that_it_gave,
        a_task_that_sends_writes_its_message_with_its_first_start_only,
        a_task_that_sends_again_has_one_message_for_each_attempt,
        a_command_without_a_result_may_start_again,
        a_task_that_never_starts_has_a_final_row,
        no_task_starts_in_a_run_that_is_not_running,
        the_tasks_of_a_run_go_with_its_instance,
    }
    answers {
        the_answer_is_the_final_text_of_the_attempt_that_acted,
        without_a_final_text_the_answer_is_what_was_replied,
        an_answer_of_an_attempt_that_failed_is_not_written,
        an_answer_is_delivered_to_the_recipients_that_the_rule_decides,
        an_answer_beyond_a_limit_is_stored_and_pauses_the_run,
        the_agents_that_an_activation_messaged_are_known_at_its_end,
        agents_that_an_earlier_attempt_with_the_same_message_messaged_are_known,
        an_answer_is_linked_to_the_messages_that_its_turn_acted_on,
        the_newest_answer_of_each_agent_belongs_to_its_run,
        the_coordinator_and_the_finisher_set_a_verdict_that_never_becomes_better,
    }
    attachments {
        the_files_of_a_message_come_back_as_they_were_sent,
        a_refused_message_leaves_no_file,
        a_repeated_message_stores_its_files_once,
        a_redelivered_message_has_its_files_again,
        files_live_as_long_as_a_message_that_has_them,
    }
    channel {
        a_reader_sees_no_gap_while_eight_write,
        a_message_comes_back_as_it_was_written,
        a_thread_is_a_message_and_whatever_replies_to_it,
        a_message_reaches_each_recipient_once,
        a_message_with_an_unknown_recipient_is_refused_whole,
        without_a_live_run_no_message_can_be_sent,
        a_channel_is_read_from_either_end,
        a_time_has_a_position_in_the_channel,
        a_channel_is_read_by_run_and_by_text,
        a_text_is_found_whatever_its_letters_and_however_short,
        a_search_goes_from_either_end_and_stops_at_its_limit,
        what_was_forgotten_is_not_found,
        a_message_over_a_limit_is_stored_and_its_run_paused_in_one_step,
    }
    clock {
        store_time_passes_and_never_goes_back,
        a_backoff_ends_by_the_stores_clock_however_the_wall_clock_is_set,
        a_turn_counts_for_a_day_of_the_stores_clock,
        a_vote_is_open_until_its_time_is_up_on_the_stores_clock,
        a_deadline_is_shown_on_the_wall_clock_of_the_caller,
        a_providers_reset_time_is_converted_once,
    }
    effects {
        two_equal_calls_are_two_effects_and_a_retry_repeats_neither,
        a_key_stands_for_one_call,
        a_users_key_outlives_the_run_and_expires,
        each_caller_has_its_own_keys,
        an_agents_keys_go_when_nothing_it_was_shown_is_open,
        the_journal_has_what_attempts_did_that_were_shown_the_same,
        the_journal_knows_mail_that_was_only_looked_at,
    }
    failures {
        a_poison_message_dies_alone_after_three_attempts,
        a_dead_letter_is_notified_and_listed_and_can_be_tried_again,
        ten_uncounted_failures_in_a_row_are_enough,
        a_counted_failure_ends_the_row_of_uncounted_ones,
        an_attempt_without_blame_never_counts,
        the_last_failure_of_an_agent_stays_with_its_run,
        a_message_that_no_attempt_holds_can_be_given_up,
    }
    fences {
        a_late_attempt_is_refused_before_and_after_the_next_lease,
        an_attempt_writes_in_its_own_instance_only,
        names_differ_in_more_than_case,
    }
    files {
        a_text_from_a_file_becomes_a_revision_and_its_slots_base_in_one_step,
        a_confirmed_exchange_moves_the_base_of_the_file_to_the_out_slot,
        bases_are_deleted_once_they_are_old_and_in_no_slot,
        a_text_that_cannot_be_merged_is_kept_and_reported_until_the_conflict_is_closed,
    }
    forgetting {
        what_is_kept_while_its_run_lives_is_forgotten_after,
        numbers_are_never_given_out_again,
        runs_that_are_kept_lose_nothing_to_one_that_is_not,
    }
    history {
        a_turn_is_read_as_its_worker_reported_it,
        a_history_is_read_in_parts,
        texts_of_a_run_are_short_after_its_limit,
        a_text_of_any_size_is_cut,
        old_history_is_deleted_and_says_so,
        the_history_goes_with_its_run_and_its_instance,
        attempts_are_listed_in_parts_and_found_by_their_ids,
    }
    inboxes {
        an_inbox_shows_waking_mail_first_then_urgent_then_by_age,
        only_what_was_shown_and_named_is_acked,
        mail_for_a_running_turn_joins_it_when_its_program_has_it,
        mail_for_a_running_turn_starts_the_next_one_if_the_turn_ends_first,
        mail_that_joined_a_failed_turn_goes_back_as_it_came,
        what_an_attempt_was_shown_is_remembered_with_its_hops,
    }
    leases {
        of_thirty_two_racers_one_gets_the_lease,
        mail_that_does_not_wake_waits_for_mail_that_does,
        an_activation_keeps_its_name_over_uncounted_failures,
        mail_that_is_to_be_taken_alone_is,
        one_activation_takes_at_most_twenty_messages,
        an_agent_that_is_stopped_or_not_due_is_not_leased,
        a_run_that_does_not_run_leases_nothing,
        a_limit_pauses_the_run_in_the_lease,
        a_standalone_agent_at_its_limit_is_stopped_alone,
        a_token_finds_its_attempt_while_it_lives,
    }
    list_ranges {
        the_parts_of_a_list_are_the_whole_list,
        ended_runs_are_read_in_parts_of_one_instance_or_of_all,
        runs_that_ended_since_a_time_are_listed,
        an_inbox_is_read_in_parts_in_its_order,
        a_channel_is_read_back_from_any_message,
        the_messages_for_an_agent_are_read_in_parts_from_either_end,
    }
    library {
        a_run_lists_the_documents_that_were_written_in_it_last,
        documents_lose_no_update,
        a_document_is_written_once_per_key,
        documents_with_an_owner_are_written_by_no_other_agent,
        a_document_grows_no_longer_than_it_may,
        a_write_follows_what_its_attempt_last_read,
        a_revision_knows_the_attempt_that_wrote_it,
        no_document_is_where_another_needs_a_folder,
        a_resource_is_kept_once_under_its_hash,
        a_large_resource_is_read_in_parts,
    }
    log {
        events_replay_what_happened_with_the_messages_themselves,
        an_event_of_another_version_is_read_as_it_was_written,
        the_events_of_one_run_are_read_by_themselves,
        a_change_wakes_its_waiter_once_it_is_committed,
        a_token_is_given_once_and_can_be_taken_back,
        a_heartbeat_is_found_again,
    }
    members {
        an_agent_joins_a_live_run_under_a_name_that_is_free,
        a_stopped_agent_is_not_woken_until_it_is_resumed,
        a_new_script_replaces_the_settings_of_an_agent_once,
        an_agent_that_leaves_takes_its_open_mail_with_it,
        a_paused_run_goes_on_within_its_new_limits,
        what_was_cleared_is_hidden_and_kept,
        a_removed_instance_leaves_nothing_behind,
        attempts_and_turns_are_listed_newest_first,
        it_is_known_since_when_a_run_and_its_agents_stand_as_they_do,
        feedback_about_the_program_is_kept,
    }
    approvals {
        a_request_is_kept_to_the_letter_and_answered_once_by_no_agent,
        an_answer_is_returned_to_one_call_however_often_that_asks,
        the_next_attempt_takes_over_exactly_what_the_last_one_asked,
        a_request_without_a_waiting_attempt_cannot_be_answered,
        an_attempt_that_waits_is_held_and_its_run_goes_on_with_the_answer,
        of_many_answers_at_once_one_counts,
        a_grant_answers_the_later_calls_of_its_agent_until_it_is_revoked,
        a_grant_answers_the_open_requests_that_it_covers,
        a_grant_ends_with_its_run_and_with_its_agent,
    }
    proposals {
        a_vote_counts_decides_binds_and_tells_in_one_step,
        what_is_decided_never_changes,
        a_voter_has_one_ballot_and_may_change_it,
        a_caller_outside_the_electorate_cannot_vote_and_only_the_creator_cancels,
        a_client_with_a_persons_right_votes_and_takes_back,
        an_assignment_gives_the_work_to_one_and_spares_the_others,
        only_a_vote_opens_a_gate,
        a_run_that_ends_takes_back_what_is_voted_on,
        a_kickoff_waits_for_its_election_and_comes_with_its_end,
        a_question_is_answered_once_and_its_run_goes_on,
        of_many_votes_at_once_one_decides,
    }
    race {
        a_run_never_ends_with_waking_mail,
    }
    suggestions {
        a_suggestion_wakes_the_owner_and_is_answered_once,
        accepting_an_exact_edit_writes_it,
        a_passage_that_is_not_there_once_is_refused_when_it_is_suggested_and_when_it_is_accepted,
        only_who_may_not_write_suggests_and_only_who_may_answers,
    }
    reports {
        each_number_is_stored_once_and_none_is_left_out,
        what_was_used_adds_up,
        a_clear_ends_the_conversations_also_that_of_a_running_turn,
        a_conversation_goes_on_until_a_failure_that_counts,
        each_attempt_keeps_its_own_conversation,
        the_last_word_is_kept,
        an_ended_attempt_reports_nothing_more,
    }
    runs {
        an_instance_is_found_again_by_its_names,
        an_instance_has_one_live_run,
        a_run_starts_once,
        who_is_not_named_again_takes_no_part_but_keeps_its_epoch,
        the_facts_are_what_is_open,
        a_turn_counts_for_a_day_and_an_interrupted_one_never,
        the_facts_show_when_all_agents_wait,
        a_step_is_carried_out_only_where_it_fits,
        an_end_drops_what_is_open_and_shuts_out_who_works,
        an_ended_run_is_not_decided_again,
        runs_are_listed_newest_first,
        time_counts_only_while_a_run_can_work,
    }
}
