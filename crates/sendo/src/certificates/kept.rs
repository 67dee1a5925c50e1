//! What all replicas of a program share of its certificates, as it stands in a Secret.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::ByteString;
use sendo_world::Timestamp;

use super::authority::AuthorityKey;
use super::identity::{Identity, Names, Part, Trusted, certificates_in};

/// The authorities, the newest first.
const AUTHORITIES: &str = "ca.crt";
/// The key of the newest authority.
const AUTHORITY_KEY: &str = "ca.key";
/// The certificate that is served.
const CERTIFICATE: &str = "tls.crt";
/// Its key.
const KEY: &str = "tls.key";

/// The authorities of a program, and the certificate that its webhooks are served with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    /// The newest first. Those that have been replaced are trusted until they expire.
    pub(crate) authorities: Vec<Trusted>,
    /// The key of the newest.
    pub(crate) key: Option<Arc<AuthorityKey>>,
    /// The certificate and its key.
    pub(crate) identity: Option<Identity>,
}

impl Kept {
    /// Reads the data of a Secret. What cannot be used is left out, and told.
    pub(crate) fn from_data(
        data: &BTreeMap<String, ByteString>,
        names: &Names,
        now: Timestamp,
    ) -> (Self, Vec<String>) {
        let mut problems = Vec::new();
        let mut problem = |entry: &str, why: &str| problems.push(format!("{entry}: {why}"));
        let bytes = |entry: &str| data.get(entry).map(|value| value.0.as_slice());
        let (mut authorities, is_clean) = certificates_in(bytes(AUTHORITIES).unwrap_or_default());
        if !is_clean || authorities.is_empty() {
            problem(AUTHORITIES, "it is not a list of certificates");
        }
        authorities.retain(|authority| now <= authority.fields.not_after);
        let mut key = None;
        match (bytes(AUTHORITY_KEY), authorities.first()) {
            (Some(pem), Some(newest)) => match AuthorityKey::from_pem(pem, newest) {
                Ok(found) => key = Some(Arc::new(found)),
                Err(why) => problem(AUTHORITY_KEY, &why.to_string()),
            },
            (None, _) => problem(AUTHORITY_KEY, "it is missing"),
            (Some(_), None) => {}
        }
        let mut identity = None;
        // Without one, the authority is new.
        if bytes(CERTIFICATE).is_some() || bytes(KEY).is_some() {
            let (chain, pem) = (bytes(CERTIFICATE), bytes(KEY));
            let read = Identity::from_pem(chain.unwrap_or_default(), pem.unwrap_or_default());
            match read {
                Err(Part::Certificate(why)) => problem(CERTIFICATE, &why),
                Err(Part::Key(why)) => problem(KEY, &why),
                Ok(found) => match usable(&found, &authorities, names, now) {
                    Ok(()) => identity = Some(found),
                    Err(why) => problem(CERTIFICATE, &why),
                },
            }
        }
        let kept = Kept {
            authorities,
            key,
            identity,
        };
        (kept, problems)
    }

    /// The data of the Secret.
    pub(crate) fn to_data(&self) -> BTreeMap<String, ByteString> {
        let authorities: String = self.authorities.iter().map(Trusted::pem).collect();
        let mut data = BTreeMap::from([(AUTHORITIES, authorities)]);
        if let Some(key) = &self.key {
            data.insert(AUTHORITY_KEY, key.pem.clone());
        }
        if let Some(identity) = &self.identity {
            data.insert(CERTIFICATE, identity.chain_pem.clone());
            data.insert(KEY, identity.key_pem.clone());
        }
        let bytes = |text: String| ByteString(text.into_bytes());
        let data = data.into_iter();
        data.map(|(entry, text)| (entry.to_owned(), bytes(text)))
            .collect()
    }

    /// The authority that signed the certificate.
    pub(crate) fn issuer(&self, now: Timestamp) -> Option<&Trusted> {
        let identity = self.identity.as_ref()?;
        let mut authorities = self.authorities.iter();
        authorities.find(|authority| identity.is_signed_by(authority, now))
    }
}

/// Whether a certificate may be served.
pub(super) fn usable(
    identity: &Identity,
    authorities: &[Trusted],
    names: &Names,
    now: Timestamp,
) -> Result<(), String> {
    identity.check(names, now).map_err(|why| why.to_string())?;
    let mut authorities = authorities.iter();
    match authorities.any(|authority| identity.is_signed_by(authority, now)) {
        true => Ok(()),
        false => Err(format!("no authority of {AUTHORITIES} has signed it")),
    }
}
