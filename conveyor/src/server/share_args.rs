//! What callers share in this process, and how much of it one of them may have (SPEC 6.27).

use super::args::ms;
use super::listen::Deadlines;
use clap::builder::RangedU64ValueParser;
use clap::{Args, value_parser};
use conveyor_api::{BodyDeadlines, Shares};
use conveyor_domain::{RequestRate, limits};
use std::time::Duration;

const MIB: u64 = limits::MIB as u64;
/// Room for bodies is counted in KiB, in 32 bits.
const BYTES_MOST: u64 = (u32::MAX as u64) * limits::KIB as u64;
const TIMEOUT_MS_MAX: u64 = 24 * 3_600_000;
const COUNT_MAX: u64 = 1_000_000;

#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Shares of callers")]
pub struct ShareArgs {
    /// Keep at most so many connections open, or as many as the limit of descriptors leaves
    #[arg(long, env = "CONVEYOR_CONNECTIONS_MAX", value_name = "N", default_value_t = limits::CONNECTIONS_MAX, value_parser = count(limits::CONNECTIONS_MIN))]
    pub connections_max: usize,

    /// Answer so many requests of one caller at once; others wait for a moment, then are refused
    #[arg(long, env = "CONVEYOR_REQUESTS_OF_CALLER_MAX", value_name = "N", default_value_t = limits::REQUESTS_OF_CALLER_MAX, value_parser = count(1))]
    pub requests_of_caller_max: usize,

    /// Keep so many event streams open, of all callers
    #[arg(long, env = "CONVEYOR_EVENT_STREAMS_MAX", value_name = "N", default_value_t = limits::EVENT_STREAMS_MAX, value_parser = count(1))]
    pub event_streams_max: usize,

    /// Keep so many event streams of one caller open
    #[arg(long, env = "CONVEYOR_EVENT_STREAMS_OF_CALLER_MAX", value_name = "N", default_value_t = limits::EVENT_STREAMS_OF_CALLER_MAX, value_parser = count(1))]
    pub event_streams_of_caller_max: usize,

    /// Take in so many lists at once, of all callers (embedded)
    #[arg(long, env = "CONVEYOR_UPLOADS_INFLIGHT_MAX", value_name = "N", default_value_t = limits::UPLOADS_INFLIGHT_MAX, value_parser = count(1))]
    pub uploads_inflight_max: usize,

    /// Take in so many lists of one caller at once (embedded)
    #[arg(long, env = "CONVEYOR_UPLOADS_OF_CALLER_MAX", value_name = "N", default_value_t = limits::UPLOADS_OF_CALLER_MAX, value_parser = count(1))]
    pub uploads_of_caller_max: usize,

    /// Hold so many bytes of request bodies in memory, of all callers
    #[arg(long, env = "CONVEYOR_BODIES_MAX_BYTES", value_name = "BYTES", default_value_t = limits::BODIES_MAX_BYTES, value_parser = bytes())]
    pub bodies_max_bytes: usize,

    /// Hold so many bytes of request bodies of one caller in memory
    #[arg(long, env = "CONVEYOR_BODIES_OF_CALLER_MAX_BYTES", value_name = "BYTES", default_value_t = limits::BODIES_OF_CALLER_MAX_BYTES, value_parser = bytes())]
    pub bodies_of_caller_max_bytes: usize,

    /// Hold so many bytes of answers in memory, of all callers; one caller gets half at most
    #[arg(long, env = "CONVEYOR_ANSWERS_MAX_BYTES", value_name = "BYTES", default_value_t = limits::ANSWERS_MAX_BYTES, value_parser = bytes())]
    pub answers_max_bytes: usize,

    /// Close a connection that sends nothing for so long [ms]
    #[arg(long, env = "CONVEYOR_FIRST_BYTE_TIMEOUT_MS", value_name = "MS", default_value_t = ms(limits::FIRST_BYTE_TIMEOUT), value_parser = timeout())]
    pub first_byte_timeout_ms: u64,

    /// Close a connection that takes longer to send the head of a request [ms]
    #[arg(long, env = "CONVEYOR_HEAD_TIMEOUT_MS", value_name = "MS", default_value_t = ms(limits::HEAD_TIMEOUT), value_parser = timeout())]
    pub head_timeout_ms: u64,

    /// Close a connection that idles between two requests for so long [ms]
    #[arg(long, env = "CONVEYOR_IDLE_TIMEOUT_MS", value_name = "MS", default_value_t = ms(limits::IDLE_TIMEOUT), value_parser = timeout())]
    pub idle_timeout_ms: u64,

    /// Close a connection that takes nothing of an answer for so long [ms]
    #[arg(long, env = "CONVEYOR_WRITE_TIMEOUT_MS", value_name = "MS", default_value_t = ms(limits::WRITE_TIMEOUT), value_parser = timeout())]
    pub write_timeout_ms: u64,

    /// Refuse a request body that is not in memory after so long, or is streamed and pauses for so long [ms]
    #[arg(long, env = "CONVEYOR_BODY_TIMEOUT_MS", value_name = "MS", default_value_t = ms(limits::BODY_TIMEOUT), value_parser = timeout())]
    pub body_timeout_ms: u64,

    /// Let a request body arrive as slowly as it likes for so long [ms]
    #[arg(long, env = "CONVEYOR_BODY_GRACE_MS", value_name = "MS", default_value_t = ms(limits::BODY_GRACE), value_parser = timeout())]
    pub body_grace_ms: u64,

