//! Every choice of a simulation, drawn from one seed.

use conveyor_domain::Entropy;
use std::time::Duration;

#[derive(Debug)]
pub struct Dice(Entropy);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(Entropy::from_number(seed))
    }

    /// For identifiers and tokens, which are drawn like everything else.
    pub fn entropy(&self) -> &Entropy {
        &self.0
    }

    pub fn unit(&self) -> f64 {
        self.0.unit()
    }

    pub fn chance(&self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// From `low` to `high`, both included.
    pub fn between(&self, low: u32, high: u32) -> u32 {
        let span = u64::from(high.saturating_sub(low)) + 1;
        low + u32::try_from(self.0.below(span)).unwrap_or(0)
    }

    pub fn ms(&self, low: u32, high: u32) -> Duration {
        Duration::from_millis(u64::from(self.between(low, high)))
    }

    /// A position in a list of this length.
    pub fn below(&self, length: usize) -> usize {
        usize::try_from(self.0.below(length as u64)).unwrap_or(0)
    }

    pub fn pick<'a, T>(&self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len()))
    }

    /// One of the items, each as likely as its weight. `None` if there is none of any weight.
    pub fn weighted<T: Copy>(&self, items: &[(u32, T)]) -> Option<T> {
        let whole: u64 = items.iter().map(|(weight, _)| u64::from(*weight)).sum();
        if whole == 0 {
            return None;
        }
        let mut left = self.0.below(whole);
        for (weight, item) in items {
            match left.checked_sub(u64::from(*weight)) {
                Some(rest) => left = rest,
                None => return Some(*item),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_decide_how_often() {
        let dice = Dice::new(1);
        let mut drawn = [0; 3];
        for _ in 0..4_000 {
            drawn[dice.weighted(&[(1, 0), (0, 1), (3, 2)]).unwrap()] += 1;
        }
        assert_eq!(drawn[1], 0);
        assert!((800..1_200).contains(&drawn[0]), "{drawn:?}");
        assert_eq!(dice.weighted::<u8>(&[]), None);
    }

    #[test]
    fn both_ends_of_a_range_are_drawn() {
        let dice = Dice::new(2);
        let drawn: Vec<u32> = (0..200).map(|_| dice.between(3, 5)).collect();
        assert!((3..=5).all(|n| drawn.contains(&n)) && drawn.iter().all(|n| (3..=5).contains(n)));
    }
}
