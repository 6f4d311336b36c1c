//! What goes wrong, and with which calls. Pure: the same luck always means the same.

use super::partial;
use super::service::Service;
use anyhow::{Context, ensure};
use clap::Args;
use fastrand::Rng;
use serde::{Deserialize, Serialize};
use std::str::FromStr;
use std::time::Duration;

const DELAY_MAX_MS: u64 = 600_000;

// Shares are of the calls that they can befall, 0 to 1.
#[derive(Clone, Debug, Default, PartialEq, Args, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Faults {
    /// Calls that are refused as too many, in the service's own form, and not passed on
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub throttle: f64,
    /// Calls that are not passed on: the connection is closed
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub drop_requests: f64,
    /// Calls that are done by the server, and then the connection is closed
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub drop_answers: f64,
    /// DynamoDB: TransactWriteItems that are cancelled because another transaction has one of the items
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub conflict: f64,
    /// DynamoDB, SQS: batches of which some are refused and the rest is done; their signature does not hold any more
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub partial: f64,
    /// How long each call is held back, at least and at most: `0-200`, or one number
    #[arg(long, value_name = "MS", default_value = "0")]
    pub delay_ms: Delay,
    #[arg(skip)]
    pub blocked: bool,
    /// Only calls whose body has this text, such as the id of a job in the keys of its rows. Not for `blocked`.
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub only: Option<String>,
}

/// The shortest and the longest delay of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delay(u64, u64);

impl FromStr for Delay {
    type Err = anyhow::Error;

    /// `0-200`, or `50` for all calls alike.
    fn from_str(text: &str) -> anyhow::Result<Delay> {
        let (least, most) = text.split_once('-').unwrap_or((text, text));
        let ms = |text: &str| text.trim().parse().with_context(|| format!("{text:?} is no number of ms"));
        Ok(Delay(ms(least)?, ms(most)?))
    }
}

impl Faults {
    /// What may befall a call with this body.
    pub fn befalling(self, body: &[u8]) -> Faults {
        let has =
            |text: &str| text.is_empty() || body.windows(text.len()).any(|part| part == text.as_bytes());
        if self.only.as_deref().is_none_or(has) { self } else { Faults::default() }
    }

    pub fn check(&self, service: Service) -> anyhow::Result<()> {
        let shares = [
            ("throttle", self.throttle, true),
            ("drop_requests", self.drop_requests, true),
            ("drop_answers", self.drop_answers, true),
            ("conflict", self.conflict, service.has_conflicts()),
            ("partial", self.partial, service.has_batches()),
        ];
        for (name, share, applies) in shares {
            ensure!((0.0..=1.0).contains(&share), "{name} is a number from 0 to 1");
            ensure!(applies || share == 0.0, "{name} does not happen at this service");
        }
        let Delay(least, most) = self.delay_ms;
        ensure!(least <= most && most <= DELAY_MAX_MS, "delay_ms is two numbers from 0 to {DELAY_MAX_MS}");
        Ok(())
    }
}

/// The luck of one call. All of it is drawn every time, so that turning one knob does not shift the luck of another.
#[derive(Clone, Copy, Debug)]
pub struct Luck {
    throttle: f64,
    drop_request: f64,
    drop_answer: f64,
    conflict: f64,
    partial: f64,
    delay: f64,
    /// For the choices that remain: which form an error has, which items of a batch it befalls.
    seed: u64,
}

impl Luck {
    pub fn draw(chance: &mut Rng) -> Luck {
        Luck {
            throttle: chance.f64(),
            drop_request: chance.f64(),
            drop_answer: chance.f64(),
            conflict: chance.f64(),
            partial: chance.f64(),
            delay: chance.f64(),
            seed: chance.u64(..),
        }
    }

    pub fn delay(&self, faults: &Faults) -> Duration {
        let Delay(least, most) = faults.delay_ms;
        let range = (most - least + 1) as f64;
        Duration::from_millis(least + (self.delay * range) as u64)
    }