    /// Refuse a request body that arrives more slowly than this, on average [bytes a second]
    #[arg(long, env = "CONVEYOR_BODY_RATE_MIN_BYTES", value_name = "BYTES", default_value_t = limits::BODY_RATE_MIN_BYTES, value_parser = value_parser!(u64).range(1..=BYTES_MOST))]
    pub body_rate_min_bytes: u64,

    /// Look up so many unknown keys of one address in a second without delay; 0 for as many as come
    #[arg(long, env = "CONVEYOR_UNKNOWN_KEYS_PER_SECOND", value_name = "N", default_value_t = limits::UNKNOWN_KEYS_PER_SECOND, value_parser = value_parser!(u32).range(0..=i64::from(limits::RATE_MAX)))]
    pub unknown_keys_per_second: u32,

    /// Look up so many unknown keys of one address at once without delay
    #[arg(long, env = "CONVEYOR_UNKNOWN_KEYS_BURST", value_name = "N", default_value_t = limits::UNKNOWN_KEYS_BURST, value_parser = value_parser!(u32).range(1..=i64::from(limits::BURST_MAX)))]
    pub unknown_keys_burst: u32,
}

fn count(least: usize) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(least as u64..=COUNT_MAX)
}

fn bytes() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(MIB..=BYTES_MOST)
}

fn timeout() -> RangedU64ValueParser<u64> {
    RangedU64ValueParser::new().range(1..=TIMEOUT_MS_MAX)
}

impl ShareArgs {
    /// Refuses values that contradict each other.
    pub fn check(&self) -> anyhow::Result<()> {
        let pairs = [
            (
                ("--event-streams-of-caller-max", self.event_streams_of_caller_max as u64),
                ("--event-streams-max", self.event_streams_max as u64),
            ),
            (
                ("--uploads-of-caller-max", self.uploads_of_caller_max as u64),
                ("--uploads-inflight-max", self.uploads_inflight_max as u64),
            ),
            (
                ("--bodies-of-caller-max-bytes", self.bodies_of_caller_max_bytes as u64),
                ("--bodies-max-bytes", self.bodies_max_bytes as u64),
            ),
            (
                ("--first-byte-timeout-ms", self.first_byte_timeout_ms),
                ("--head-timeout-ms", self.head_timeout_ms),
            ),
            (("--body-grace-ms", self.body_grace_ms), ("--body-timeout-ms", self.body_timeout_ms)),
        ];
        for ((part, less), (whole, more)) in pairs {
            anyhow::ensure!(less <= more, "{part} ({less}) must not be more than {whole} ({more})");
        }
        Ok(())
    }

    pub fn shares(&self) -> Shares {
        Shares {
            requests_of_caller_max: self.requests_of_caller_max,
            event_streams_max: self.event_streams_max,
            event_streams_of_caller_max: self.event_streams_of_caller_max,
            uploads_max: self.uploads_inflight_max,
            uploads_of_caller_max: self.uploads_of_caller_max,
            bodies_max_bytes: self.bodies_max_bytes,
            bodies_of_caller_max_bytes: self.bodies_of_caller_max_bytes,
            answers_max_bytes: self.answers_max_bytes,
            body: BodyDeadlines {
                timeout: Duration::from_millis(self.body_timeout_ms),
                grace: Duration::from_millis(self.body_grace_ms),
                rate_min_bytes: self.body_rate_min_bytes,
            },
            unknown_keys: RequestRate::new(self.unknown_keys_per_second, self.unknown_keys_burst),
        }
    }

    pub fn deadlines(&self) -> Deadlines {
        Deadlines {
            first_byte: Duration::from_millis(self.first_byte_timeout_ms),
            head: Duration::from_millis(self.head_timeout_ms),
            idle: Duration::from_millis(self.idle_timeout_ms),
            write: Duration::from_millis(self.write_timeout_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        share: ShareArgs,
    }

    fn parsed(args: &[&str]) -> Result<ShareArgs, clap::Error> {
        Command::try_parse_from([&["conveyor"][..], args].concat()).map(|command| command.share)
    }

    #[test]
    fn the_defaults_are_those_of_the_limits() {
        let args = parsed(&[]).unwrap();
        args.check().unwrap();
        assert_eq!(format!("{:?}", args.shares()), format!("{:?}", Shares::default()));
        assert_eq!(args.deadlines(), Deadlines::default());
    }

    #[test]
    fn each_has_a_variable_and_refuses_nothing_at_all() {
        for arg in Command::command().get_arguments().filter(|arg| arg.get_long() != Some("help")) {
            let long = arg.get_long().unwrap();
            let variable = format!("CONVEYOR_{}", long.to_uppercase().replace('-', "_"));
            assert_eq!(arg.get_env().and_then(|env| env.to_str()), Some(&*variable));
            let refused = parsed(&[&format!("--{long}"), "0"]).is_err();
            assert_eq!(refused, long != "unknown-keys-per-second", "--{long} 0");
        }
    }

    #[test]
    fn a_part_is_not_larger_than_the_whole() {
        let refused = |args: &[&str]| parsed(args).unwrap().check().unwrap_err().to_string();
        assert_eq!(
            refused(&["--event-streams-max", "10"]),
            "--event-streams-of-caller-max (100) must not be more than --event-streams-max (10)"
        );
        for args in [
            ["--uploads-of-caller-max", "65"],
            ["--bodies-of-caller-max-bytes", "268435457"],
            ["--first-byte-timeout-ms", "15001"],
            ["--body-grace-ms", "60001"],
        ] {
            assert!(refused(&args).starts_with(args[0]), "{args:?}");
        }
    }
}
