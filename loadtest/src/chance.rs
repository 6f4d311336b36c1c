//! Random numbers that a seed repeats (xorshift64*): no dependency, and good enough for latencies and faults.

#[derive(Debug)]
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        // Zero is the one state that the generator never leaves; the multiplication also pulls neighbouring seeds
        // apart.
        Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        // 53 bits: what an f64 holds exactly.
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number from 0 to `max`.
    pub fn at_most(&mut self, max: u64) -> u64 {
        match max.checked_add(1) {
            Some(bound) => self.next() % bound,
            None => self.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats() {
        let draw = |seed| {
            let mut chance = Chance::new(seed);
            (0..8).map(|_| chance.next()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert_ne!(draw(0), draw(1));
    }

    #[test]
    fn numbers_are_spread_over_their_range() {
        let mut chance = Chance::new(1);
        let below = (0..10_000).filter(|_| chance.unit() < 0.3).count();
        assert!((2_700..3_300).contains(&below), "{below}");
        let drawn: Vec<_> = (0..1_000).map(|_| chance.at_most(3)).collect();
        assert!((0..=3).all(|n| drawn.contains(&n)) && drawn.iter().all(|n| *n <= 3));
        assert_eq!(chance.at_most(0), 0);
    }
}
