//! Whose model call starts and whose waits, so that nobody takes so many calls that others have to wait.
//!
//! A person who is alone may have any number of calls at work. While somebody else is active, each person has a share, and
//! further calls wait in order. A waiting call delays nobody else, and its person always has calls at work that will end.

use std::collections::{BTreeMap, VecDeque};

use jiff::{SignedDuration, Timestamp};

/// How long after the last call a person counts as active: somebody who returns to a conversation must not find all calls
/// taken.
const ABOUT: SignedDuration = SignedDuration::from_secs(60);

/// One call, from its request to its end.
pub type Ticket = u64;

#[derive(Debug, Default)]
pub struct Shares {
    /// People with calls at work or waiting.
    people: BTreeMap<String, Calls>,
    /// Who had the last call, and when; and the last call of anybody else before it.
    last: Option<(String, Timestamp)>,
    before: Option<(String, Timestamp)>,
}

#[derive(Debug, Default)]
struct Calls {
    at_work: usize,
    waiting: VecDeque<Ticket>,
}

impl Shares {
    /// Registers a call. True: it starts; otherwise it waits until [`Shares::end`] returns it. `share`: most calls at work
    /// of one person while others are active; 0: no limit.
    pub fn begin(&mut self, person: &str, ticket: Ticket, share: usize, now: Timestamp) -> bool {
        let is_free = self.is_free(person, share, now);
        self.note(person, now);
        let calls = self.people.entry(person.to_owned()).or_default();
        // Nobody overtakes their own.
        let begins = calls.waiting.is_empty() && (is_free || calls.at_work < share);
        if begins {
            calls.at_work += 1;
        } else {
            calls.waiting.push_back(ticket);
        }
        begins
    }

    /// Removes a call that has ended, or no longer waits. Returns those of its person that start now.
    pub fn end(&mut self, person: &str, ticket: Ticket, share: usize, now: Timestamp) -> Vec<Ticket> {
        let is_free = self.is_free(person, share, now);
        self.note(person, now);
        let Some(calls) = self.people.get_mut(person) else { return Vec::new() };
        match calls.waiting.iter().position(|waiting| *waiting == ticket) {
            Some(at) => drop(calls.waiting.remove(at)),
            None => calls.at_work = calls.at_work.saturating_sub(1),
        }
        let room = if is_free { usize::MAX } else { share.saturating_sub(calls.at_work) };
        let begun: Vec<_> = calls.waiting.drain(..room.min(calls.waiting.len())).collect();
        calls.at_work += begun.len();
        if calls.at_work == 0 {
            self.people.remove(person);
        }
        begun
    }

    /// Whether a person is not bound to a share now.
    fn is_free(&self, person: &str, share: usize, now: Timestamp) -> bool {
        let is_other = |other: &&(String, Timestamp)| other.0 != person;
        let was_about = [&self.last, &self.before].into_iter().flatten().find(is_other);
        let others = self.people.keys().any(|other| other != person)
            || was_about.is_some_and(|(_, at)| now.duration_since(*at) < ABOUT);
        share == 0 || !others
    }

