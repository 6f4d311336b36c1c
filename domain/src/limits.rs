//! Every limit, once (SPEC 12). What an operator or a caller can set has its default here and its flag in the binary.

use std::time::Duration;

pub const KIB: usize = 1024;
pub const MIB: usize = 1024 * KIB;

/// What one call may cost, in the gateway's units and in credits. More is taken for nonsense.
pub const CALL_COST_MAX: f64 = 10_000.0;
pub const CALL_CREDITS_MAX: u64 = 1_000_000_000;
/// So many tasks of a run must have ended before the ratio of those that failed says anything.
pub const BREAKER_MIN_TASKS: u32 = 20;
/// How often a worker asks whether the breaker of a run trips, at most.
pub const BREAKER_LOOK_EVERY: Duration = Duration::from_millis(500);

/// Tasks that a submit or a rerun writes before it answers; longer lists are staged. The default, and the most that can be
/// set: what one request holds in memory, and one transaction writes, is bounded for this many.
pub const INLINE_TASKS_MAX: usize = 9_999;
/// Tasks in one `addTasks` call.
pub const ADD_TASKS_MAX: usize = 10_000;
/// Tasks in one run.
pub const RUN_TASKS_MAX: u32 = 1_000_000;
/// All parameters of a job, or of a task, together.
pub const PARAMS_MAX_BYTES: usize = 64 * KIB;
pub const MAX_BODY_BYTES: usize = 64 * MIB;
/// A submit without its tasks.
pub const SUBMIT_REST_MAX_BYTES: usize = MIB;
/// Invalid tasks that one answer names; beyond that they are only counted.
pub const INVALID_TASKS_MAX: usize = 10_000;

/// What a caller may use as the key of a request that it may repeat.
pub const IDEMPOTENCY_KEY_MAX: usize = 255;
/// How long the answer of such a request is given again.
pub const IDEMPOTENCY_TTL: Duration = Duration::from_secs(24 * 3600);
/// How long a request that is carried out keeps its repeats waiting; then one of them takes over.
pub const IDEMPOTENCY_LEASE: Duration = Duration::from_secs(60);
/// An answer that is longer is not kept.
pub const IDEMPOTENCY_BODY_MAX_BYTES: usize = 64 * KIB;

/// Invalid tasks that a dry run names.
pub const DRY_RUN_INVALID_MAX: usize = 100;
/// Domains that a dry run names, and that it tells apart.
pub const DRY_RUN_DOMAINS_SHOWN: usize = 20;
pub const DRY_RUN_DOMAINS_MAX: usize = 100_000;
/// What the longest dry run may hold of the room for bodies: hashes of a million rows, and names of domains.
pub const DRY_RUN_ROOM_BYTES: u64 = 64 * MIB as u64;
/// A dry run that takes longer is given up.
pub const DRY_RUN_WITHIN: Duration = Duration::from_secs(60);
/// What a task is assumed to take, for want of anything known about it.
pub const ASSUMED_SECONDS_PER_TASK: f64 = 2.0;

