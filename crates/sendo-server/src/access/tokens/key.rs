//! The key that signs the tokens of service accounts (JSON Web Tokens, ES256).
//!
//! Follows Kubernetes 1.36:
//! - `pkg/serviceaccount/jwt.go`: `JWTTokenGenerator`, `GenerateToken`, `AuthenticateToken`
//! - `pkg/serviceaccount/openidmetadata.go`: `jwkFromPublicKey`

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use bytes::Bytes;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair,
    UnparsedPublicKey,
};
use serde_json::{Value, json};

const ALGORITHM: &str = "ES256";
/// The DER prefix of a public key on this curve, before its point.
const PUBLIC_KEY_HEAD: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// The error message for a signature of another key.
const BAD_SIGNATURE: &str = "go-jose/go-jose: error in cryptographic primitive";

/// A key pair on the curve P-256.
///
/// Keys and signatures use the operating system's randomness, so they differ between runs even in a
/// seeded world.
pub(crate) struct SigningKey {
    pair: EcdsaKeyPair,
    random: SystemRandom,
    document: Bytes,
    id: String,
}

/// The key cannot be generated or decoded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyError {
    #[error("the cryptography library cannot make a key for tokens")]
    Make,
    #[error("the key for tokens in the store is damaged: {0}")]
    Read(ring::error::KeyRejected),
}

/// A random text that can be a bearer token.
pub(crate) fn secret() -> Result<String, KeyError> {
    let mut bytes = [0; 32];
    let random = SystemRandom::new();
    random.fill(&mut bytes).map_err(|_| KeyError::Make)?;
    Ok(BASE64.encode(bytes))
}

impl SigningKey {
    /// Generates a key.
    pub(crate) fn generate() -> Result<Self, KeyError> {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random)
            .map_err(|_| KeyError::Make)?;
        SigningKey::read(document.as_ref())
    }

    /// Decodes the key of a PKCS #8 document.
    pub(crate) fn read(document: &[u8]) -> Result<Self, KeyError> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document, &random)
            .map_err(KeyError::Read)?;
        let mut public = PUBLIC_KEY_HEAD.to_vec();
        public.extend_from_slice(pair.public_key().as_ref());
        let id = BASE64.encode(digest(&SHA256, &public));
        Ok(SigningKey {
            pair,
            random,
            document: Bytes::copy_from_slice(document),
            id,
        })
    }

    /// The PKCS #8 document, which is secret.
    pub(crate) fn document(&self) -> Bytes {
        self.document.clone()
    }

    /// Signs a token with these claims.
    pub(crate) fn sign(&self, claims: &Value) -> Result<String, String> {
        let header = json!({"alg": ALGORITHM, "kid": self.id});
        let signed = format!(
            "{}.{}",
            BASE64.encode(header.to_string()),
            BASE64.encode(claims.to_string())
        );
        let signature = self.pair.sign(&self.random, signed.as_bytes());
        let signature = signature.map_err(|_| "the cryptography library cannot sign".to_owned())?;
        Ok(format!("{signed}.{}", BASE64.encode(signature)))
    }

    /// The claims of a token, if this key signed it.
    pub(crate) fn verify(&self, token: &str) -> Result<Value, String> {
        let bad = || BAD_SIGNATURE.to_owned();
        let (signed, signature) = token.rsplit_once('.').ok_or_else(bad)?;
        let (header, claims) = signed.split_once('.').ok_or_else(bad)?;
        let header: Value = part(header).ok_or_else(bad)?;
        if header["kid"].as_str().is_some_and(|id| id != self.id) {
            return Err("invalid signature, no keys found".to_owned());
        }
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key());
        let signature = BASE64.decode(signature).map_err(|_| bad())?;
        if header["alg"] != ALGORITHM || key.verify(signed.as_bytes(), &signature).is_err() {
            return Err(bad());
        }
        part(claims).ok_or_else(bad)
    }

    /// The public key as a JSON Web Key.
    pub(crate) fn public(&self) -> Value {
        // An uncompressed point: a byte that says so, then both coordinates.
        let point = &self.pair.public_key().as_ref()[1..];
        let (x, y) = point.split_at(point.len() / 2);
        json!({
            "use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": ALGORITHM,
            "x": BASE64.encode(x), "y": BASE64.encode(y),
        })
    }

    /// The signature algorithm.
    pub(crate) fn algorithm(&self) -> &'static str {
        ALGORITHM
    }
}

fn part(text: &str) -> Option<Value> {
    serde_json::from_slice(&BASE64.decode(text).ok()?).ok()
}

/// The claims of a token whose signature was not verified, `None` if it is not a JSON Web Token.
pub(super) fn unverified(token: &str) -> Option<Value> {
    let mut parts = token.split('.');
    let (_, claims, _) = (parts.next()?, parts.next()?, parts.next()?);
    match parts.next() {
        None => part(claims),
        Some(_) => None,
    }
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The key is secret.
        f.debug_struct("SigningKey")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_its_key_alone_and_only_whole() {
        let key = SigningKey::generate().unwrap();
        let claims = json!({"iss": "me", "sub": "you"});
        let token = key.sign(&claims).unwrap();
        assert_eq!(key.verify(&token).unwrap(), claims);
        let again = SigningKey::read(&key.document()).unwrap();
        assert_eq!(again.verify(&token).unwrap(), claims);

        let other = SigningKey::generate().unwrap();
        assert_eq!(
            other.verify(&token).unwrap_err(),
            "invalid signature, no keys found"
        );
        let forged = json!({"iss": "me", "sub": "root"}).to_string();
        let parts: Vec<&str> = token.split('.').collect();
        let forged = format!("{}.{}.{}", parts[0], BASE64.encode(forged), parts[2]);
        assert_eq!(key.verify(&forged).unwrap_err(), BAD_SIGNATURE);
        // A token with the algorithm `none` is refused.
        let none = BASE64.encode(json!({"alg": "none"}).to_string());
        let unsigned = format!("{none}.{}.", parts[1]);
        assert_eq!(key.verify(&unsigned).unwrap_err(), BAD_SIGNATURE);
    }

    #[test]
    fn what_is_no_token_has_no_claims() {
        for text in ["", "nonsense", "a.b", "a.b.c", "a.b.c.d", "..."] {
            assert_eq!(unverified(text), None, "{text}");
        }
    }
}
