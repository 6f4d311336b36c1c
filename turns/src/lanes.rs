//! Places for long and for short work, so that what is short never waits for what is long.

use crate::Places;
use conveyor_domain::CallerId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    Large,
    Small,
}

/// As many places for short work as for long work. Short work may also take a place for long work, never the reverse.
#[derive(Clone, Debug)]
pub struct Lanes {
    large: Places,
    small: Places,
}

impl Lanes {
    /// Twice what one caller may have of each while nobody else wants any.
    pub fn new(of_caller: u32) -> Lanes {
        let places = Places::new(2 * of_caller.max(1) as usize);
        Lanes { large: places.clone(), small: places }
    }

    pub fn is_full(&self) -> bool {
        self.large.free() == 0 && self.small.free() == 0
    }

    /// The lane that has a place for work of this size.
    pub fn place(&self, caller: CallerId, size: Size) -> Option<Size> {
        match size {
            _ if self.of(size).has_room_for(caller) => Some(size),
            Size::Small if self.large.has_room_for(caller) => Some(Size::Large),
            Size::Small | Size::Large => None,
        }
    }

    pub fn take(&mut self, caller: CallerId, lane: Size) {
        self.of_mut(lane).take(caller);
    }

    pub fn leave(&mut self, caller: CallerId, lane: Size) {
        self.of_mut(lane).leave(caller);
    }

    fn of(&self, lane: Size) -> &Places {
        match lane {
            Size::Large => &self.large,
            Size::Small => &self.small,
        }
    }

    fn of_mut(&mut self, lane: Size) -> &mut Places {
        match lane {
            Size::Large => &mut self.large,
            Size::Small => &mut self.small,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_work_leaves_places_to_short_work_and_to_others() {
        let (mut lanes, [one, other]) = (Lanes::new(2), [1, 2].map(|n| CallerId::from_bytes([n; 16])));
        let mut fill = |caller, size| {
            std::iter::from_fn(|| lanes.place(caller, size).inspect(|lane| lanes.take(caller, *lane))).count()
        };
        assert_eq!(fill(one, Size::Large), 2);
        assert_eq!(fill(one, Size::Small), 2);
        assert_eq!(fill(other, Size::Small), 2, "one place for short work, and one for long work");
        assert!(!lanes.is_full());
        assert_eq!(lanes.place(other, Size::Large), None);
        lanes.leave(one, Size::Large);
        assert_eq!(lanes.place(one, Size::Large), Some(Size::Large));
    }
}
