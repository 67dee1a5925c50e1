//! Randomness and ids: one seed, and a sequence derived from it for every part of a program.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

/// The characters that Kubernetes uses in generated names: without vowels, so that no words appear,
/// and without characters that look alike.
const NAME_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A source of random numbers and ids. Clones draw from the same sequence.
///
/// Not for secrets: keys and tokens come from the cryptography library.
#[derive(Clone)]
pub struct Random {
    seed: u64,
    state: Arc<Mutex<[u64; 4]>>,
}

impl std::fmt::Debug for Random {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Random").finish_non_exhaustive()
    }
}

impl Random {
    /// The sequence that follows from `seed`.
    pub fn from_seed(seed: u64) -> Self {
        let mut mix = seed;
        let state = std::array::from_fn(|_| split_mix(&mut mix));
        Random {
            seed,
            state: Arc::new(Mutex::new(state)),
        }
    }

    pub(crate) fn from_system() -> Self {
        Random::from_seed(getrandom::u64().expect("the operating system gives random bytes"))
    }

    /// A sequence that depends on this one's seed and `name` only, not on the numbers drawn before.
    pub fn child(&self, name: &str) -> Self {
        // FNV-1a: stable across builds, unlike the standard library's hasher.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Random::from_seed(self.seed.rotate_left(17) ^ hash)
    }

    /// Any number.
    pub fn u64(&self) -> u64 {
        // xoshiro256++, by Blackman and Vigna.
        let mut s = self.state.lock();
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number in `range`, uniformly distributed.
    ///
    /// # Panics
    /// If the range is empty.
    pub fn below(&self, range: Range<u64>) -> u64 {
        assert!(range.start < range.end, "an empty range has no number");
        let span = u128::from(range.end - range.start);
        range.start + ((u128::from(self.u64()) * span) >> 64) as u64
    }

    /// A number from 0 up to 1.
    pub fn fraction(&self) -> f64 {
        (self.u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A version 4 UUID.
    pub fn uuid(&self) -> String {
        let (high, low) = (self.u64(), self.u64());
        let parts = [
            (high >> 32, 8),
            (high >> 16, 4),
            (0x4000 | high & 0x0fff, 4),
            (0x8000 | (low >> 48) & 0x3fff, 4),
            (low, 12),
        ];
        let mut text = String::with_capacity(36);
        for (number, digits) in parts {
            if !text.is_empty() {
                text.push('-');
            }
            let digits = (0..digits).rev();
            text.extend(digits.map(|digit| hex((number >> (4 * digit)) as u8)));
        }
        text
    }

    /// `length` characters for the end of a generated name, as Kubernetes generates them.
    pub fn name_suffix(&self, length: usize) -> String {
        let pick = |_| {
            let at = self.below(0..NAME_ALPHABET.len() as u64) as usize;
            char::from(NAME_ALPHABET[at])
        };
        (0..length).map(pick).collect()
    }
}

/// The last four bits of a number as a digit.
fn hex(number: u8) -> char {
    char::from(b"0123456789abcdef"[usize::from(number & 15)])
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_sequence() {
        let draw = |seed| {
            let random = Random::from_seed(seed);
            [
                random.uuid(),
                random.name_suffix(5),
                random.u64().to_string(),
            ]
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn a_child_does_not_depend_on_what_its_parent_drew() {
        let parent = Random::from_seed(1);
        let early = parent.child("a").u64();
        parent.u64();
        assert_eq!(parent.child("a").u64(), early);
        assert_ne!(parent.child("b").u64(), early);
    }

    #[test]
    fn uuids_are_of_version_4_and_variant_1() {
        let id = Random::from_seed(3).uuid();
        assert_eq!(id.len(), 36);
        assert_eq!(&id[14..15], "4");
        assert!("89ab".contains(&id[19..20]), "{id}");
    }

    #[test]
    fn numbers_stay_in_their_range() {
        let random = Random::from_seed(4);
        for _ in 0..1000 {
            assert!((5..8).contains(&random.below(5..8)));
            assert!((0.0..1.0).contains(&random.fraction()));
        }
    }
}
