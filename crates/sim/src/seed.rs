//! One number, from which everything random in a run follows.
//!
//! A run is named by its seed and can be played again from it, so nothing in the simulator may draw from
//! anywhere else. Parts that must not disturb each other take a [`Seed::fork`] each: how often one draws
//! then changes nothing for the others.
//!
//! Absent: the operating system's randomness, the clock, global state, and any claim to secrecy.

/// A stream of numbers that look random and are not: SplitMix64, whose outputs for neighbouring seeds
/// (a simulation counts 0, 1, 2, …) have nothing visible in common.
#[derive(Clone, Debug)]
pub struct Seed(u64);

impl Seed {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// One of `0..bound`, all alike up to an error of `bound / 2^64`.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "there is no number below zero");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True `numerator` times in `denominator`. Draws in any case, so that the odds do not shift the stream.
    pub fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }

    /// A stream of its own.
    pub fn fork(&mut self) -> Seed {
        Seed(self.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_the_published_one() {
        let mut seed = Seed::new(1_234_567);
        for expected in [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423] {
            assert_eq!(seed.next_u64(), expected);
        }
    }

    #[test]
    fn a_number_below_a_bound_is_below_it_and_takes_every_value() {
        let mut seed = Seed::new(7);
        let mut counts = [0; 6];
        for _ in 0..6_000 {
            counts[seed.below(6) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_chance_comes_as_often_as_it_says() {
        let mut seed = Seed::new(7);
        let hits = (0..4_000).filter(|_| seed.chance(1, 4)).count();
        assert!((900..1_100).contains(&hits), "{hits}");
        assert!((0..100).all(|_| seed.chance(4, 4) && !seed.chance(0, 4)));
    }

    #[test]
    fn what_a_fork_draws_changes_nothing_for_its_parent() {
        let (mut quiet, mut busy) = (Seed::new(3), Seed::new(3));
        let (_, mut child) = (quiet.fork(), busy.fork());
        let first = child.next_u64();
        assert_eq!(quiet.next_u64(), busy.next_u64());
        assert_ne!(first, busy.next_u64());
    }
}