pub const URL_MAX_BYTES: usize = 2_048;
pub const EXTERNAL_ID_MAX: usize = 128;
pub const NAME_MAX_CHARS: usize = 100;
pub const METADATA_PAIRS_MAX: usize = 20;
pub const METADATA_KEY_MAX: usize = 128;
pub const METADATA_VALUE_MAX: usize = 1_024;
pub const TASK_BODY_MAX_BYTES: usize = 16 * KIB;
/// One task of a list as JSON, all its fields together.
pub const TASK_JSON_MAX_BYTES: usize = 256 * KIB;
/// One line, or one CSV record, of a list: any task that a submit takes fits.
pub const LINE_MAX_BYTES: usize = TASK_JSON_MAX_BYTES;
/// A staged list up to this size is looked at on the request: it may be short enough to be written there.
pub const SYNC_LIST_MAX_BYTES: u64 = 4 * MIB as u64;
/// One that expands to more than this is not written on the request after all: its rows are in memory until they are.
pub const SYNC_LIST_EXPANDED_MAX_BYTES: u64 = 16 * MIB as u64;
/// What a row of a staged list is likely to take, to tell its length from its size before it is read.
pub const ROW_LIKELY_BYTES: u64 = 50;
/// Records, and bytes of rows, that become one step of an ingest.
pub const CHUNK_ROWS: u32 = 5_000;
pub const CHUNK_MAX_BYTES: usize = 4 * MIB;
/// Lists that one process reads at once.
pub const INGESTS_MAX: u32 = 2;
pub const UPLOAD_TTL: Duration = Duration::from_secs(24 * 3600);
pub const UPLOAD_URL_TTL: Duration = Duration::from_secs(30 * 60);
/// The longest interval of a schedule.
pub const SCHEDULE_INTERVAL_MAX: Duration = Duration::from_secs(366 * 24 * 3600);
/// Items in a list of a schedule, before what is named twice is taken once.
pub const SCHEDULE_LIST_MAX: usize = 100;
/// Lists that one process takes in at once.
pub const UPLOADS_INFLIGHT_MAX: usize = 64;
/// What a body that is streamed in must bring on average, once it has taken [`BODY_TIMEOUT`].
pub const STREAM_RATE_MIN_BYTES: u64 = KIB as u64;
/// Uploads of one caller that no job was made of.
pub const UPLOADS_MAX: u32 = 1_000;
pub const UPLOAD_PARTS_MAX: u32 = 1_000;
/// Parts of an upload for which one call signs URLs.
pub const PART_URLS_MAX: usize = 100;
/// An ingest that logged nothing for so long, while no control message is queued, has lost its message.
pub const INGEST_QUIET: Duration = Duration::from_secs(10);
/// An ingest that logged nothing for so long is called again, whatever is queued.
pub const INGEST_STALLED: Duration = Duration::from_secs(120);
pub const INGEST_RESENDS_MAX: u32 = 3;
pub const EVENTS_PAGE_DEFAULT: u32 = 100;
pub const EVENTS_PAGE_MAX: u32 = 1_000;
/// A stream of events is looked after this often, whatever happens, and never more often than the second.
pub const EVENTS_LOOK_EVERY: Duration = Duration::from_millis(500);
pub const EVENTS_LOOK_AFTER: Duration = Duration::from_millis(50);
/// A stream that has nothing to say says that it is there.
pub const EVENTS_HEARTBEAT_EVERY: Duration = Duration::from_secs(15);
/// One staged list, as it is uploaded.
pub const LIST_MAX_BYTES: u64 = 1024 * MIB as u64;
/// One staged list, expanded.
pub const LIST_EXPANDED_MAX_BYTES: u64 = 4 * 1024 * MIB as u64;
/// How many bytes one byte of a compressed list may stand for, beyond the first [`LIST_RATIO_FREE_BYTES`].
pub const LIST_RATIO_MAX: u64 = 200;
/// A short list of one URL over and over compresses better than any honest long one: the ratio counts from here on.
pub const LIST_RATIO_FREE_BYTES: u64 = 16 * MIB as u64;
pub const CUSTOM_HEADERS_MAX: usize = 32;
pub const CUSTOM_HEADERS_MAX_BYTES: usize = 8 * KIB;
/// How much of a bad value an error repeats.
pub const ECHO_MAX_CHARS: usize = 200;

pub const MAX_INFLIGHT_DEFAULT: u32 = 100;
pub const MAX_INFLIGHT_MAX: u32 = 10_000;
/// Tasks that one worker process has in flight.
pub const SLOTS: u32 = 256;

pub const ATTEMPTS_MAX: u32 = 4;
pub const RETRY_BASE: Duration = Duration::from_secs(1);
pub const RETRY_CAP: Duration = Duration::from_secs(60);
/// The most that a job may choose for itself.
pub const RETRY_ATTEMPTS_MAX: u32 = 100;
pub const RETRY_BASE_MAX: Duration = Duration::from_secs(3600);
pub const RETRY_CAP_MAX: Duration = NOT_BEFORE_MAX;
/// The longest Retry-After that is believed.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(600);
/// No retry is set further ahead than this; a row that says otherwise was written under a wrong clock.
pub const NOT_BEFORE_MAX: Duration = Duration::from_secs(24 * 3600);
/// Claims of one task that came to no end, one after another, before it counts as the cause of its workers' deaths.
pub const CLAIMS_MAX: u32 = 20;

pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
pub const GATEWAY_TIMEOUT: Duration = Duration::from_secs(180);
/// Name lookups at once, when Conveyor fetches by itself.
pub const LOOKUPS_MAX: usize = 64;
pub const RESULT_MAX_BYTES: usize = 16 * MIB;
pub const REDIRECTS_MAX: usize = 5;
/// How much of a gateway's error body is read and kept.
pub const ERROR_BODY_MAX_BYTES: usize = 16 * KIB;
pub const FAILURE_DETAIL_MAX_CHARS: usize = 500;

