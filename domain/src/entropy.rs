//! The one source of randomness. The binary seeds it from the operating system, tests and the simulation from a number,
//! so that a seed replays everything that was decided by chance.

use crate::Timestamp;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::fmt;
use std::sync::{Mutex, PoisonError};
use ulid::Ulid;

pub struct Entropy(Mutex<StdRng>);

impl fmt::Debug for Entropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Entropy")
    }
}

impl Entropy {
    pub fn from_seed(seed: [u8; 32]) -> Entropy {
        Entropy(Mutex::new(StdRng::from_seed(seed)))
    }

    /// For tests and the simulation.
    pub fn from_number(seed: u64) -> Entropy {
        Entropy(Mutex::new(StdRng::seed_from_u64(seed)))
    }

    pub fn next_u64(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }

    /// A number below `bound`, or 0 if the bound is 0.
    pub fn below(&self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next_u64() % bound }
    }

    /// A number in [0, 1).
    pub fn unit(&self) -> f64 {
        // 53 bits: what an f64 holds exactly.
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn fill(&self, bytes: &mut [u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).fill_bytes(bytes);
    }

    /// A source of its own, seeded from this one.
    pub fn fork(&self) -> Entropy {
        let mut seed = [0; 32];
        self.fill(&mut seed);
        Entropy::from_seed(seed)
    }

    pub fn ulid(&self, now: Timestamp) -> Ulid {
        let random = (u128::from(self.next_u64()) << 64) | u128::from(self.next_u64());
        Ulid::from_parts(u64::try_from(now.0).unwrap_or(0), random)
    }
}
