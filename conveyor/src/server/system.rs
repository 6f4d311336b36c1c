//! The real clock and the real randomness: the only place that reads them.

use conveyor_domain::{Clock, Entropy, Timestamp};
use rand::TryRng;
use rand::rngs::SysRng;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Debug)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is where the time comes from")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

pub fn entropy() -> anyhow::Result<Entropy> {
    Ok(Entropy::from_seed(random_32()?))
}

pub fn random_32() -> anyhow::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    SysRng.try_fill_bytes(&mut bytes)?;
    Ok(bytes)
}
