use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::ByteString;
use sendo_world::{Random, Timestamp};

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

/// An hour of certificates, ten hours of authorities, ten minutes until an authority is settled.
const LIFETIMES: Lifetimes = Lifetimes {
    authority: Duration::from_secs(10 * 3600),
    certificate: HOUR,
    settle: Duration::from_secs(600),
};

/// A program with one `caBundle`, at a time.
struct Program {
    now: Timestamp,
    names: Names,
    random: Random,
    kept: Kept,
    known: Kept,
    bundle: Vec<Trusted>,
    /// Since when the bundle has the newest authority.
    settled: Option<(Trusted, Timestamp)>,
}

impl Program {
    fn new() -> Self {
        Program {
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            names: Names::new("a.b.svc", []),
            random: Random::from_seed(1),
            kept: Kept::default(),
            known: Kept::default(),
            bundle: Vec::new(),
            settled: None,
        }
    }

    fn bundles(&mut self) -> Bundles {
        let newest = self.kept.authorities.first();
        let newest = newest.filter(|newest| self.bundle.contains(newest));
        match (newest, &self.settled) {
            (Some(newest), Some((known, _))) if newest == known => {}
            (newest, _) => self.settled = newest.map(|newest| (newest.clone(), self.now)),
        }
        let since = self.settled.as_ref().map(|(_, since)| *since);
        Bundles {
            settled: since.map(|since| self.now.duration_since(since).unsigned_abs()),
            found: self.bundle.clone(),
            is_served_trusted: true,
        }
    }

    fn step(&mut self) -> Step {
        let bundles = self.bundles();
        let maker = Maker {
            name: "program",
            names: &self.names,
            now: self.now,
            lifetimes: &LIFETIMES,
            random: &self.random,
        };
        next_step(&self.kept, &self.known, &bundles, &maker).unwrap()
    }

    /// Has the bundle trust what is kept, beside what it trusts.
    fn trust(&mut self) {
        for authority in &self.kept.authorities {
            if !self.bundle.contains(authority) {
                self.bundle.push(authority.clone());
            }
        }
    }

    /// Does all there is to do now.
    fn settle(&mut self) {
        while let Step::Keep(kept) = self.step() {
            self.kept = self.kept_again(&kept);
            self.known = self.kept.clone();
            self.trust();
        }
    }

    /// As it comes out of the Secret again.
    fn kept_again(&self, kept: &Kept) -> Kept {
        let (kept, problems) = Kept::from_data(&kept.to_data(), &self.names, self.now);
        assert_eq!(problems, Vec::<String>::new());
        kept
    }

    fn certificate(&self) -> &Identity {
        self.kept.identity.as_ref().expect("there is a certificate")
    }

    /// Whether a client that trusts the bundle takes the certificate.
    fn is_trusted(&self) -> bool {
        let certificate = self.certificate();
        let mut trusted = self.bundle.iter();
        certificate.check(&self.names, self.now).is_ok()
            && trusted.any(|authority| certificate.is_signed_by(authority, self.now))
    }
}

#[test]
fn the_first_certificate_comes_after_its_authority_is_trusted() {
    let mut program = Program::new();
    let Step::Keep(kept) = program.step() else {
        panic!("there is an authority to keep")
    };
    assert!(kept.identity.is_none() && kept.key.is_some());
    program.kept = program.kept_again(&kept);
    assert!(matches!(program.step(), Step::Trust));
    program.trust();
    program.settle();
    assert!(program.is_trusted());
    let Step::Wait(until) = program.step() else {
        panic!("there is nothing to do")
    };
    let due = program.now + HOUR * 2 / 3;
    assert!(
        until.duration_since(due).unsigned_abs() < HOUR / 10,
        "{until}"
    );
}

#[test]
fn certificates_and_authorities_are_renewed_and_trusted_at_any_time() {
    let mut program = Program::new();
    program.settle();
    let (mut certificates, mut authorities) = (0, 0);
    for _minute in 0..60 * 100 {
        program.now += Duration::from_secs(60);
        let (certificate, newest) = (
            program.certificate().clone(),
            program.kept.authorities[0].clone(),
        );
        program.settle();
        assert!(program.is_trusted(), "at {}", program.now);
        certificates += usize::from(*program.certificate() != certificate);
        authorities += usize::from(program.kept.authorities[0] != newest);
        // Never more than one that has been replaced.
        assert!(program.kept.authorities.len() <= 2);
        let now = program.now;
        program.bundle.retain(|one| now <= one.fields.not_after);
    }
    assert!((140..=180).contains(&certificates), "{certificates}");
    assert!((14..=16).contains(&authorities), "{authorities}");
}

