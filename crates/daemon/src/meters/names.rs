//! All metrics: kind, name and help, which Prometheus shows. A test finds what is missing here.

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    /// How values are distributed over buckets with these upper bounds.
    Histogram(&'static [f64]),
}

use Kind::{Counter, Gauge, Histogram};

/// Seconds of what waits for models, tools and networks.
const LONG: &[f64] = &[0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0];

/// Seconds of what the program itself does.
const SHORT: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];

/// Seconds of a disk.
const DISK: &[f64] =
    &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// Seconds of locks.
const LOCK: &[f64] = &[0.000_001, 0.000_01, 0.0001, 0.001, 0.01, 0.1];

/// Shares; the tiers begin at 0.8, 0.85 and 0.95 unless configured otherwise.
const SHARE: &[f64] = &[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0];

#[rustfmt::skip]
pub(super) const METRICS: &[(Kind, &str, &str)] = &[
    (Counter, "cairn_accepted_total", "Messages that were accepted and are durable"),
    (Counter, "cairn_actor_restarts_total", "Actors that were started again after a failure"),
    (Counter, "cairn_adapter_failures_total", "Failures of a chat network's adapter; lasting: an operator must act"),
    (Gauge, "cairn_actors_silent", "Actors that did not answer the watchdog last time"),
    (Gauge, "cairn_adapter_state", "1 for the state in which a chat network's adapter is, 0 for the others"),
    (Counter, "cairn_admin_connections_total", "Connections of the admin address by outcome; slow: closed, it took too long"),
    (Gauge, "cairn_agent_models_well", "Models of an agent's chain that are usable and have not failed since they last answered"),
    (Counter, "cairn_amendments_total", "Edits and deletions of messages that were accepted"),
    (Counter, "cairn_approvals_total", "Requests for approval that ended, and calls that always_allow let through"),
    (Counter, "cairn_artifact_bytes_total", "Bytes of results that were kept as artifacts"),
    (Counter, "cairn_artifacts_expired_total", "Artifacts that expired unread"),
    (Counter, "cairn_artifacts_lost_total", "Large results that could not be kept"),
    (Counter, "cairn_artifacts_stored_total", "Large results that were kept as artifacts"),
    (Counter, "cairn_attachments_failed_total", "Attachments that could not be fetched"),
    (Counter, "cairn_backups_total", "Backups that ended, by outcome"),
    (Gauge, "cairn_build_info", "1, with the version as a label"),
    (Histogram(SHARE), "cairn_cached_ratio", "Share of a request's tokens that the model's server had in its cache"),
    (Gauge, "cairn_channels", "Channels ever seen"),
    (Gauge, "cairn_channels_awake", "Channels with a running actor"),
    (Counter, "cairn_command_failures_total", "Commands given in chats that failed"),
    (Counter, "cairn_commands_total", "Commands given in chats that were run"),
    (Gauge, "cairn_deliveries_owed", "Deliveries to chat networks that the outbox works on"),
    (Counter, "cairn_deliveries_total", "Deliveries to chat networks that came to an end"),
    (Counter, "cairn_delivery_retries_total", "Parts of deliveries that were sent again"),
    (Counter, "cairn_digests_total", "Summaries that were made without a model, because none could"),
    (Counter, "cairn_discord_changes_dropped_total", "Edits and deletions on Discord dropped for want of room"),
    (Counter, "cairn_discord_lane_full_total", "Times that too much was waiting in a channel of Discord"),
    (Counter, "cairn_discord_limited_total", "Rate limits of Discord that were hit"),
    (Counter, "cairn_discord_passed_over_total", "Events of Discord that were skipped"),
    (Counter, "cairn_discord_reconnects_total", "Connections to Discord's gateway that were made again"),
    (Counter, "cairn_discord_unreadable_total", "Events of Discord that could not be read"),
    (Gauge, "cairn_disk_free_bytes", "Bytes that are free for the daemon where the state folder is"),
    (Gauge, "cairn_disk_size_bytes", "Bytes of the file system where the state folder is"),
    (Counter, "cairn_emergencies_total", "Times that messages left a window before a run had summarised them"),
    (Counter, "cairn_erasures_failed_total", "Erasures that failed at a start and stay pending"),
    (Counter, "cairn_erasures_total", "Persons that were erased"),
    (Counter, "cairn_errors_total", "Errors by kind: model_, turn_, delivery_ and what it was"),
    (Counter, "cairn_failovers_total", "Times that another model of a chain took over"),
    (Counter, "cairn_fetches_total", "Calls of the tool fetch"),
    (Counter, "cairn_journal_failures_total", "Writes of the journal that failed; what waited for them was refused"),
    (Gauge, "cairn_journal_bytes", "Bytes of the journal"),
    (Gauge, "cairn_journal_records", "Number of the last durable event"),
    (Gauge, "cairn_journal_segments", "Files of the journal"),
    (Histogram(DISK), "cairn_journal_sync_seconds", "How long a write with its sync takes"),
    (Counter, "cairn_library_warnings_total", "Warnings and errors of libraries, whose words are not logged"),
    (Gauge, "cairn_mcp_running", "Tool servers that run"),
    (Counter, "cairn_mcp_blocked_total", "Times that a tool server differed from what was approved"),
    (Histogram(LONG), "cairn_mcp_call_seconds", "How long calls of a tool server take"),
    (Counter, "cairn_mcp_failures_total", "Failures of tool servers"),
    (Counter, "cairn_mcp_starts_total", "Starts of tool servers"),
    (Gauge, "cairn_memories", "Memories of an agent, in all scopes"),
    (Counter, "cairn_memories_refused_total", "Memories of runs that rested on tool results alone"),
    (Counter, "cairn_memories_saved_total", "Memories saved, by runs and by calls of memory_save"),
    (Counter, "cairn_model_failures_total", "Calls of models that failed, by the typed error"),
    (Histogram(LONG), "cairn_model_seconds", "How long a model takes for one request of a turn"),
    (Gauge, "cairn_model_state", "1 for the state in which a model of an agent's chain is, 0 for the others"),
    (Counter, "cairn_notices_total", "Notices that adapters sent on their own"),
    (Gauge, "cairn_outbox_deliveries", "Deliveries that a chat network has not confirmed: owed, dead, unknown"),
    (Gauge, "cairn_outbox_oldest_seconds", "Age of the oldest delivery that is still owed; 0 if there is none"),
    (Counter, "cairn_overflow_retries_total", "Requests that were made smaller because a model found them too large"),
    (Counter, "cairn_overflows_total", "Requests that a model found too large"),
    (Counter, "cairn_patience_total", "Times that people were told that no model answers"),
    (Gauge, "cairn_pending_messages", "Messages that are durable and in no turn yet, over all channels awake"),
    (Gauge, "cairn_platform_connected", "1 while a chat network is connected"),
    (Counter, "cairn_platform_inbound_total", "Events that came in from a chat network"),
    (Histogram(LONG), "cairn_platform_latency_seconds", "Round trips to a chat network"),
    (Counter, "cairn_platform_outbound_total", "Requests that went out to a chat network"),
    (Gauge, "cairn_platform_queue", "Events of a chat network that wait to be handled"),
    (Counter, "cairn_pruned_results_total", "Results of tools that are sent shorter"),
    (Counter, "cairn_pruned_tokens_total", "Tokens saved by that"),
    (Gauge, "cairn_ready", "1 while messages are accepted and the store can be written, as /v1/health says"),
    (Counter, "cairn_refusals_total", "Messages that were refused"),
    (Counter, "cairn_reloads_total", "Reloads of the configuration, by outcome"),
    (Counter, "cairn_retention_passes_total", "Passes of retention, by outcome"),
    (Histogram(LONG), "cairn_retention_seconds", "How long a pass of retention takes"),
    (Histogram(LONG), "cairn_run_seconds", "How long compaction runs take"),
    (Gauge, "cairn_runs_open", "Compaction runs under way"),
    (Counter, "cairn_runs_started_total", "Compaction runs that began"),
    (Counter, "cairn_runs_total", "Compaction runs that ended, by the tier at which they began, trigger and outcome"),
    (Gauge, "cairn_scrape_ok", "1 when the store answered this scrape"),
    (Histogram(LONG), "cairn_share_wait_seconds", "How long a call of a model waited because its person had as many at work as one may"),
    (Counter, "cairn_slides_total", "Times that the engine sliding dropped turns"),
    (Counter, "cairn_socket_connections_total", "Connections of the socket by outcome; slow: closed, no request came in time"),
    (Gauge, "cairn_spent_today", "What the day has cost, in the currency of the models' prices"),
    (Gauge, "cairn_store_damage", "Damaged places of the journal that the last check in the background found"),
    (Counter, "cairn_summaries_mended_total", "Summaries that were repaired without a model"),
    (Counter, "cairn_telegram_late_total", "Messages on Telegram that were too old to be answered"),
    (Counter, "cairn_telegram_poll_failures_total", "Calls for updates that Telegram did not answer"),
    (Counter, "cairn_telegram_updates_total", "Updates of Telegram by what became of them"),
    (Counter, "cairn_tokens_total", "Tokens by model and kind; cached and cache_write are among input"),
    (Counter, "cairn_tool_calls_total", "Calls of tools that ended; other: a name that the agent does not have"),
    (Counter, "cairn_tool_panics_total", "Tools that panicked"),
    (Histogram(LONG), "cairn_tool_seconds", "How long calls of tools take"),
    (Histogram(LONG), "cairn_turn_model_seconds", "How long a turn waits for models"),
    (Histogram(SHORT), "cairn_turn_own_seconds", "How long a turn takes apart from models, tools and people"),
    (Histogram(LONG), "cairn_turn_seconds", "How long a turn takes, from its start to its end"),
    (Gauge, "cairn_turns_open", "Turns under way"),
    (Counter, "cairn_turns_total", "Turns that ended, by agent and outcome"),
    (Counter, "cairn_unrest_total", "Warnings that usage swings or runs follow each other closely"),
    (Counter, "cairn_usage_disbelieved_total", "Reports of usage by a model's server that cannot be true; our own estimate was used"),
    (Histogram(SHARE), "cairn_usage_ratio", "Usage of the window at the end of a turn, by agent"),
    (Gauge, "cairn_views_bytes", "Bytes of the views' files"),
    (Counter, "cairn_views_copied_total", "Times that the views were copied into new files because theirs were mostly empty"),
    (Gauge, "cairn_views_lag_records", "Durable events that the views do not show yet"),
    (Counter, "cairn_watch_failures_total", "Times that the configuration could not be watched"),
    (Counter, "cairn_words_expired_total", "Entries whose words retention took out of the journal"),
    (Histogram(LOCK), "cairn_write_lock_seconds", "How long a conversation's write lock is held"),
    (Gauge, "process_max_fds", "Files that the process may have open"),
    (Gauge, "process_open_fds", "Files that the process has open"),
    (Gauge, "process_resident_memory_bytes", "Memory of the process that is in use"),
    (Gauge, "process_start_time_seconds", "When the process started, in seconds since 1970"),
    (Gauge, "process_threads", "Threads of the process"),
];
