//! The promises of the port, one function each, in a file for each noun.

mod agents;
mod calls;
mod clients;
mod ends;
mod inbox;
mod past;
mod replies;
mod retention;
mod reviews;
mod search;
mod tracing;
mod turns;

use crate::StoreSites;
use crate::story::StoryMove;
use crate::world::StoreWorld;
use throughline_core::session::Rules;

/// Every test there is.
pub fn suite(sites: StoreSites<'_>) {
    turns::a_turn_is_two_commits_and_every_commit_can_be_loaded(sites);
    turns::p3_a_late_owner_is_refused(sites);
    turns::a_refused_commit_leaves_its_neighbours_standing(sites);
    turns::what_is_held_is_found_with_its_age(sites);
    turns::p4_a_silenced_session_stays_silent_through_a_restart(sites);
    turns::a_turn_that_uses_up_its_budget_is_known_to_have(sites);
    turns::calls_that_lead_nowhere_are_counted_through_a_restart(sites);
    turns::a_failed_turn_is_tried_again_as_the_same_turn(sites);
    turns::a_session_keeps_its_prompt_and_its_owner(sites);
    turns::starts_are_counted_and_cursors_kept(sites);
    inbox::p7_the_same_message_is_accepted_once(sites);
    inbox::p8_what_waits_moves_to_the_next_session(sites);
    inbox::p8_long_texts_wait_on_disk_and_move_whole(sites);
    inbox::an_input_without_its_texts_is_refused(sites);
    ends::p20_a_conversation_ends_by_itself_and_the_next_knows_of_it(sites);
    ends::p20_every_commit_of_a_hand_over_can_be_the_last(sites);
    ends::p20_what_was_set_aside_is_found_by_name(sites);
    reviews::p22_a_review_is_about_the_view_it_fell_due_on(sites);
    reviews::p22_a_review_that_is_over_stays_over(sites);
    calls::p9_an_open_group_survives_and_closes_whole(sites);
    calls::p9_questions_and_grants_wait_through_a_restart(sites);
    calls::p9_every_commit_of_a_turn_with_calls_can_be_the_last(sites);
    calls::p4_a_stopped_turn_leaves_nothing_open_and_loses_nothing(sites);
    calls::what_a_result_sends_leaves_with_it(sites);
    agents::a_chain_between_agents_is_counted_and_cut_with_one_notice(sites);
    agents::a_session_that_works_for_another_is_found_by_it_and_not_listed(sites);
    replies::p10_a_delivered_reply_stays_delivered(sites);
    replies::p10_a_preview_is_known_until_its_reply_takes_its_place(sites);
    clients::a_clients_own_history_finds_where_it_goes_on(sites);
    clients::an_implicit_key_finds_the_newest_request(sites);
    search::p31_search_shows_only_the_callers_own(sites);
    search::p31_a_person_sees_their_own_sessions_and_those_of_their_chat(sites);
    search::what_was_said_around_a_row_can_be_read(sites);
    tracing::p30_a_message_can_be_followed(sites);
    tracing::p30_calls_questions_and_stops_can_be_followed(sites);
    retention::p26_a_turn_is_kept_until_its_provider_has_it(sites);
    retention::p26_of_what_is_kept_the_last_rows_stay(sites);
    retention::p26_nothing_stays_buffered_over_a_stop(sites);
    retention::p24_nothing_stays_buffered_when_its_conversation_ends_by_itself(sites);
    retention::p24_what_is_due_is_not_handed_over_before_what_is_older_in_its_document(sites);
    retention::p26_a_long_backlog_of_one_document_hides_no_other(sites);
    retention::p27_a_name_stays_and_two_chats_never_share_one(sites);
    past::p4_what_is_taken_back_is_kept_and_can_be_brought_back(sites);
    past::p4_a_message_is_asked_again_and_stands_there_once(sites);
    past::p4_a_copy_goes_on_and_the_original_stays(sites);
    past::p4_a_switch_is_refused_where_something_has_changed(sites);
}

pub(crate) fn world(sites: StoreSites<'_>) -> StoreWorld {
    StoreWorld::new(sites(), Rules::default())
}

pub(crate) fn says(place: u8, text: &str) -> StoryMove {
    StoryMove::Says { place, text: text.into() }
}

pub(crate) fn answers(place: u8, text: &str) -> StoryMove {
    StoryMove::Answers { place, text: text.into(), tokens: 10 }
}