/// With the counter row, what one DynamoDB transaction holds.
pub const SETTLE_GROUP_MAX: usize = 99;
/// Groups of one worker being written at once.
pub const SETTLE_GROUPS_INFLIGHT: usize = 4;
/// Bodies up to this size share an object with their group.
pub const PACK_BODY_MAX_BYTES: usize = 64 * KIB;
pub const PACK_MAX_BYTES: usize = 4 * MIB;

pub const VISIBILITY: Duration = Duration::from_secs(60);
/// How often what is worked on is hidden anew: two of three may be late.
pub const fn extend_every(visibility: Duration) -> Duration {
    Duration::from_millis(visibility.as_millis() as u64 / 3)
}
pub const CONTROL_MAX_RECEIVES: u32 = 5;
pub const MESSAGE_MAX_BYTES: usize = 64 * KIB;

pub const GRANT_TTL: Duration = Duration::from_secs(30);
pub const GRANT_RENEW_EVERY: Duration = Duration::from_secs(10);
/// A worker stops starting work this long before its grant lapses.
pub const GRANT_MARGIN: Duration = Duration::from_secs(5);
/// Workers that are remembered as waiting for permits of one budget.
pub const GRANT_WAITING_MAX: usize = 16;
/// How soon a worker that has less than it could use asks again.
pub const GRANT_ASK_EVERY: Duration = Duration::from_millis(500);

pub const RATE_MAX: u32 = 100_000;
pub const BURST_MAX: u32 = 100_000;
/// How far ahead starts are taken of a rate.
pub const STARTS_AHEAD: Duration = Duration::from_millis(400);
/// How long before its start a task is received.
pub const START_LEAD: Duration = Duration::from_millis(200);
/// How long a task that was received for a start waits for it.
pub const START_WAIT_MAX: Duration = Duration::from_secs(5);
/// What a call may be later than its start, however small the burst, and however large: at least this, and this part of
/// the time between two starts.
pub const START_LATE_MIN: Duration = Duration::from_millis(20);
pub const START_LATE_PART: u32 = 20;
pub const START_LATE_MAX: Duration = Duration::from_secs(5);
/// Domains with limits, of a job and in the configuration.
pub const DOMAIN_LIMITS_MAX: usize = 1_000;
pub const DOMAIN_MAX_CHARS: usize = 253;
/// Budgets of domains that one answer shows.
pub const DOMAIN_BUDGETS_SHOWN_MAX: u32 = 100;
/// How long a message that could not start after all is left alone: doubles from the first to the second.
pub const BOUNCE_MIN: Duration = Duration::from_secs(5);
pub const BOUNCE_MAX: Duration = Duration::from_secs(300);
/// What those of one batch are spread over, beyond that, so that they do not all come again at once.
pub const BOUNCE_SPREAD_MAX: Duration = Duration::from_secs(15);
/// Answers in a row that say that the gateway is not there, or has too much to do, before a job leaves it alone; and for
/// how long: doubles from the first to the second, unless the gateway says more.
pub const GATEWAY_FAILURES_MAX: u32 = 10;
pub const GATEWAY_PAUSE: Duration = Duration::from_millis(500);
pub const GATEWAY_PAUSE_MAX: Duration = Duration::from_secs(30);

