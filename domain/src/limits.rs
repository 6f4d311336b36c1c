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
/// All parameters of a job, or of a task, together, as JSON.
pub const PARAMS_MAX_BYTES: usize = 64 * KIB;
/// A job as it is stored: parameters, metadata, limits of domains, webhook and schedule together. An item of DynamoDB holds
/// 400 KB, and a job that one backend takes is taken by the other.
pub const JOB_DOCUMENT_MAX_BYTES: usize = 256 * KIB;
pub const MAX_BODY_BYTES: usize = 64 * MIB;
/// A submit without its tasks.
pub const SUBMIT_REST_MAX_BYTES: usize = MIB;
/// Invalid tasks that one answer names; beyond that they are only counted.
pub const INVALID_TASKS_MAX: usize = 10_000;
/// Unknown fields that one answer, or the report of one list, names; beyond that they are only counted.
pub const WARNINGS_MAX: usize = 20;

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
/// With a gateway that is built in nobody is asked: what it takes to write down that a task begins and ends.
pub const BUILT_IN_SECONDS_PER_TASK: f64 = 0.005;
/// Of how many tasks it is measured, in the newest of how many jobs that has any.
pub const ESTIMATE_TASKS: u32 = 20;
pub const ESTIMATE_JOBS_LOOK: u32 = 10;

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
/// How long a submit may count a list that nobody has counted.
pub const COUNT_WITHIN: Duration = Duration::from_millis(250);
/// Lists that submits of one process count at once, and of one caller.
pub const COUNTS_MAX: usize = 8;
pub const COUNTS_OF_CALLER_MAX: usize = 2;
/// Pieces of an upload that wait to be counted: more make it wait.
pub const COUNT_PIECES_AHEAD: usize = 4;
/// What a row of a staged list is likely to take, to tell its length from its size before it is read.
pub const ROW_LIKELY_BYTES: u64 = 50;
/// Records, and bytes of rows, that become one step of an ingest.
pub const CHUNK_ROWS: u32 = 5_000;
pub const CHUNK_MAX_BYTES: usize = 4 * MIB;
/// Long lists of one caller that one process reads at once, and short ones beside them. There are places for twice as many of
/// each, so that a caller leaves some to others.
pub const INGESTS_MAX: u32 = 2;
/// What counts as a short list, as it was uploaded; or tasks of a run that is replayed.
pub const INGEST_SMALL_MAX_BYTES: u64 = 8 * MIB as u64;
pub const INGEST_SMALL_MAX_TASKS: u32 = 100_000;
pub const UPLOAD_TTL: Duration = Duration::from_secs(24 * 3600);
pub const UPLOAD_URL_TTL: Duration = Duration::from_secs(30 * 60);
/// The longest interval of a schedule.
pub const SCHEDULE_INTERVAL_MAX: Duration = Duration::from_secs(366 * 24 * 3600);
/// Items in a list of a schedule, before what is named twice is taken once.
pub const SCHEDULE_LIST_MAX: usize = 100;
/// Long lists of submits that one process checks at once, and those of one caller.
pub const LIST_CHECKS_MAX: usize = 8;
pub const LIST_CHECKS_OF_CALLER_MAX: usize = 2;
/// Lists that one process takes in at once, and those of one caller.
pub const UPLOADS_INFLIGHT_MAX: usize = 64;
pub const UPLOADS_OF_CALLER_MAX: usize = 16;
/// The slowest a request body may arrive on average, once it has taken [`BODY_GRACE`].
pub const BODY_RATE_MIN_BYTES: u64 = KIB as u64;
pub const BODY_GRACE: Duration = Duration::from_secs(15);
/// Uploads of one caller that no job was made of.
pub const UPLOADS_MAX: u32 = 1_000;
pub const UPLOAD_PARTS_MAX: u32 = 1_000;
/// What every part of an upload but the last has, unless its caller or the length of the list says otherwise; and the most that
/// a caller may choose, which S3 sets.
pub const PART_BYTES: u64 = 16 * MIB as u64;
pub const PART_MAX_BYTES: u64 = 5 * 1024 * MIB as u64;
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
/// Event streams open at once in one process, and those of one caller.
pub const EVENT_STREAMS_MAX: usize = 1_000;
pub const EVENT_STREAMS_OF_CALLER_MAX: usize = 100;
/// How often all event streams of one caller together look for events, a second.
pub const EVENT_LOOKS_PER_SECOND: u32 = 200;
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
/// One slot in so many, at least one of two, is left by a caller that is alone.
pub const SLOTS_LEFT_PART: usize = 8;

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
/// Writes of so many rows or bytes or more are in the queue of the embedded writer by turns: so many at once, half of them of a
/// caller. What others write waits for a few of them at most.
pub const HEAVY_WRITE_ROWS: usize = 100;
pub const HEAVY_WRITE_BYTES: usize = 64 * KIB;
pub const HEAVY_WRITES_MAX: usize = 8;
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
/// How long a request for starts may take, at least, before all but one of them are lost.
pub const START_ROUND_TRIP_MAX: Duration = Duration::from_millis(100);
/// Domains with limits, of a job and in the configuration.
pub const DOMAIN_LIMITS_MAX: usize = 1_000;
pub const DOMAIN_MAX_CHARS: usize = 253;
/// Budgets of domains that one answer shows.
pub const DOMAIN_BUDGETS_SHOWN_MAX: u32 = 100;
/// Messages that one worker parks because their domain has no start for them yet, in all and of one caller.
pub const PARKED_MAX: u32 = 8_192;
pub const PARKED_CALLER_MAX: u32 = 2_048;
/// How long a message stays parked. Then it returns to the queue, so that another worker can have it.
pub const PARKED_FOR_MAX: Duration = Duration::from_secs(3600);
/// How often a worker looks whether parked messages are better off in their queue, and whether to say what they wait for.
pub const PARKED_SEEN_EVERY: Duration = Duration::from_millis(200);
/// A share of a domain that was not used for so long is given back: another worker may have messages parked for it.
pub const DOMAIN_SHARE_IDLE: Duration = Duration::from_secs(1);
/// Tasks in a row that draw on the same domains before a run is received no faster than these take it.
pub const LOOKAHEAD_MESSAGES: u32 = 1_000;
/// How often a worker says which domain the parked tasks of a job wait for.
pub const DOMAIN_WAIT_TOLD_EVERY: Duration = Duration::from_secs(10);
/// How long that is believed if it is not repeated.
pub const DOMAIN_WAIT_BELIEVED: Duration = Duration::from_secs(20);
/// How long a message goes back to its queue for when it can neither start nor be parked: at least the first, and as long
/// as its domain needs, up to the second. A paused run's message: doubles from the first to the second.
pub const BOUNCE_MIN: Duration = Duration::from_secs(5);
pub const BOUNCE_MAX: Duration = Duration::from_secs(300);
/// Failures in a row (gateway overloaded or unreachable) before a job backs off; and for how long: doubles from the first to
/// the second with each probe that fails, unless the gateway asks for more.
pub const GATEWAY_FAILURES_MAX: u32 = 10;
pub const GATEWAY_PAUSE: Duration = Duration::from_millis(500);
pub const GATEWAY_PAUSE_MAX: Duration = Duration::from_secs(30);
/// Another call probes if the one before it is not answered for so long.
pub const GATEWAY_PROBE_EVERY: Duration = Duration::from_secs(2);

