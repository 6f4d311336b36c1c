//! Every limit, declared once. The tables of SPEC 12 are generated from this file; what an operator or a caller can set has
//! its default here.

use std::time::Duration;

pub const KIB: usize = 1024;
pub const MIB: usize = 1024 * KIB;

/// The limits of one part of the system, as SPEC 12 shows them.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    pub title: &'static str,
    pub limits: &'static [Limit],
}

#[derive(Clone, Copy, Debug)]
pub struct Limit {
    pub name: &'static str,
    pub value: Value,
    /// The doc comment of its constant.
    pub meaning: &'static str,
    /// The flags and requests that change it, as Markdown. Empty: nothing does.
    pub set_by: &'static str,
}

#[derive(Clone, Copy, Debug)]
pub enum Value {
    Number(f64),
    Time(&'static [Duration]),
}

macro_rules! limits {
    ($([$title:literal] $(
        $(#[doc = $doc:literal])+ $name:ident: $kind:tt = $value:expr $(, set by $set_by:literal)?;
    )+)+) => {
        $($($(#[doc = $doc])+ pub const $name: $kind = $value;)+)+
        pub const TABLE: &[Section] = &[$(Section {
            title: $title,
            limits: &[$(Limit {
                name: stringify!($name),
                value: limits!(@value $kind $name),
                meaning: concat!($($doc),+),
                set_by: concat!($($set_by)?),
            }),+],
        }),+];
    };
    (@value Duration $name:ident) => { Value::Time(&[$name]) };
    (@value [Duration; $n:literal] $name:ident) => { Value::Time(&$name) };
    (@value $number:ident $name:ident) => { Value::Number($name as f64) };
}

limits! {
    ["Jobs and tasks"]

    /// Tasks that a submit or a rerun writes before it is answered; longer lists are staged. This is also the most that can
    /// be set, because it bounds what a request holds in memory and what a transaction writes.
    INLINE_TASKS_MAX: usize = 9_999, set by "`--inline-tasks-max`";
    /// Tasks in one `addTasks` call.
    ADD_TASKS_MAX: usize = 10_000;
    /// Tasks in one run.
    RUN_TASKS_MAX: u32 = 1_000_000, set by "`--run-tasks-max`";
    /// All parameters of a job, or of a task, as JSON.
    PARAMS_MAX_BYTES: usize = 64 * KIB;
    /// A job as it is stored, on every backend: its parameters, metadata, domain limits, webhook and schedule together. A
    /// DynamoDB item holds 400 KB; a job at all of its other limits would have 550 KB. No other row needs such a limit: a
    /// task has at most 310 KB with its error, a run 90 KB.
    JOB_DOCUMENT_MAX_BYTES: usize = 256 * KIB;
    /// One request body that is held in memory.
    MAX_BODY_BYTES: usize = 64 * MIB, set by "`--max-body-bytes`";
    /// A submit without its tasks.
    SUBMIT_REST_MAX_BYTES: usize = MIB;
    /// Invalid tasks that one response names; beyond that they are only counted.
    INVALID_TASKS_MAX: usize = 10_000;
    /// Unknown fields that one response, or the report of one list, names; beyond that they are only counted.
    WARNINGS_MAX: usize = 20;
    /// Characters of an invalid value that an error repeats.
    ECHO_MAX_CHARS: usize = 200;
    /// The URL of a task.
    URL_MAX_BYTES: usize = 2_048;
    /// Characters of an external id, of `[A-Za-z0-9._-]`.
    EXTERNAL_ID_MAX: usize = 128;
    /// Characters of the name of a job.
    NAME_MAX_CHARS: usize = 100;
    /// Metadata pairs of a job or a task.
    METADATA_PAIRS_MAX: usize = 20;
    /// Characters of a metadata key.
    METADATA_KEY_MAX: usize = 128;
    /// Characters of a metadata value.
    METADATA_VALUE_MAX: usize = 1_024;
    /// The body of a POST task.
    TASK_BODY_MAX_BYTES: usize = 16 * KIB;
    /// One task of a list as JSON, all its fields together.
    TASK_JSON_MAX_BYTES: usize = 256 * KIB;
    /// Custom headers of a task.
    CUSTOM_HEADERS_MAX: usize = 32;
    /// Custom headers of a task, names and values together.
    CUSTOM_HEADERS_MAX_BYTES: usize = 8 * KIB;
    /// The longest interval of a schedule.
    SCHEDULE_INTERVAL_MAX: Duration = Duration::from_hours(366 * 24);
    /// Items in one list of a schedule, duplicates included.
    SCHEDULE_LIST_MAX: usize = 100;
    /// Characters of the task token of a state machine. AWS sets this limit.
    SFN_TASK_TOKEN_MAX_CHARS: usize = 2_048;

    ["Idempotency keys and dry runs"]

    /// Characters of an idempotency key.
    IDEMPOTENCY_KEY_MAX: usize = 255;
    /// How long the stored response of an idempotency key is replayed.
    IDEMPOTENCY_TTL: Duration = Duration::from_hours(24);
    /// How long repeats wait for the request that is under way; then one of them takes over.
    IDEMPOTENCY_LEASE: Duration = Duration::from_secs(60);
    /// A longer response is not stored.
    IDEMPOTENCY_BODY_MAX_BYTES: usize = 64 * KIB;
    /// Invalid tasks that a dry run names.
    DRY_RUN_INVALID_MAX: usize = 100;
    /// Domains that a dry run names.
    DRY_RUN_DOMAINS_SHOWN: usize = 20;
    /// Domains that a dry run counts separately.
    DRY_RUN_DOMAINS_MAX: usize = 100_000;
    /// What a dry run may take of the memory for request bodies: hashes of a million rows, and names of domains.
    DRY_RUN_ROOM_BYTES: u64 = 64 * MIB as u64;
    /// A dry run that takes longer is given up.
    DRY_RUN_WITHIN: Duration = Duration::from_secs(60);
    /// Seconds per task that an estimate assumes if nothing was measured.
    ASSUMED_SECONDS_PER_TASK: f64 = 2.0;
    /// Seconds per task with a built-in gateway, which calls nobody: the two writes of a task.
    BUILT_IN_SECONDS_PER_TASK: f64 = 0.005;
    /// Tasks whose duration an estimate measures, all of one job.
    ESTIMATE_TASKS: u32 = 20;
    /// Newest jobs among which an estimate looks for one with measured tasks.
    ESTIMATE_JOBS_LOOK: u32 = 10;

    ["Uploads and staged lists"]

    /// One staged list, as it is uploaded; at most 128 GiB can be set.
    LIST_MAX_BYTES: u64 = 1024 * MIB as u64, set by "`--list-max-bytes`";
    /// One staged list, expanded.
    LIST_EXPANDED_MAX_BYTES: u64 = 4 * 1024 * MIB as u64, set by "`--list-expanded-max-bytes`";
    /// Bytes that one byte of a compressed list may expand to, beyond the first [`LIST_RATIO_FREE_BYTES`].
    LIST_RATIO_MAX: u64 = 200;
    /// The ratio counts from here on: a short list of one repeated URL compresses better than any honest long list.
    LIST_RATIO_FREE_BYTES: u64 = 16 * MIB as u64;
    /// The most that `--list-max-bytes` and `--export-max-bytes` can be set to: 10,000 parts of bounded size hold it on S3.
    OBJECT_MAX_BYTES_MOST: u64 = 128 * 1024 * MIB as u64;
    /// One line, or one CSV record, of a list. Any task that a submit takes fits.
    LINE_MAX_BYTES: usize = TASK_JSON_MAX_BYTES;
    /// A staged list up to this size is read on the request, which may write it. A larger one is accepted (202), however few its
    /// records.
    SYNC_LIST_MAX_BYTES: u64 = 4 * MIB as u64;
    /// A list that expands to more is not written on the request, because its rows are held in memory until then.
    SYNC_LIST_EXPANDED_MAX_BYTES: u64 = 16 * MIB as u64;
    /// How long a submit may count the rows of a list that was not counted before (SPEC 6.10).
    COUNT_WITHIN: Duration = Duration::from_millis(250), set by "`--count-within-ms`";
    /// Lists that the submits of one process count at once.
    COUNTS_MAX: usize = 8;
    /// The same, of one caller.
    COUNTS_OF_CALLER_MAX: usize = 2;
    /// Pieces of an upload that wait to be counted; more pause the upload.
    COUNT_PIECES_AHEAD: usize = 4;
    /// The likely size of a row, which tells the length of a list from its size before it is read.
    ROW_LIKELY_BYTES: u64 = 50;
    /// Long lists of submits that one process checks at once (SPEC 6.28).
    LIST_CHECKS_MAX: usize = 8;
    /// The same, of one caller.
    LIST_CHECKS_OF_CALLER_MAX: usize = 2;
    /// Lists that one process receives or joins at once (SPEC 6.27).
    UPLOADS_INFLIGHT_MAX: usize = 64, set by "`--uploads-inflight-max`";
    /// The same, of one caller.
    UPLOADS_OF_CALLER_MAX: usize = 16, set by "`--uploads-of-caller-max`";
    /// Uploads of one caller that no job uses yet.
    UPLOADS_MAX: u32 = 1_000;
    /// Parts of one upload.
    UPLOAD_PARTS_MAX: u32 = 1_000;
    /// Parts for which one call signs URLs.
    PART_URLS_MAX: usize = 100;
    /// Every part of an upload except the last, unless the caller or the length of the list says otherwise (SPEC 6.9).
    PART_BYTES: u64 = 16 * MIB as u64, set by "a slot, `conveyor submit --part-bytes`";
    /// The largest part that a caller may choose. S3 sets this limit.
    PART_MAX_BYTES: u64 = 5 * 1024 * MIB as u64;
    /// How long an upload waits for a job to use it.
    UPLOAD_TTL: Duration = Duration::from_hours(24);
    /// How long a signed URL for an upload is valid.
    UPLOAD_URL_TTL: Duration = Duration::from_mins(30);

    ["Ingest"]

    /// Records of a list that become one step of an ingest.
    CHUNK_ROWS: u32 = 5_000, set by "`--chunk-rows`";
    /// The rows of one such step.
    CHUNK_MAX_BYTES: usize = 4 * MIB;
    /// Long lists of one caller that one process reads at once, and as many short ones. All callers together have twice as
    /// many places of each, so one caller cannot take them all.
    INGESTS_MAX: u32 = 2, set by "`--ingests-max`";
    /// A list up to this size, as it was uploaded, is short.
    INGEST_SMALL_MAX_BYTES: u64 = 8 * MIB as u64;
    /// A replayed run of up to this many tasks is short.
    INGEST_SMALL_MAX_TASKS: u32 = 100_000;
    /// Messages that one look takes from the control queue (SPEC 6.11).
    INGEST_LOOK_MAX: usize = 100;
    /// Looks of one pass over the control queue. A pass continues while places are free and all it receives is passed over.
    INGEST_PASS_LOOKS_MAX: u32 = 20;
    /// An ingest that logged nothing for this long, with no control message queued, has lost its message.
    INGEST_QUIET: Duration = Duration::from_secs(10);
    /// An ingest that logged nothing for this long gets a new message, whatever is queued.
    INGEST_STALLED: Duration = Duration::from_mins(2);
    /// New messages for an ingest that makes no progress before it is given up.
    INGEST_RESENDS_MAX: u32 = 3;
    /// Receives of a control message before it goes to the dead-letter queue.
    CONTROL_MAX_RECEIVES: u32 = 5;

    ["Events"]

    /// Events on a page that asks for no number.
    EVENTS_PAGE_DEFAULT: u32 = 100;
    /// Events on one page.
    EVENTS_PAGE_MAX: u32 = 1_000;
    /// How often a stream looks for events, whatever happens.
    EVENTS_LOOK_EVERY: Duration = Duration::from_millis(500);
    /// The shortest time between two looks of one stream.
    EVENTS_LOOK_AFTER: Duration = Duration::from_millis(50);
    /// How often an idle stream sends a heartbeat.
    EVENTS_HEARTBEAT_EVERY: Duration = Duration::from_secs(15);
    /// Event streams open at once in one process (SPEC 6.27).
    EVENT_STREAMS_MAX: usize = 1_000, set by "`--event-streams-max`";
    /// The same, of one caller.
    EVENT_STREAMS_OF_CALLER_MAX: usize = 100, set by "`--event-streams-of-caller-max`";
    /// Looks per second of all event streams of one caller together.
    EVENT_LOOKS_PER_SECOND: u32 = 200;

    ["Gateway, retries and circuit breaker"]

    /// Tasks of a job in flight at once, from 1 to [`MAX_INFLIGHT_MAX`].
    MAX_INFLIGHT_DEFAULT: u32 = 100, set by "submit, `PATCH`";
    /// The most that a job, a domain limit or a change of limits can choose for it.
    MAX_INFLIGHT_MAX: u32 = 10_000;
    /// Attempts at a task before it fails, from 1 to [`RETRY_ATTEMPTS_MAX`].
    ATTEMPTS_MAX: u32 = 4, set by "`--attempts-max`; submit, `PATCH`";
    /// The wait before the second attempt; it doubles with each.
    RETRY_BASE: Duration = Duration::from_secs(1), set by "`--retry-base-ms`; submit, `PATCH`";
    /// The longest wait between two attempts.
    RETRY_CAP: Duration = Duration::from_secs(60), set by "`--retry-cap-ms`; submit, `PATCH`";
    /// The most attempts that a job can choose.
    RETRY_ATTEMPTS_MAX: u32 = 100;
    /// The longest first wait that a job can choose.
    RETRY_BASE_MAX: Duration = Duration::from_hours(1);
    /// The longest wait between attempts that a job can choose.
    RETRY_CAP_MAX: Duration = NOT_BEFORE_MAX;
    /// A longer `Retry-After` of the gateway is cut to this.
    RETRY_AFTER_MAX: Duration = Duration::from_mins(10);
    /// No retry is set further ahead than this. A row that says otherwise was written under a wrong clock.
    NOT_BEFORE_MAX: Duration = Duration::from_hours(24);
    /// Claims of one task in a row that came to no end; then the task counts as the cause of its workers' deaths.
    CLAIMS_MAX: u32 = 20;
    /// Cost of one call, in the units of the gateway. A larger value is ignored as nonsense.
    CALL_COST_MAX: f64 = 10_000.0;
    /// Credits of one call. A larger value is ignored as nonsense.
    CALL_CREDITS_MAX: u64 = 1_000_000_000;
    /// One connection attempt to the gateway.
    CONNECT_TIMEOUT: Duration = Duration::from_secs(10), set by "`--connect-timeout-ms`";
    /// One whole call of the gateway.
    GATEWAY_TIMEOUT: Duration = Duration::from_mins(3), set by "`--gateway-timeout-ms`";
    /// The body of one result; a larger one fails its task.
    RESULT_MAX_BYTES: usize = 16 * MIB, set by "`--result-max-bytes`";
    /// How much of the gateway's error body is read and stored.
    ERROR_BODY_MAX_BYTES: usize = 16 * KIB;
    /// Characters of the detail of a failure.
    FAILURE_DETAIL_MAX_CHARS: usize = 500;
    /// Redirects that a direct fetch follows.
    REDIRECTS_MAX: usize = 5;
    /// Name lookups at once; half of them at most for one caller (SPEC 6.28).
    LOOKUPS_MAX: usize = 64;
    /// Tasks of a run that must have ended before its failure ratio counts (SPEC 6.25).
    BREAKER_MIN_TASKS: u32 = 20;
    /// How often, at most, a worker checks whether the circuit breaker of a run trips.
    BREAKER_LOOK_EVERY: Duration = Duration::from_millis(500);
    /// Failures in a row (gateway overloaded or unreachable) before a job backs off.
    GATEWAY_FAILURES_MAX: u32 = 10;
    /// The first such backoff; it doubles with each probe that fails, unless the gateway asks for more.
    GATEWAY_PAUSE: Duration = Duration::from_millis(500);
    /// The longest such backoff.
    GATEWAY_PAUSE_MAX: Duration = Duration::from_secs(30);
    /// Another call probes the gateway if the one before it is not answered for this long.
    GATEWAY_PROBE_EVERY: Duration = Duration::from_secs(2);

    ["Permits and rates"]

    /// Starts per second that a rate limit can allow.
    RATE_MAX: u32 = 100_000;
    /// Starts at once that a rate limit can allow.
    BURST_MAX: u32 = 100_000;
    /// Domains with limits, of one job and in the configuration.
    DOMAIN_LIMITS_MAX: usize = 1_000;
    /// Characters of a domain name.
    DOMAIN_MAX_CHARS: usize = 253;
    /// Budgets of domains that one response shows.
    DOMAIN_BUDGETS_SHOWN_MAX: u32 = 100;
    /// How long a grant of permits lasts unless it is renewed.
    GRANT_TTL: Duration = Duration::from_secs(30);
    /// How often a worker renews its grants.
    GRANT_RENEW_EVERY: Duration = Duration::from_secs(10);
    /// A worker stops starting tasks this long before its grant expires.
    GRANT_MARGIN: Duration = Duration::from_secs(5);
    /// How soon a worker that has fewer permits than it could use asks again.
    GRANT_ASK_EVERY: Duration = Duration::from_millis(500);
    /// Workers that are remembered as waiting for permits of one budget.
    GRANT_WAITING_MAX: usize = 16;
    /// How far ahead a worker reserves starts of a rate.
    STARTS_AHEAD: Duration = Duration::from_millis(400);
    /// How long before its start a task is received.
    START_LEAD: Duration = Duration::from_millis(200);
    /// How long a task that was received for a start waits for it.
    START_WAIT_MAX: Duration = Duration::from_secs(5);
    /// How much later than its start a call may begin, at least, however small the burst.
    START_LATE_MIN: Duration = Duration::from_millis(20);
    /// The same as a part of the time between two starts, where that is longer: one in this many.
    START_LATE_PART: u32 = 20;
    /// How much later than its start a call may begin, at most, however large the burst.
    START_LATE_MAX: Duration = Duration::from_secs(5);
    /// How long a request for starts may take, at least, before all but one of the starts are lost.
    START_ROUND_TRIP_MAX: Duration = Duration::from_millis(100);
    /// A share of a domain that was not used for this long is returned: another worker may have messages parked for it.
    DOMAIN_SHARE_IDLE: Duration = Duration::from_secs(1);
    /// How often a worker reports which domain the parked tasks of a job wait for.
    DOMAIN_WAIT_TOLD_EVERY: Duration = Duration::from_secs(10);
    /// How long such a report is valid if it is not repeated.
    DOMAIN_WAIT_BELIEVED: Duration = Duration::from_secs(20);

    ["Parked messages"]

    /// Messages that one worker parks because their domain has no start for them yet. About 1 KiB each.
    PARKED_MAX: u32 = 8_192;
    /// The same, of one caller.
    PARKED_CALLER_MAX: u32 = 2_048;
    /// How long a message stays parked. Then it returns to the queue, so that another worker can have it.
    PARKED_FOR_MAX: Duration = Duration::from_hours(1);
    /// How often a worker checks whether parked messages should return to their queue, and what they wait for.
    PARKED_SEEN_EVERY: Duration = Duration::from_millis(200);
    /// Tasks in a row that need the same domains before their run is received no faster than those allow.
    LOOKAHEAD_MESSAGES: u32 = 1_000;
    /// How long a message that can neither start nor be parked returns to its queue for, at least; longer if its domain
    /// needs it. For a message of a paused run this is the first of waits that double.
    BOUNCE_MIN: Duration = Duration::from_secs(5);
    /// The longest such wait.
    BOUNCE_MAX: Duration = Duration::from_mins(5);

    ["Worker loop"]

    /// Tasks that one worker process has in flight.
    SLOTS: u32 = 256, set by "`--slots`";
    /// A caller that is alone leaves one slot in this many free, and at least one of two (SPEC 8.3).
    SLOTS_LEFT_PART: usize = 8;
    /// The shortest time between two looks for runs, however much happens.
    REDISCOVER_AFTER: Duration = Duration::from_millis(20);
    /// How often a worker looks for runs that changed.
    DISCOVER_EVERY: Duration = Duration::from_secs(1);
    /// How far back before the last look each look for changes reaches: clocks differ (5 s), a change has the time at which
    /// its write began (20 s at most for an AWS call), and indexes lag.
    DISCOVER_OVERLAP: Duration = Duration::from_secs(30);
    /// How often a worker looks at all runs, changed or not.
    DISCOVER_ALL_EVERY: Duration = Duration::from_mins(10);
    /// Messages that the runs of one caller get before another caller's turn.
    TURN_MESSAGES: u32 = 10;
    /// How long an idle worker waits before it looks again.
    IDLE_WAIT: Duration = Duration::from_millis(200);
    /// How long a queue rests after a receive that returned nothing; doubles with each.
    EMPTY_RECEIVE_PAUSE: Duration = Duration::from_millis(100);
    /// The longest such rest.
    EMPTY_RECEIVE_PAUSE_MAX: Duration = Duration::from_secs(2);
    /// How long a receive of fewer messages than it could return waits for more permits.
    RECEIVE_LINGER: Duration = Duration::from_millis(20);
    /// How long a message stays hidden while it is worked on; extended every third of it.
    VISIBILITY: Duration = Duration::from_secs(60), set by "`--visibility-ms`";
    /// Outcomes that are written together: with the counter row, what one DynamoDB transaction holds.
    SETTLE_GROUP_MAX: usize = 99;
    /// Groups of outcomes that one worker writes at once.
    SETTLE_GROUPS_INFLIGHT: usize = 4;
    /// Result bodies up to this size share an object with their group.
    PACK_BODY_MAX_BYTES: usize = 64 * KIB;
    /// Such an object.
    PACK_MAX_BYTES: usize = 4 * MIB;
    /// The first backoff of a worker whose store, queue or coordinator fails; doubles, with jitter.
    STORE_BACKOFF_MIN: Duration = Duration::from_millis(200);
    /// The longest such backoff.
    STORE_BACKOFF_MAX: Duration = Duration::from_secs(5);
    /// Different runs whose calls fail, with no success between them, before the whole worker backs off and probes with one
    /// message.
    STORE_FAILURES_MAX: u32 = 3;
    /// How often the log repeats that something still fails.
    OUTAGE_WARN_EVERY: Duration = Duration::from_secs(30);
    /// How long a shutdown waits for work in flight.
    SHUTDOWN_GRACE: Duration = Duration::from_secs(20), set by "`--shutdown-grace-ms`";

    ["Store"]

    /// Partitions of the tasks of a job. Small jobs have one.
    SHARDS_MAX: u32 = 64, set by "`--aws-task-shards-min` (the fewest)";
    /// Operations that share one durable commit (embedded).
    COMMIT_OPERATIONS_MAX: usize = 512;
    /// Operations that wait for the next commit (embedded).
    WRITE_QUEUE_MAX: usize = 2_048;
    /// Writes of this many rows are heavy: they enter the queue of the embedded writer by turns (SPEC 6.28).
    HEAVY_WRITE_ROWS: usize = 100;
    /// So are writes of this many bytes.
    HEAVY_WRITE_BYTES: usize = 64 * KIB;
    /// Heavy writes in that queue at once, half of them at most of one caller.
    HEAVY_WRITES_MAX: usize = 8;
    /// How often an idle process checks that its data directory is still the one it opened (embedded).
    DATA_DIRECTORY_LOOK_EVERY: Duration = Duration::from_secs(1);
    /// One attempt to connect to AWS.
    AWS_CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
    /// One try of an AWS call.
    AWS_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5), set by "`--aws-attempt-timeout-ms`";
    /// All tries of an AWS call, with the waits between them.
    AWS_CALL_TIMEOUT: Duration = Duration::from_secs(20), set by "`--aws-call-timeout-ms`";
    /// Tries of an AWS call that fails for a reason that may pass.
    AWS_ATTEMPTS_MAX: u32 = 6, set by "`--aws-attempts-max`";
    /// The first wait between two tries; exponential backoff.
    AWS_BACKOFF_BASE: Duration = Duration::from_millis(50);
    /// The longest wait between two tries.
    AWS_BACKOFF_MAX: Duration = Duration::from_secs(2);
    /// One try of an AWS call that moves an object.
    AWS_TRANSFER_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(60);
    /// All tries of an AWS call that moves an object.
    AWS_TRANSFER_TIMEOUT: Duration = Duration::from_mins(3);
    /// How long SQS must report a queue as empty before it counts as empty: its counts take about a minute to agree.
    QUEUE_EMPTY_AFTER: Duration = Duration::from_secs(60), set by "`--aws-queue-empty-after-ms`";
    /// How long a request waits until the messages about what it committed are sent (SPEC 5.4). Then they are sent in the
    /// background.
    SENT_WITHIN: Duration = Duration::from_secs(2);
    /// Messages of one process that wait to be sent. Those beyond it are left to the sweeper.
    SENDING_MAX_BYTES: usize = 64 * MIB;
    /// Of them, messages of one caller.
    SENDING_OF_CALLER_MAX_BYTES: usize = 16 * MIB;
    /// How long the refs of rows may take to be sent before the sweeper sends them (SPEC 5.4).
    REFS_SENT_WITHIN: Duration = Duration::from_secs(30), set by "`--aws-refs-sent-within-ms`";
    /// A pending row that waited for longer has a message in the queue, or its message was lost (SPEC 6.8).
    REF_WAITS_LONG: Duration = Duration::from_mins(2);
    /// An addition of tasks that takes longer may be given up, if there are many (SPEC 5.4).
    ADDITION_GIVEN_UP: Duration = Duration::from_mins(2);
    /// Additions of one run that are under way or were given up (AWS).
    HOLES_MAX: usize = 256;
    /// From this many on, an addition closes those that were given up (AWS).
    HOLES_TIDY: usize = 64;
    /// Rows that one addition makes void, about (AWS): as many as the largest addition has.
    HOLE_ROWS_AT_ONCE: u32 = 10_000;
    /// How long the claims and settles of a job pause on AWS after one of them failed: the first of an exponential backoff.
    JOB_PAUSE_MIN: Duration = Duration::from_millis(500);
    /// The longest such pause (SPEC 5.4).
    JOB_PAUSE_MAX: Duration = Duration::from_secs(5);

    ["Clocks"]

    /// A difference between the wall clock and a process's own that is a step, not drift.
    CLOCK_STEP_MIN: Duration = Duration::from_secs(1);
    /// A process whose clock is ahead by up to this runs slower until it is right; one that is further ahead is set back
    /// at once (SPEC 6.26). More than [`NOT_BEFORE_MAX`]: a time further ahead than that was written by a wrong clock.
    CLOCK_SLEW_MAX: Duration = Duration::from_hours(25);
    /// How far two clocks may drift apart, in millionths.
    CLOCK_DRIFT_PPM: i64 = 500;
    /// Responses in a row that confirm that the backend's time has jumped.
    CLOCK_RIVALS: u32 = 3;
    /// The difference between the wall clock and the backend's time from which on an operator is warned.
    CLOCK_SKEW_MAX: Duration = Duration::from_secs(5);
    /// How often that difference is measured, for metrics and the log.
    CLOCK_SKEW_EVERY: Duration = Duration::from_secs(5);
    /// While the time is this far from the last that sweepers saw, nothing is removed.
    CLOCK_JUMP_MAX: Duration = Duration::from_hours(24), set by "`conveyor clock confirm`";
    /// A jump that lasts this long, with looks at most [`CLOCK_GAP_MAX`] apart, is believed.
    CLOCK_HELD: Duration = Duration::from_hours(1);
    /// The longest pause between two such looks.
    CLOCK_GAP_MAX: Duration = Duration::from_mins(10);
    /// How often the time that sweepers saw is stored.
    CLOCK_SEEN_EVERY: Duration = Duration::from_secs(60);

    ["Sweeps and repairs"]

    /// How often the sweeper looks for work.
    SWEEP_EVERY: Duration = Duration::from_secs(5);
    /// How often it looks for what is costly or not urgent: counts, expired data.
    SWEEP_SLOWLY_EVERY: Duration = Duration::from_secs(15);
    /// One turn of a repair, about. The next turn resumes where it ended.
    SWEEP_TURN_WITHIN: Duration = Duration::from_secs(10);
    /// What one slow sweep spends on the rows of deleted jobs before other repairs have their turn.
    SWEEP_DELETES_WITHIN: Duration = Duration::from_secs(2);
    /// Things that one repair looks at, at once.
    SWEEP_LOOKS_INFLIGHT: usize = 16;
    /// Findings that one repair fixes at once, where a caller waits for it.
    SWEEP_FIXES_INFLIGHT: usize = 8;
    /// Rows that one step of a sweep removes.
    SWEEP_STEP_ROWS: u32 = 2_000;
    /// Findings on one page of a repair.
    SWEEP_PAGE: u32 = 500;
    /// How far a repair reads down a list that has no cursor.
    SWEEP_BEHIND_MAX: u32 = 100_000;
    /// Things of a page, in a row, that may fail to answer before the page is called off.
    SWEEP_SILENT_MAX: usize = SWEEP_LOOKS_INFLIGHT;
    /// Dead messages that one fix takes.
    SWEEP_MESSAGES_MAX: usize = 1_000;
    /// Outbox records of one run whose messages one fix sends, before other runs have their turn.
    SWEEP_RECORDS_OF_RUN_MAX: u32 = 100;
    /// How often the counters of an active run are compared with its rows.
    PROVE_EVERY: Duration = Duration::from_mins(10);
    /// How long a run that could not be proved is left alone.
    PROVE_PUT_OFF: Duration = Duration::from_secs(60);
    /// Audits that one process makes at once, one per caller: each reads every row of a run.
    AUDITS_MAX: usize = 2;
    /// How long other audits wait for their turn, by caller; then 429 `too_many_audits` if the caller's own is under way,
    /// otherwise 503 `overloaded`.
    AUDIT_WAIT: Duration = Duration::from_secs(10);
    /// One page of an audit of bodies, about: less than others wait for their turn (SPEC 6.14).
    AUDIT_BODIES_WITHIN: Duration = Duration::from_secs(5);
    /// Bodies that an audit reads at once.
    AUDIT_READS_MAX: usize = 32;
    /// How much of each body an audit holds in memory.
    AUDIT_PIECE_BYTES: u64 = MIB as u64;
    /// Faulty bodies that one page names.
    FAULTS_NAMED_MAX: usize = 20;
    /// One response to a reconciliation, about.
    RECONCILE_WITHIN: Duration = Duration::from_secs(20);
    /// Findings that one response names.
    FINDINGS_MAX: usize = 500;
    /// A submit that is under way for this long was given up: no call takes as long.
    SUBMIT_GIVEN_UP: Duration = Duration::from_mins(10);
    /// How often a dead letter is redriven before its run fails.
    REDRIVES_MAX: u32 = 2;
    /// How long a dead letter waits for an operator.
    DEAD_LETTER_KEPT: Duration = Duration::from_hours(14 * 24);

    ["Retention"]

    /// How long results can be read, in days, from 1 to [`RESULT_TTL_DAYS_MAX`].
    RESULT_TTL_DAYS: u32 = 14, set by "`--result-ttl-days`; submit";
    /// The most days that can be chosen.
    RESULT_TTL_DAYS_MAX: u32 = 30;
    /// How long the tasks and results of a run are stored after its end.
    ROWS_KEPT: Duration = Duration::from_hours(30 * 24);
    /// When deleted jobs are checked again, for what was in flight when they were deleted.
    TOMBSTONE_LOOKS: [Duration; 3] =
        [Duration::from_hours(1), Duration::from_hours(24), Duration::from_hours(7 * 24)];
    /// How long a tombstone is stored.
    TOMBSTONE_KEPT: Duration = Duration::from_hours(30 * 24);
    /// Latest runs that the tombstone of a job names (AWS). Only those can have a queue that appears late.
    TOMBSTONE_RUNS: usize = 1_000;

    ["Pages, cursors and URLs of results"]

    /// Items on a page that asks for no number.
    PAGE_DEFAULT: u32 = 50;
    /// Items on one page.
    PAGE_MAX: u32 = 100;
    /// Jobs that one page of leases reads. It may be short, or empty, though more follow.
    LEASES_LOOK_MAX: u32 = 500;
    /// Tasks that one page of a filtered list reads. It may be short, or empty, though more follow.
    LOOK_ROWS_MAX: u32 = 10_000;
    /// Read units after which such a page ends on AWS: 4 MiB of rows, read consistently.
    LOOK_UNITS_MAX: u32 = 1_000;
    /// Jobs, runs or uploads that one page of a list reads.
    LIST_LOOK_MAX: u32 = 500;
    /// Messages of a queue that are counted for a caller: so many that can be received, and so many others.
    SHOWN_DEPTH_MAX: u32 = 10_000;
    /// Results on a page that asks for no number.
    RESULTS_PAGE_DEFAULT: u32 = 100;
    /// Results on one page.
    RESULTS_PAGE_MAX: u32 = 1_000;
    /// The rows of one page of results, about: a page of heavier rows is shorter.
    RESULTS_PAGE_BYTES: usize = 4 * MIB;
    /// How long a cursor is valid.
    CURSOR_TTL: Duration = Duration::from_hours(24);
    /// How long a URL of a result or an export is valid, from 1 min to [`RESULT_URL_TTL_MAX`].
    RESULT_URL_TTL: Duration = Duration::from_hours(2), set by "`--result-url-ttl-minutes`";
    /// The most that a presigned URL of S3 may live.
    RESULT_URL_TTL_MAX: Duration = Duration::from_hours(7 * 24);
    /// How long after the start of a run some of its tasks can be rerun: the results of the others must still be there.
    PARTIAL_RERUN_WINDOW: Duration = Duration::from_hours(10 * 24);
    /// Words in one filter of a rerun.
    RERUN_WORDS_MAX: usize = 100;
    /// Reruns that ended early, each of the one before, that are followed back to a run with all tasks; beyond these, 409
    /// `list_not_read`.
    REPLAY_CHAIN_MAX: usize = 100;

    ["Deliveries"]

    /// The lookup of a webhook's URL before it is accepted.
    WEBHOOK_RESOLVED_WITHIN: Duration = Duration::from_secs(1);
    /// One attempt to deliver a notification.
    DELIVERY_TIMEOUT: Duration = Duration::from_secs(10);
    /// How much of the receiver's response is read.
    DELIVERY_ANSWER_MAX_BYTES: usize = 4 * KIB;
    /// How long an attempt keeps others from the same notification: longer than any attempt takes.
    DELIVERY_LEASE: Duration = Duration::from_secs(60);
    /// The waits between attempts; the last one repeats.
    DELIVERY_PAUSES: [Duration; 10] = [
        Duration::from_secs(5),
        Duration::from_secs(30),
        Duration::from_mins(2),
        Duration::from_mins(10),
        Duration::from_mins(30),
        Duration::from_hours(1),
        Duration::from_hours(2),
        Duration::from_hours(4),
        Duration::from_hours(8),
        Duration::from_hours(12),
    ];
    /// How long a notification is attempted.
    DELIVERY_TRIED_FOR: Duration = Duration::from_hours(3 * 24);
    /// How long a notification can be read and replayed.
    DELIVERY_KEPT: Duration = Duration::from_hours(30 * 24);
    /// Latest attempts of one notification that are stored.
    DELIVERY_ATTEMPTS_KEPT: usize = 30;
    /// Characters that are stored of why an attempt failed.
    DELIVERY_ERROR_MAX_CHARS: usize = 200;
    /// Notifications that one process delivers at once, half of them at most of one caller.
    DELIVERIES_INFLIGHT_MAX: usize = 128;
    /// Further places for attempts that take longer than [`DELIVERY_SLOW_AFTER`], half of them at most of one caller: they
    /// must not delay the others.
    DELIVERIES_SLOW_MAX: usize = 512;
    /// An attempt that takes longer is slow.
    DELIVERY_SLOW_AFTER: Duration = Duration::from_millis(500);
    /// Notifications at once to one receiver that answers.
    DELIVERIES_OF_RECEIVER_MAX: usize = 16;
    /// The same, to one that was never tried.
    DELIVERIES_OF_NEW_RECEIVER_MAX: usize = 4;
    /// The same, to one that did not answer.
    DELIVERIES_OF_SILENT_RECEIVER_MAX: usize = 2;
    /// Receivers whose answers one process remembers; beyond these, the caller with the most idle ones loses them.
    RECEIVERS_REMEMBERED_MAX: usize = 10_000;
    /// How often a process looks for notifications that are due.
    DELIVER_EVERY: Duration = Duration::from_secs(1);

    ["Exports"]

    /// The bodies (zip) or rows (jsonl, csv) of one export; at most 128 GiB can be set.
    EXPORT_MAX_BYTES: u64 = 100 * 1024 * MIB as u64, set by "`--export-max-bytes`";
    /// Long exports of one caller that one process builds at once, and as many short ones. All callers together have twice
    /// as many places of each, so one caller cannot take them all.
    EXPORTS_MAX: u32 = 2, set by "`--exports-max`";
    /// An export of a run of up to this many tasks is short.
    EXPORT_SMALL_MAX_TASKS: u32 = 10_000;
    /// Exports of one run.
    EXPORTS_OF_RUN_MAX: u32 = 100;
    /// Exports of one run that are not finished.
    EXPORTS_LIVE_MAX: usize = 10;
    /// How long an export can be downloaded, from when it was requested.
    EXPORT_TTL: Duration = Duration::from_hours(12);
    /// How long the record of an export is stored, if it is not removed before.
    EXPORT_RECORD_KEPT: Duration = Duration::from_hours(3 * 24);
    /// A builder that does not renew its lease for this long has lost the export.
    EXPORT_LEASE: Duration = Duration::from_secs(30);
    /// How often a builder renews its lease.
    EXPORT_RENEW_EVERY: Duration = Duration::from_secs(5);
    /// Attempts at one export.
    EXPORT_TRIES_MAX: u32 = 3;
    /// The wait after an attempt that failed, times the number of attempts.
    EXPORT_RETRY_BASE: Duration = Duration::from_secs(5);
    /// Bodies that one export reads ahead.
    EXPORT_READS_MAX: usize = 32;
    /// The same, in bytes.
    EXPORT_AHEAD_MAX_BYTES: usize = 32 * MIB;
    /// How much of a zip's directory is in memory before it is written to storage.
    EXPORT_DIRECTORY_BYTES: usize = 4 * MIB;

    ["Connections"]

    /// Connections open at once, or what the limit of descriptors leaves for them and their requests after
    /// [`DESCRIPTORS_RESERVED`], but at least [`CONNECTIONS_MIN`] (SPEC 6.27).
    CONNECTIONS_MAX: usize = 16_384, set by "`--connections-max`, `ulimit -n`";
    /// No limit of descriptors makes it fewer than this.
    CONNECTIONS_MIN: usize = 64;
    /// Connections that the system holds until they are accepted; its `somaxconn` may be less.
    CONNECTIONS_WAITING_MAX: u32 = 4_096;
    /// Descriptors for everything but connections and the files that responses read: calls of a worker, deliveries, bodies
    /// that exports read ahead, lists, the database, and some to spare.
    DESCRIPTORS_RESERVED: usize = 1_300;
    /// The part of all connections that is closed at once when there is no room for another: one in this many.
    CONNECTIONS_CLOSED_PART: usize = 16;
    /// How often connections are checked against the timeouts below.
    CONNECTIONS_LOOK_EVERY: Duration = Duration::from_secs(1);
    /// How long any connection may send the head of a request before it is closed for room.
    HEAD_TIME_MIN: Duration = Duration::from_millis(250);
    /// How long a new connection may stay silent.
    FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(10), set by "`--first-byte-timeout-ms`";
    /// How long the head of a request may take.
    HEAD_TIMEOUT: Duration = Duration::from_secs(15), set by "`--head-timeout-ms`";
    /// How long a connection may idle between two requests: longer than load balancers keep theirs, usually 60 s.
    IDLE_TIMEOUT: Duration = Duration::from_secs(75), set by "`--idle-timeout-ms`";
    /// How long the other end may accept nothing of a response.
    WRITE_TIMEOUT: Duration = Duration::from_secs(60), set by "`--write-timeout-ms`";
    /// The head of a request, and the buffer of an HTTP/1 connection.
    HEAD_MAX_BYTES: usize = 64 * KIB;
    /// What the system buffers of a response, per connection.
    SEND_BUFFER_BYTES: u32 = 256 * KIB as u32;
    /// The pieces in which a response is handed to the system. Until the last one, it occupies the place of its request.
    ANSWER_PIECE_BYTES: usize = 64 * KIB;
    /// An HTTP/2 response that is no longer occupies no place until it is taken.
    ANSWER_END_BYTES: usize = 2 * KIB;
    /// Requests at once on one HTTP/2 connection.
    HTTP2_STREAMS_MAX: u32 = 100;
    /// What may arrive on one HTTP/2 connection before it is read.
    HTTP2_WINDOW_BYTES: u32 = MIB as u32;
    /// The same, of one request: a body that waits for memory must not use up what the others of its connection need.
    HTTP2_STREAM_WINDOW_BYTES: u32 = 64 * KIB as u32;
    /// How often an HTTP/2 connection is pinged.
    HTTP2_PING_EVERY: Duration = Duration::from_secs(15);
    /// How long the answer to a ping may take.
    HTTP2_PING_TIMEOUT: Duration = Duration::from_secs(15);

    ["Requests and shares of callers"]

    /// Requests of one caller with a known key that are answered at once (SPEC 6.27).
    REQUESTS_OF_CALLER_MAX: usize = 128, set by "`--requests-of-caller-max`";
    /// GET and HEAD requests of one caller that are worked on at once; its others wait for their turn.
    READS_OF_CALLER_MAX: usize = 4;
    /// Requests of one caller that wait for one of these places.
    REQUESTS_WAITING_OF_CALLER_MAX: usize = 1_000;
    /// How long they wait.
    PLACE_WAIT: Duration = Duration::from_secs(3);
    /// Requests of all callers that are answered at once: one per this many connections.
    REQUESTS_INFLIGHT_PART: usize = 2;
    /// The same, however many connections there are.
    REQUESTS_INFLIGHT_MAX: usize = 2_048;
    /// The part of these places that is only for URLs of results and exports: one in this many.
    SIGNED_REQUESTS_PART: usize = 4;
    /// Request bodies in memory at once, of all callers (SPEC 6.27).
    BODIES_MAX_BYTES: usize = 256 * MIB, set by "`--bodies-max-bytes`";
    /// The same, of one caller.
    BODIES_OF_CALLER_MAX_BYTES: usize = 128 * MIB, set by "`--bodies-of-caller-max-bytes`";
    /// The steps in which memory is reserved as a body arrives.
    BODY_STEP_BYTES: usize = 16 * KIB;
    /// How long a body that is held in memory may take, and a streamed one until its next piece.
    BODY_TIMEOUT: Duration = Duration::from_secs(60), set by "`--body-timeout-ms`";
    /// The slowest a body may arrive, per second on average, once it has taken [`BODY_GRACE`]; slower ones get 408.
    BODY_RATE_MIN_BYTES: u64 = KIB as u64, set by "`--body-rate-min-bytes`";
    /// How long a body may arrive as slowly as it likes.
    BODY_GRACE: Duration = Duration::from_secs(15), set by "`--body-grace-ms`";
    /// What is still read of a body that the response did not need, so that an HTTP/1 connection can be used again;
    /// otherwise the response says `Connection: close`.
    UNREAD_MAX_BYTES: usize = MIB;
    /// For how long it is read.
    UNREAD_TIMEOUT: Duration = Duration::from_secs(1);
    /// Responses in memory at once, half of them at most of one caller (SPEC 6.27).
    ANSWERS_MAX_BYTES: usize = 256 * MIB, set by "`--answers-max-bytes`";
    /// Reads of lists at once in one process; the next place goes to callers in turn.
    LIST_TURNS_MAX: usize = 16;
    /// The same, of one caller.
    LIST_TURNS_OF_CALLER_MAX: usize = 4;
    /// Reads, at once in one process, of what a caller has before it gets more (SPEC 6.24).
    ADMISSIONS_MAX: usize = 16;
    /// The same, of one caller.
    ADMISSIONS_OF_CALLER_MAX: usize = 4;
    /// Requests per second of one caller to one process; 0 is no limit.
    REQUESTS_PER_SECOND: u32 = 500, set by "`--requests-per-second`";
    /// Requests of one caller to one process at once.
    REQUESTS_BURST: u32 = 1_000, set by "`--requests-burst`";
    /// Callers and operator keys whose requests one process counts. Beyond it, the one that was quiet longest is forgotten.
    REQUEST_BUCKETS_MAX: usize = 10_000;
    /// Characters of a request id.
    REQUEST_ID_MAX: usize = 128;
    /// How soon a backend that is ready answers (SPEC 15).
    READY_WITHIN: Duration = Duration::from_secs(5);
    /// How long the result of `/readyz` is reused: a process asks its backend no more often.
    READY_KEPT: Duration = Duration::from_secs(1);
    /// How often, at most, `/metrics` is rendered: requests in between share the next page.
    METRICS_EVERY: Duration = Duration::from_millis(250);

    ["Keys and quotas"]

    /// Characters of an API key, at least.
    API_KEY_MIN_CHARS: usize = 16;
    /// How long a process accepts a key that it found valid: a revoked key works this long at most (SPEC 6.24).
    KEY_ACCEPTED_FOR: Duration = Duration::from_secs(5);
    /// Valid keys that one process remembers. Others are read for every request.
    KEYS_ACCEPTED_MAX: usize = 10_000;
    /// Absent keys that the log names when an API starts.
    ABSENT_KEYS_NAMED_MAX: usize = 20;
    /// Unknown keys per second from one address that are looked up without delay (SPEC 6.27); 0 is no limit.
    UNKNOWN_KEYS_PER_SECOND: u32 = 10, set by "`--unknown-keys-per-second`";
    /// The same, at once.
    UNKNOWN_KEYS_BURST: u32 = 100, set by "`--unknown-keys-burst`";
    /// Lookups of unknown keys at once beyond that, of all addresses together.
    UNKNOWN_KEY_LOOKUPS_MAX: usize = 2;
    /// Lookups that wait for one of those.
    UNKNOWN_KEY_LOOKUPS_WAITING_MAX: usize = 64;
    /// Addresses whose unknown keys are counted.
    UNKNOWN_KEY_ADDRESSES_MAX: usize = 10_000;
    /// Accepted keys that are remembered, so that they are not counted as unknown.
    KEYS_REMEMBERED_MAX: usize = 10_000;
    /// The most that a quota of jobs can be: what is under one is counted on every request that it applies to.
    QUOTA_JOBS_MAX: u32 = 10_000;
    /// The most that a quota of tasks can be.
    QUOTA_TASKS_MAX: u64 = 1_000_000_000;
    /// Live jobs of a caller whose tasks are counted.
    QUOTA_LIVE_JOBS_MAX: u32 = 1_000;
    /// How long what a request is about to make counts before it is there. No write takes as long.
    RESERVATION_TTL: Duration = Duration::from_secs(60);
    /// Requests of one caller, at once, that are about to make something under a quota; more get 503.
    RESERVATIONS_MAX: usize = 500;
    /// Attempts of a request to get its turn at the quotas of its caller; then it gets 503.
    QUOTA_TRIES_MAX: u32 = 60;
}

/// How often the message that is worked on is hidden again: two of three extensions may be late.
pub const fn extend_every(visibility: Duration) -> Duration {
    Duration::from_millis(visibility.as_millis() as u64 / 3)
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