/// The shortest time between two looks, however much happens.
pub const REDISCOVER_AFTER: Duration = Duration::from_millis(20);
pub const DISCOVER_EVERY: Duration = Duration::from_secs(1);
/// How much further back than the last look a look at what changed goes: clocks differ (5 s), a change goes by when its
/// write began (20 s at most, for a call of AWS), and indexes are late.
pub const DISCOVER_OVERLAP: Duration = Duration::from_secs(30);
/// How often everything is looked at, whether it changed or not.
pub const DISCOVER_ALL_EVERY: Duration = Duration::from_secs(600);
/// Messages that a caller's runs are given before it is another caller's turn.
pub const TURN_MESSAGES: u32 = 10;
/// How long an idle worker waits before it looks again by itself.
pub const IDLE_WAIT: Duration = Duration::from_millis(200);
/// How long a queue is left alone after a receive that brought nothing; doubles with each, up to the second.
pub const EMPTY_RECEIVE_PAUSE: Duration = Duration::from_millis(100);
pub const EMPTY_RECEIVE_PAUSE_MAX: Duration = Duration::from_secs(2);
/// How long a receive of fewer messages than it could bring waits for more permits.
pub const RECEIVE_LINGER: Duration = Duration::from_millis(20);
/// What one sweep spends on rows of deleted jobs before the other repairs have their turn again.
pub const SWEEP_DELETES_WITHIN: Duration = Duration::from_secs(2);
pub const SWEEP_EVERY: Duration = Duration::from_secs(5);
/// Rows that one step of a sweep removes.
pub const SWEEP_STEP_ROWS: u32 = 2_000;
/// How often what is costly or in no hurry is looked at: counts, what is past its time.
pub const SWEEP_SLOWLY_EVERY: Duration = Duration::from_secs(15);
/// How often the counters of a run that goes on are compared with its rows.
pub const PROVE_EVERY: Duration = Duration::from_secs(600);
/// Audits that one process makes at once, and how long others wait for their turn: each reads every row of a run.
pub const AUDITS_MAX: usize = 2;
pub const AUDIT_WAIT: Duration = Duration::from_secs(10);
/// What one answer to a reconciliation takes, about.
pub const RECONCILE_WITHIN: Duration = Duration::from_secs(20);
/// Findings that one answer names.
pub const FINDINGS_MAX: usize = 500;
/// A submit that has been under way for so long has been given up: no call takes as long.
pub const SUBMIT_GIVEN_UP: Duration = Duration::from_secs(600);
/// How often a dead letter is sent again before its run fails.
pub const REDRIVES_MAX: u32 = 2;
/// How long a dead letter waits for an operator.
pub const DEAD_LETTER_KEPT: Duration = Duration::from_secs(14 * 24 * 3600);
/// For how long results can be seen, and the most that a job may choose.
pub const RESULT_TTL_DAYS: u32 = 14;
pub const RESULT_TTL_DAYS_MAX: u32 = 30;
/// How long the tasks and results of a run are kept after it ended.
pub const ROWS_KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
/// When what was deleted is looked at again, for what was in flight then, and how long it is remembered.
pub const TOMBSTONE_LOOKS: [Duration; 3] =
    [Duration::from_secs(3600), Duration::from_secs(24 * 3600), Duration::from_secs(7 * 24 * 3600)];
/// Runs that are remembered of a job that is gone: the latest. Only those can have a queue that comes late.
pub const TOMBSTONE_RUNS: usize = 1_000;
pub const TOMBSTONE_KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
/// A webhook's URL is looked up within this before it is taken.
pub const WEBHOOK_RESOLVED_WITHIN: Duration = Duration::from_secs(1);
/// One try to deliver a notification, and how much of the answer is read.
pub const DELIVERY_TIMEOUT: Duration = Duration::from_secs(10);
pub const DELIVERY_ANSWER_MAX_BYTES: usize = 4 * KIB;
/// For how long nobody else tries while somebody does: longer than any try takes.
pub const DELIVERY_LEASE: Duration = Duration::from_secs(60);
/// What lies between one try and the next; the last from then on.
pub const DELIVERY_PAUSES: [Duration; 10] = [
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_secs(2 * 60),
    Duration::from_secs(10 * 60),
    Duration::from_secs(30 * 60),
    Duration::from_secs(3600),
    Duration::from_secs(2 * 3600),
    Duration::from_secs(4 * 3600),
    Duration::from_secs(8 * 3600),
    Duration::from_secs(12 * 3600),
];
/// For how long a notification is tried.
pub const DELIVERY_TRIED_FOR: Duration = Duration::from_secs(3 * 24 * 3600);
/// For how long it can be seen and replayed.
pub const DELIVERY_KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
/// Tries of one notification that are kept, and how much is kept of why one failed.
pub const DELIVERY_ATTEMPTS_KEPT: usize = 30;
pub const DELIVERY_ERROR_MAX_CHARS: usize = 200;
/// Notifications that one process delivers at once, and how often it looks for those that are due.
pub const DELIVERIES_INFLIGHT_MAX: usize = 64;
pub const DELIVER_EVERY: Duration = Duration::from_secs(1);
/// What AWS takes as a task token.
pub const SFN_TASK_TOKEN_MAX_CHARS: usize = 2_048;
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(20);