    fn note(&mut self, person: &str, now: Timestamp) {
        match &mut self.last {
            Some((last, at)) if last == person => *at = now,
            _ => self.before = self.last.replace((person.to_owned(), now)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + secs).unwrap()
    }

    /// Steps: a person's name begins a call, in capitals ends their oldest at work; `.` lets ten seconds pass. What begins is
    /// named in the order in which that is decided.
    #[rstest]
    #[case::alone_all_begin("aaaa", 2, "a0 a1 a2 a3")]
    #[case::beside_another_as_many_as_the_share("baaaa", 2, "b0 a1 a2")]
    #[case::others_begin_at_once("baaaacb", 2, "b0 a1 a2 c5 b6")]
    #[case::in_their_order("baaaaAA", 2, "b0 a1 a2 a3 a4")]
    #[case::who_has_just_been_there_counts("bBaaa", 2, "b0 a1 a2")]
    #[case::who_has_left_does_not("bB......aaa", 2, "b0 a1 a2 a3")]
    #[case::what_waits_begins_once_the_others_have_left("baaaaB......A", 2, "b0 a1 a2 a3 a4")]
    #[case::who_is_at_work_is_there("b......aaa", 2, "b0 a1 a2")]
    #[case::what_began_alone_goes_on_and_counts("aaabaAAA", 2, "a0 a1 a2 b3 a4")]
    #[case::no_share("baaaa", 0, "b0 a1 a2 a3 a4")]
    fn calls_begin(#[case] steps: &str, #[case] share: usize, #[case] begun: &str) {
        let (mut shares, mut at_work) = (Shares::default(), BTreeMap::<String, VecDeque<Ticket>>::new());
        let (mut all, mut secs, mut next) = (Vec::new(), 0, 0);
        for step in steps.chars() {
            let person = step.to_ascii_lowercase().to_string();
            let begins = match step {
                '.' => {
                    secs += 10;
                    Vec::new()
                }
                'A'..='Z' => {
                    let ticket = at_work.get_mut(&person).unwrap().pop_front().unwrap();
                    shares.end(&person, ticket, share, at(secs))
                }
                _ => {
                    next += 1;
                    let begins = shares.begin(&person, next - 1, share, at(secs));
                    begins.then_some(next - 1).into_iter().collect()
                }
            };
            for ticket in begins {
                all.push(format!("{person}{ticket}"));
                at_work.entry(person.clone()).or_default().push_back(ticket);
            }
        }
        assert_eq!(all.join(" "), begun);
    }

    #[test]
    fn a_call_that_no_longer_waits_is_forgotten() {
        let mut shares = Shares::default();
        assert!(shares.begin("b", 1, 1, at(0)));
        assert!(shares.begin("a", 2, 1, at(0)));
        assert!(!shares.begin("a", 3, 1, at(0)));
        assert!(!shares.begin("a", 4, 1, at(0)));
        assert_eq!(shares.end("a", 3, 1, at(0)), [] as [Ticket; 0]);
        assert_eq!(shares.end("a", 2, 1, at(0)), [4]);
        assert_eq!(shares.end("a", 4, 1, at(0)), [] as [Ticket; 0]);
        assert_eq!(shares.end("b", 1, 1, at(0)), [] as [Ticket; 0]);
        assert!(shares.people.is_empty());
    }

    proptest! {
        /// Whatever people do: nobody waits who has nothing at work, nobody with room in their share waits, each one's calls
        /// begin in their order, and when all have ended nothing is left.
        #[test]
        fn nobody_is_held_up_by_another(
            share in 0_usize..4,
            steps in prop::collection::vec((0_usize..4, 0_u8..3, any::<prop::sample::Index>()), 1..200),
        ) {
            let mut shares = Shares::default();
            let mut at_work = vec![Vec::<Ticket>::new(); 4];
            let mut waiting = vec![Vec::<Ticket>::new(); 4];
            let (mut secs, mut next) = (0, 0);
            let end = |shares: &mut Shares, who: usize, ticket: Ticket, secs: i64,
                           at_work: &mut Vec<Vec<Ticket>>, waiting: &mut Vec<Vec<Ticket>>| {
                at_work[who].retain(|one| *one != ticket);
                waiting[who].retain(|one| *one != ticket);
                let begun = shares.end(&who.to_string(), ticket, share, at(secs));
                let n = begun.len();
                prop_assert_eq!(&begun, &waiting[who][..n], "in their order");
                at_work[who].extend(waiting[who].drain(..n));
                Ok(())
            };
            for (who, what, which) in steps {
                match what {
                    0 if !(at_work[who].is_empty() && waiting[who].is_empty()) => {
                        let all: Vec<_> = at_work[who].iter().chain(&waiting[who]).copied().collect();
                        let ticket = *which.get(&all);
                        end(&mut shares, who, ticket, secs, &mut at_work, &mut waiting)?;
                    }
                    1 => secs += 7,
                    _ => {
                        next += 1;
                        match shares.begin(&who.to_string(), next, share, at(secs)) {
                            true => at_work[who].push(next),
                            false => waiting[who].push(next),
                        }
                    }
                }
                for who in 0..4 {
                    prop_assert!(waiting[who].is_empty() || at_work[who].len() >= share.max(1));
                }
            }
            for who in 0..4 {
                while let Some(ticket) = at_work[who].first().copied() {
                    end(&mut shares, who, ticket, secs, &mut at_work, &mut waiting)?;
                }
                prop_assert!(waiting[who].is_empty());
            }
            prop_assert!(shares.people.is_empty());
        }
    }
}