#[test]
fn nothing_is_signed_by_an_authority_that_is_not_settled() {
    let mut program = Program::new();
    program.settle();
    let old = program.kept.authorities[0].clone();
    program.now += HOUR * 7;
    // The certificate has expired meanwhile, which is another story.
    program.kept.identity = None;
    program.settle();
    program.now += HOUR / 2;
    let signed_by = |program: &Program| program.kept.issuer(program.now).unwrap().clone();
    assert_ne!(program.kept.authorities[0], old);
    let newest = program.kept.authorities[0].clone();
    assert_eq!(signed_by(&program), newest);

    // Nobody has put the next one into the bundle.
    program.now += HOUR / 12;
    program.settle();
    program.now = renewal(&newest.fields) - Duration::from_secs(60);
    program.settle();
    program.now += Duration::from_secs(61);
    let Step::Keep(kept) = program.step() else {
        panic!("the authority is due")
    };
    program.kept = program.kept_again(&kept);
    for _ in 0..3 {
        program.now += Duration::from_secs(60);
        assert!(matches!(program.step(), Step::Trust));
        assert_eq!(signed_by(&program), newest);
    }
    program.trust();
    assert!(matches!(program.step(), Step::Trust), "it is not settled");
    program.now += LIFETIMES.settle;
    program.settle();
    assert_eq!(signed_by(&program), program.kept.authorities[0]);
    assert!(program.is_trusted());
}

#[test]
fn a_clock_that_jumps_past_the_end_makes_a_new_one_at_once() {
    let mut program = Program::new();
    program.settle();
    for jump in [HOUR * 2, HOUR * 20, HOUR * 24 * 365] {
        program.now += jump;
        let now = program.now;
        program.bundle.retain(|one| now <= one.fields.not_after);
        assert!(!program.is_trusted());
        program.settle();
        assert!(program.is_trusted(), "after {jump:?}");
    }
    program.now -= HOUR * 24;
    program.settle();
    assert!(program.is_trusted(), "after a jump back");
}

/// What a Secret may have become, and what is said of it.
#[test]
fn what_is_unusable_in_a_secret_is_named_and_made_anew_while_the_old_is_served() {
    let mut other = Program::new();
    other.settle();
    let other = other.kept.to_data();
    let half = |data: &mut BTreeMap<String, ByteString>, entry: &str| {
        let value = data.get_mut(entry).unwrap();
        value.0.truncate(value.0.len() / 2);
    };
    type Spoil<'a> = &'a dyn Fn(&mut BTreeMap<String, ByteString>);
    let cases: [(&str, Spoil<'_>, &str); 9] = [
        ("tls.crt", &|data| half(data, "tls.crt"), ""),
        ("tls.key", &|data| half(data, "tls.key"), ""),
        (
            "ca.crt",
            &|data| half(data, "ca.crt"),
            "it is not a list of certificates",
        ),
        ("ca.key", &|data| half(data, "ca.key"), ""),
        (
            "ca.key",
            &|data| drop(data.remove("ca.key")),
            "it is missing",
        ),
        ("tls.key", &|data| drop(data.remove("tls.key")), ""),
        (
            "tls.crt",
            &|data| {
                for entry in ["tls.crt", "tls.key"] {
                    data.insert(entry.to_owned(), other[entry].clone());
                }
            },
            "no authority of ca.crt has signed it",
        ),
        (
            "tls.key",
            &|data| drop(data.insert("tls.key".to_owned(), other["tls.key"].clone())),
            "it is not the key of the certificate",
        ),
        ("ca.crt", &|data| data.clear(), ""),
    ];
    for (entry, spoil, why) in cases {
        let mut program = Program::new();
        program.settle();
        let served = program.certificate().clone();
        let mut data = program.kept.to_data();
        spoil(&mut data);
        let (kept, problems) = Kept::from_data(&data, &program.names, program.now);
        let problem = problems.iter().find(|problem| problem.starts_with(entry));
        let problem = problem.unwrap_or_else(|| panic!("{entry} is not in {problems:?}"));
        assert!(problem.contains(why), "{problem}");
        program.kept = kept;
        let before = program.bundle.clone();
        program.settle();
        // Whoever shows the old one meanwhile is trusted, and so is what is kept now.
        assert!(program.is_trusted(), "{entry}");
        let mut trusted = program.bundle.iter();
        assert!(
            trusted.any(|one| served.is_signed_by(one, program.now)),
            "{entry}"
        );
        assert!(before.iter().all(|one| program.bundle.contains(one)));
    }
}

#[test]
fn an_expired_certificate_in_a_secret_is_told() {
    let mut program = Program::new();
    program.settle();
    program.now += HOUR * 2;
    let data = program.kept.to_data();
    let (kept, problems) = Kept::from_data(&data, &program.names, program.now);
    assert!(kept.identity.is_none());
    let [problem] = &problems[..] else {
        panic!("{problems:?}")
    };
    assert!(
        problem.starts_with("tls.crt: it has expired at "),
        "{problem}"
    );
}

#[test]
fn other_names_take_another_certificate() {
    let mut program = Program::new();
    program.settle();
    program.names = Names::new("[::1]", ["127.0.0.1".to_owned()]);
    program.settle();
    assert!(program.is_trusted());
    let fields = &program.certificate().fields;
    assert_eq!(fields.subject.common_name(), Some("::1"));
}