/// Backoff of a worker whose store, queue or coordinator fails: doubles from the first to the second, with jitter.
pub const STORE_BACKOFF_MIN: Duration = Duration::from_millis(200);
pub const STORE_BACKOFF_MAX: Duration = Duration::from_secs(5);
/// Different runs whose calls fail, with no success between them, before the whole worker backs off and probes with one message.
pub const STORE_FAILURES_MAX: u32 = 3;
/// How often the log repeats that something still fails.
pub const OUTAGE_WARN_EVERY: Duration = Duration::from_secs(30);

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
/// Differences between the wall clock and a process's own that are drift, not a step.
pub const CLOCK_STEP_MIN: Duration = Duration::from_secs(1);
/// A process whose clock is ahead by up to this slows down until it is right; beyond it, the clock is set back. More than
/// [`NOT_BEFORE_MAX`]: what lies further ahead than that was written by a wrong clock.
pub const CLOCK_SLEW_MAX: Duration = Duration::from_secs(25 * 3600);
/// How far two clocks may drift apart, in millionths.
pub const CLOCK_DRIFT_PPM: i64 = 500;
/// Answers in a row that it takes to believe that the backend's time has jumped.
pub const CLOCK_RIVALS: u32 = 3;
/// From which difference between the wall clock and the backend's time on an operator is warned.
pub const CLOCK_SKEW_MAX: Duration = Duration::from_secs(5);
/// How often that difference is measured for metrics and the log.
pub const CLOCK_SKEW_EVERY: Duration = Duration::from_secs(5);
/// Time that is further than this from the last that sweepers have seen removes nothing.
pub const CLOCK_JUMP_MAX: Duration = Duration::from_secs(24 * 3600);
/// Unless it has held for so long, looked at without a longer pause than this.
pub const CLOCK_HELD: Duration = Duration::from_secs(3600);
pub const CLOCK_GAP_MAX: Duration = Duration::from_secs(600);
/// How often the time that was seen is written down.
pub const CLOCK_SEEN_EVERY: Duration = Duration::from_secs(60);
/// What one sweep spends on rows of deleted jobs before the other repairs have their turn again.
pub const SWEEP_DELETES_WITHIN: Duration = Duration::from_secs(2);
/// What one turn of another repair takes at most, about. The next one resumes where it ended.
pub const SWEEP_TURN_WITHIN: Duration = Duration::from_secs(10);
/// Things that one repair looks at, at once.
pub const SWEEP_LOOKS_INFLIGHT: usize = 16;
/// Findings that one repair fixes at once, where somebody waits for it.
pub const SWEEP_FIXES_INFLIGHT: usize = 8;
/// How long the refs of rows may take to be sent before the sweeper sends them (SPEC 5.4).
pub const REFS_SENT_WITHIN: Duration = Duration::from_secs(30);
/// A pending row that waited for longer than this has a message in the queue, or its message was lost (SPEC 6.8).
pub const REF_WAITS_LONG: Duration = Duration::from_secs(120);
/// An addition that takes longer than this may be given up, if there are many (SPEC 5.4).
pub const ADDITION_GIVEN_UP: Duration = Duration::from_secs(120);
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
/// How long one page of an audit of bodies takes, about: less than others wait for their turn. And how many it reads at once,
/// so much of each in memory.
pub const AUDIT_BODIES_WITHIN: Duration = Duration::from_secs(5);
pub const AUDIT_READS_MAX: usize = 32;
pub const AUDIT_PIECE_BYTES: u64 = MIB as u64;
/// Bodies at fault that one page names.
pub const FAULTS_NAMED_MAX: usize = 20;
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
pub const DELIVERIES_INFLIGHT_MAX: usize = 128;
/// Those, besides, whose receivers take longer than [`DELIVERY_SLOW_AFTER`]: they must not keep the others waiting.
pub const DELIVERIES_SLOW_MAX: usize = 512;
pub const DELIVERY_SLOW_AFTER: Duration = Duration::from_millis(500);
/// Notifications to one receiver at once: one that answers, one that was never tried, one that did not answer.
pub const DELIVERIES_OF_RECEIVER_MAX: usize = 16;
pub const DELIVERIES_OF_NEW_RECEIVER_MAX: usize = 4;
pub const DELIVERIES_OF_SILENT_RECEIVER_MAX: usize = 2;
/// Receivers of which one process remembers how they answered.
pub const RECEIVERS_REMEMBERED_MAX: usize = 10_000;
pub const DELIVER_EVERY: Duration = Duration::from_secs(1);
/// What AWS takes as a task token.
pub const SFN_TASK_TOKEN_MAX_CHARS: usize = 2_048;
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(20);