pub const PAGE_DEFAULT: u32 = 50;
pub const PAGE_MAX: u32 = 100;
/// Jobs that one page of leases looks at. It may be short, or empty, though more follow.
pub const LEASES_LOOK_MAX: u32 = 500;
pub const RESULTS_PAGE_DEFAULT: u32 = 100;
pub const RESULTS_PAGE_MAX: u32 = 1_000;
/// A page of results ends early once its rows hold about this much.
pub const RESULTS_PAGE_BYTES: usize = 4 * MIB;
/// How long after its start the tasks of a run can be done again in part: what the others are handed down must still be there.
pub const PARTIAL_RERUN_WINDOW: Duration = Duration::from_secs(10 * 24 * 3600);
/// Words in one filter of a rerun.
pub const RERUN_WORDS_MAX: usize = 100;
pub const CURSOR_TTL: Duration = Duration::from_secs(24 * 3600);
pub const RESULT_URL_TTL: Duration = Duration::from_secs(2 * 3600);
/// How long an export can be had, from when it was asked for.
pub const EXPORT_TTL: Duration = Duration::from_secs(12 * 3600);
/// Its record goes by itself then, should nobody have removed it.
pub const EXPORT_RECORD_KEPT: Duration = Duration::from_secs(3 * 24 * 3600);
/// Whoever builds an export and says nothing for so long has lost it.
pub const EXPORT_LEASE: Duration = Duration::from_secs(30);
pub const EXPORT_RENEW_EVERY: Duration = Duration::from_secs(5);
pub const EXPORT_TRIES_MAX: u32 = 3;
/// How long an export waits after a try that failed, times the number of tries.
pub const EXPORT_RETRY_BASE: Duration = Duration::from_secs(5);
/// Bodies that go into one export, all together.
pub const EXPORT_MAX_BYTES: u64 = 100 * 1024 * MIB as u64;
/// What an operator can raise the size of exports and of lists to: what parts of bounded size hold on S3.
pub const OBJECT_MAX_BYTES_MOST: u64 = 128 * 1024 * MIB as u64;
/// Exports that one process builds at once.
pub const EXPORTS_MAX: u32 = 2;
/// Exports of a run: all that are kept, and those that are not finished.
pub const EXPORTS_OF_RUN_MAX: u32 = 100;
pub const EXPORTS_LIVE_MAX: usize = 10;
/// Bodies that one export reads ahead, and their bytes.
pub const EXPORT_READS_MAX: usize = 32;
pub const EXPORT_AHEAD_MAX_BYTES: usize = 32 * MIB;
/// How much of a zip's directory is in memory before it is put aside.
pub const EXPORT_DIRECTORY_BYTES: usize = 4 * MIB;
/// Connections at once, and how long one may take to send a request's head, and its body.
pub const CONNECTIONS_MAX: usize = 1_024;
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
pub const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// What is still read of a body that the answer did not need, and for how long. Beyond it the connection is closed.
pub const UNREAD_MAX_BYTES: usize = MIB;
pub const UNREAD_TIMEOUT: Duration = Duration::from_secs(1);
/// Request bodies in memory at once, all together.
pub const BODIES_MAX_BYTES: usize = 256 * MIB;
/// What a backend that is ready answers within.
pub const READY_WITHIN: Duration = Duration::from_secs(5);
pub const REQUEST_ID_MAX: usize = 128;
pub const API_KEY_MIN_CHARS: usize = 16;
/// Requests of one caller to one process: so many a second, and so many at once.
pub const REQUESTS_PER_SECOND: u32 = 500;
pub const REQUESTS_BURST: u32 = 1_000;
/// Callers whose requests are counted. Beyond it the one that was quiet for the longest is forgotten, and begins anew.
pub const REQUEST_BUCKETS_MAX: usize = 10_000;
/// The most that a quota of jobs, and of tasks, can be: what is under one is counted on every request that it is for.
pub const QUOTA_JOBS_MAX: u32 = 10_000;
pub const QUOTA_TASKS_MAX: u64 = 1_000_000_000;
/// Live jobs of a caller whose tasks are counted.
pub const QUOTA_LIVE_JOBS_MAX: u32 = 1_000;
/// How long what is about to be made counts without being there. No write takes as long.
pub const RESERVATION_TTL: Duration = Duration::from_secs(60);
/// Requests of one caller that are about to make something under a quota, at once.
pub const RESERVATIONS_MAX: usize = 500;
/// How often a request tries to get its turn at its caller's quotas.
pub const QUOTA_TRIES_MAX: u32 = 60;

/// Operations that share one durable commit, and how many may wait for the next.
pub const COMMIT_OPERATIONS_MAX: usize = 512;
pub const WRITE_QUEUE_MAX: usize = 2_048;