    /// Repeats for the same call.
    pub fn chance(&self) -> Rng {
        Rng::with_seed(self.seed)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    DropRequest,
    Throttle,
    Conflict,
    Forward { partial: bool, drop_answer: bool },
}

/// The network comes before the service, and a refusal before what would be done.
pub fn decide(operation: &str, faults: &Faults, luck: &Luck) -> Plan {
    if luck.drop_request < faults.drop_requests {
        Plan::DropRequest
    } else if luck.throttle < faults.throttle {
        Plan::Throttle
    } else if operation == "TransactWriteItems" && luck.conflict < faults.conflict {
        Plan::Conflict
    } else {
        Plan::Forward {
            partial: partial::is_batch(operation) && luck.partial < faults.partial,
            drop_answer: luck.drop_answer < faults.drop_answers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Plan = Plan::Forward { partial: false, drop_answer: false };

    #[test]
    fn faults_befall_the_calls_that_they_can() {
        let luck = Luck::draw(&mut Rng::with_seed(1));
        let of = |operation, faults: Faults| decide(operation, &faults, &luck);
        let all = || Faults { drop_answers: 1.0, conflict: 1.0, partial: 1.0, ..Faults::default() };
        assert_eq!(of("TransactWriteItems", Faults::default()), NONE);
        assert_eq!(of("TransactWriteItems", all()), Plan::Conflict);
        assert_eq!(of("BatchExecuteStatement", all()), Plan::Forward { partial: true, drop_answer: true });
        assert_eq!(of("PutItem", all()), Plan::Forward { partial: false, drop_answer: true });
        assert_eq!(of("TransactWriteItems", Faults { throttle: 1.0, ..all() }), Plan::Throttle);
        assert_eq!(of("PutItem", Faults { throttle: 1.0, drop_requests: 1.0, ..all() }), Plan::DropRequest);
    }

    #[test]
    fn faults_can_be_limited_to_calls_that_name_something() {
        let all = || Faults { throttle: 1.0, ..Faults::default() };
        let one = || Faults { only: Some("Job#1".to_owned()), ..all() };
        assert_eq!(all().befalling(b""), all());
        assert_eq!(one().befalling(br#"{"pk": {"S": "Job#1"}}"#), one());
        for other in [&b""[..], b"Job#", br#"{"pk": {"S": "Job#2"}}"#] {
            assert_eq!(one().befalling(other), Faults::default());
        }
    }

    #[test]
    fn shares_are_kept_and_a_seed_repeats_them() {
        let plans = |seed| {
            let mut chance = Rng::with_seed(seed);
            let faults = Faults { throttle: 0.3, drop_answers: 0.1, ..Faults::default() };
            (0..2_000).map(|_| decide("PutItem", &faults, &Luck::draw(&mut chance))).collect::<Vec<_>>()
        };
        let throttled = plans(7).iter().filter(|plan| **plan == Plan::Throttle).count();
        assert!((500..700).contains(&throttled), "{throttled}");
        assert_eq!(plans(7), plans(7));
        assert_ne!(plans(7), plans(8));
    }

    #[test]
    fn delays_are_a_range() {
        let delay = |text: &str| text.parse::<Delay>();
        assert_eq!((delay("0-200").unwrap(), delay("50").unwrap()), (Delay(0, 200), Delay(50, 50)));
        assert!(delay("fast").is_err() && delay("").is_err() && delay("1-").is_err());
        let faults = Faults { delay_ms: Delay(3, 5), ..Faults::default() };
        let mut chance = Rng::with_seed(1);
        let drawn: Vec<_> =
            (0..100).map(|_| Luck::draw(&mut chance).delay(&faults).as_millis() as u64).collect();
        assert!((3..=5).all(|ms| drawn.contains(&ms)) && drawn.iter().all(|ms| (3..=5).contains(ms)));
    }

    #[test]
    fn nonsense_is_refused() {
        let error = |service, faults: Faults| faults.check(service).unwrap_err().to_string();
        assert!(Faults::default().check(Service::S3).is_ok());
        assert!(error(Service::S3, Faults { throttle: 1.5, ..Faults::default() }).contains("throttle"));
        assert!(error(Service::S3, Faults { throttle: f64::NAN, ..Faults::default() }).contains("throttle"));
        assert!(error(Service::Sqs, Faults { conflict: 0.1, ..Faults::default() }).contains("conflict"));
        assert!(error(Service::S3, Faults { partial: 0.1, ..Faults::default() }).contains("partial"));
        let backwards = Faults { delay_ms: Delay(2, 1), ..Faults::default() };
        assert!(error(Service::DynamoDb, backwards).contains("delay_ms"));
        assert!(serde_json::from_str::<Faults>(r#"{"throtle": 1}"#).is_err());
        let read: Faults = serde_json::from_str(r#"{"throttle": 1, "delay_ms": [1, 2]}"#).unwrap();
        assert_eq!(read, Faults { throttle: 1.0, delay_ms: Delay(1, 2), ..Faults::default() });
    }
}