pub const PAGE_DEFAULT: u32 = 50;
pub const PAGE_MAX: u32 = 100;
/// Jobs that one page of leases looks at. It may be short, or empty, though more follow.
pub const LEASES_LOOK_MAX: u32 = 500;
/// Rows of tasks that one page of a filtered list looks at. It may be short, or empty, though more follow.
pub const LOOK_ROWS_MAX: u32 = 10_000;
/// On DynamoDB a page also ends once its queries have consumed this many read units: 4 MiB of rows, read consistently.
pub const LOOK_UNITS_MAX: u32 = 1_000;
/// Messages of a queue that are counted for a caller, of those that can be received and of the others.
pub const SHOWN_DEPTH_MAX: u32 = 10_000;
/// The same of jobs, runs and uploads: rows that one page of a list looks at.
pub const LIST_LOOK_MAX: u32 = 500;
/// Reads of lists under way at once in one API process; the next free one goes to callers in turn.
pub const LIST_TURNS_MAX: usize = 16;
/// Of one caller.
pub const LIST_TURNS_OF_CALLER_MAX: usize = 4;
/// Looks at what a caller has, before it gets more: at once in one API process, and of one caller.
pub const ADMISSIONS_MAX: usize = 16;
pub const ADMISSIONS_OF_CALLER_MAX: usize = 4;
pub const RESULTS_PAGE_DEFAULT: u32 = 100;
pub const RESULTS_PAGE_MAX: u32 = 1_000;
/// A page of results ends early once its rows hold about this much.
pub const RESULTS_PAGE_BYTES: usize = 4 * MIB;
/// How long after its start the tasks of a run can be done again in part: what the others are handed down must still be there.
pub const PARTIAL_RERUN_WINDOW: Duration = Duration::from_secs(10 * 24 * 3600);
/// Words in one filter of a rerun.
pub const RERUN_WORDS_MAX: usize = 100;
/// Reruns that were ended early, each of the one before, that are followed back to where all tasks are.
pub const REPLAY_CHAIN_MAX: usize = 100;
pub const CURSOR_TTL: Duration = Duration::from_secs(24 * 3600);
pub const RESULT_URL_TTL: Duration = Duration::from_secs(2 * 3600);
/// The most that a presigned URL of S3 may live.
pub const RESULT_URL_TTL_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
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
/// Long exports of one caller that one process builds at once, and short ones beside them. There are places for twice as many
/// of each, so that a caller leaves some to others.
pub const EXPORTS_MAX: u32 = 2;
/// What counts as a short export: tasks of its run.
pub const EXPORT_SMALL_MAX_TASKS: u32 = 10_000;
/// Exports of a run: all that are kept, and those that are not finished.
pub const EXPORTS_OF_RUN_MAX: u32 = 100;
pub const EXPORTS_LIVE_MAX: usize = 10;
/// Bodies that one export reads ahead, and their bytes.
pub const EXPORT_READS_MAX: usize = 32;
pub const EXPORT_AHEAD_MAX_BYTES: usize = 32 * MIB;
/// How much of a zip's directory is in memory before it is put aside.
pub const EXPORT_DIRECTORY_BYTES: usize = 4 * MIB;
/// Connections open at once. Fewer where the process may not have as many descriptors: those below are left for the rest
/// of the process, and no limit of descriptors makes it fewer than the minimum.
pub const CONNECTIONS_MAX: usize = 16_384;
pub const CONNECTIONS_MIN: usize = 64;
/// Connections that the system holds until they are accepted, if it is configured for as many.
pub const CONNECTIONS_WAITING_MAX: u32 = 4_096;
/// What the process needs beside its connections and the files that answers read: calls of a worker, deliveries, bodies that
/// exports read ahead, lists, the database, and some to spare.
pub const DESCRIPTORS_RESERVED: usize = 1_300;
/// The part of all connections that is closed at once when there is no room for another: one in so many.
pub const CONNECTIONS_CLOSED_PART: usize = 16;
/// How long any connection has to send the head of a request before it is closed for room.
pub const HEAD_TIME_MIN: Duration = Duration::from_millis(250);
/// How long a new connection may stay silent, how long the head of a request may take, and how long a connection may idle
/// between two requests: longer than load balancers keep theirs, which is 60 s as a rule.
pub const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(10);
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(75);
/// How long the other end may accept nothing of an answer.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// What the system buffers of an answer, and the pieces in which an answer is handed to it: what is not sent keeps the place
/// of its request.
pub const SEND_BUFFER_BYTES: u32 = 256 * KIB as u32;
pub const ANSWER_PIECE_BYTES: usize = 64 * KIB;
/// An HTTP/2 answer that is no longer keeps no place until it is taken.
pub const ANSWER_END_BYTES: usize = 2 * KIB;
/// How often connections are held against these deadlines.
pub const CONNECTIONS_LOOK_EVERY: Duration = Duration::from_secs(1);
/// What an HTTP/1 connection buffers, and so the longest head of a request.
pub const HEAD_MAX_BYTES: usize = 64 * KIB;
/// Requests at once on one HTTP/2 connection, and what may arrive there, and of one of them, before somebody reads it. One body
/// that waits for room must not use up what the others of its connection need.
pub const HTTP2_STREAMS_MAX: u32 = 100;
pub const HTTP2_WINDOW_BYTES: u32 = MIB as u32;
pub const HTTP2_STREAM_WINDOW_BYTES: u32 = 64 * KIB as u32;
/// How often an HTTP/2 connection is asked whether it is alive, and how long the answer may take.
pub const HTTP2_PING_EVERY: Duration = Duration::from_secs(15);
pub const HTTP2_PING_TIMEOUT: Duration = Duration::from_secs(15);
/// Requests with a known key being answered at once: of one caller, and of all, as a part of the connections.
pub const REQUESTS_OF_CALLER_MAX: usize = 128;
/// Requests of one caller that wait for one of these places, and for how long.
pub const REQUESTS_WAITING_OF_CALLER_MAX: usize = 1_000;
pub const PLACE_WAIT: Duration = Duration::from_secs(3);
pub const REQUESTS_INFLIGHT_PART: usize = 2;
/// Requests of all callers that are being answered at once, however many connections there are.
pub const REQUESTS_INFLIGHT_MAX: usize = 2_048;
/// The part of these places that is for reads by URLs of jobs, and for nothing else: one in so many.
pub const SIGNED_REQUESTS_PART: usize = 4;
/// Reads (GET, HEAD) of one caller that are worked on at once; its others wait for their turn.
pub const READS_OF_CALLER_MAX: usize = 4;
/// How long a request may take to send a body that is held in memory, and a streamed one to send its next piece.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// What is still read of a body that the answer did not need, and for how long. Beyond it the connection is closed.
pub const UNREAD_MAX_BYTES: usize = MIB;
pub const UNREAD_TIMEOUT: Duration = Duration::from_secs(1);
/// Request bodies in memory at once, all together and of one caller, and the steps in which room is taken as they arrive.
pub const BODIES_MAX_BYTES: usize = 256 * MIB;
pub const BODIES_OF_CALLER_MAX_BYTES: usize = 128 * MIB;
pub const BODY_STEP_BYTES: usize = 16 * KIB;
/// Answers in memory at once: results, and other large answers that are made whole.
pub const ANSWERS_MAX_BYTES: usize = 256 * MIB;
/// How long a request waits for messages about what it committed to be sent. After that they are sent in the background.
pub const SENT_WITHIN: Duration = Duration::from_secs(2);
/// Messages that wait to be sent in one process, all together. Beyond it they are left to the sweeper.
pub const SENDING_MAX_BYTES: usize = 64 * MIB;
/// How long the claims and settles of a job pause on AWS after one of them failed: exponential backoff between these.
pub const JOB_PAUSE_MIN: Duration = Duration::from_millis(500);
pub const JOB_PAUSE_MAX: Duration = Duration::from_secs(5);
/// What a backend that is ready answers within.
pub const READY_WITHIN: Duration = Duration::from_secs(5);
/// How long an answer of `/readyz` is used again: so often at most a process asks its backend, however often it is asked.
pub const READY_KEPT: Duration = Duration::from_secs(1);
/// How often at most `/metrics` is rendered: requests that come meanwhile share the next page.
pub const METRICS_EVERY: Duration = Duration::from_millis(250);
pub const REQUEST_ID_MAX: usize = 128;
pub const API_KEY_MIN_CHARS: usize = 16;
/// How long a process goes on accepting a key that it read as accepted: so long at most a revoked key still works.
pub const KEY_ACCEPTED_FOR: Duration = Duration::from_secs(5);
/// Accepted keys that one process remembers. Others are read for every request.
pub const KEYS_ACCEPTED_MAX: usize = 10_000;
/// Absent keys that the log names when an API starts.
pub const ABSENT_KEYS_NAMED_MAX: usize = 20;
/// Requests of one caller to one process: so many a second, and so many at once.
pub const REQUESTS_PER_SECOND: u32 = 500;
pub const REQUESTS_BURST: u32 = 1_000;
/// Callers whose requests are counted. Beyond it the one that was quiet for the longest is forgotten, and begins anew.
pub const REQUEST_BUCKETS_MAX: usize = 10_000;
/// Unknown keys from one address: so many a second, and so many at once. Beyond it they are looked up only so many at a
/// time, all addresses together, while so many wait.
pub const UNKNOWN_KEYS_PER_SECOND: u32 = 10;
pub const UNKNOWN_KEYS_BURST: u32 = 100;
pub const UNKNOWN_KEY_LOOKUPS_MAX: usize = 2;
pub const UNKNOWN_KEY_LOOKUPS_WAITING_MAX: usize = 64;
/// Addresses whose unknown keys are counted, and accepted keys that are remembered.
pub const UNKNOWN_KEY_ADDRESSES_MAX: usize = 10_000;
pub const KEYS_REMEMBERED_MAX: usize = 10_000;
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
/// How often a process that has nothing to commit looks whether its data directory is still the one it opened.
pub const DATA_DIRECTORY_LOOK_EVERY: Duration = Duration::from_secs(1);
