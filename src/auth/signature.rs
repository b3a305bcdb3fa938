//! The signatures of JSON Web Tokens: HMAC with SHA-256 for tokens of this server, and the public-key
//! algorithms with which identity providers sign theirs, by the library that TLS uses here.
//!
//! Deliberately absent: signing with a private key, and the RSA implementation that `jsonwebtoken` brings,
//! whose timing is a known weakness (RUSTSEC-2023-0071).

use hmac::{Hmac, KeyInit as _, Mac as _};
use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result, new_error};
use jsonwebtoken::signature::{Error, Signer, Verifier};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::signature as public;
use sha2::Sha256;

/// HMAC with SHA-256, keyed; it takes the message in parts.
pub type HmacSha256 = Hmac<Sha256>;

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |algorithm, key| signer(*algorithm, key),
    verifier_factory: |algorithm, key| verifier(*algorithm, key),
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes `jsonwebtoken` sign and verify by this module; what was installed before stays.
pub fn install() {
    // The second call of a process changes nothing.
    let _ = PROVIDER.install_default();
}

/// HMAC under this key, which may have any length.
///
/// # Panics
/// Never: HMAC takes a key of any length.
#[must_use]
pub fn hmac_sha256(key: &[u8]) -> HmacSha256 {
    HmacSha256::new_from_slice(key).expect("HMAC takes a key of any length")
}

/// The code of a message under a key.
#[must_use]
pub fn sign(key: &HmacSha256, message: &[u8]) -> [u8; 32] {
    key.clone().chain_update(message).finalize().into_bytes().into()
}

struct Hs256(HmacSha256);

impl Signer<Vec<u8>> for Hs256 {
    fn try_sign(&self, message: &[u8]) -> std::result::Result<Vec<u8>, Error> {
        Ok(sign(&self.0, message).to_vec())
    }
}

impl Verifier<Vec<u8>> for Hs256 {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        // The comparison takes the same time whatever differs.
        self.0.clone().chain_update(message).verify_slice(signature).map_err(|_| Error::new())
    }
}

impl JwtSigner for Hs256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

impl JwtVerifier for Hs256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

/// A provider's public key.
struct PublicKey {
    algorithm: Algorithm,
    check: Check,
    key: DecodingKey,
}

/// The check of one algorithm.
#[derive(Clone, Copy)]
enum Check {
    Rsa(&'static public::RsaParameters),
    Curve(&'static dyn public::VerificationAlgorithm),
}

impl Verifier<Vec<u8>> for PublicKey {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        let verified = match (self.check, self.key.kind()) {
            (Check::Rsa(parameters), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                public::RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            (Check::Rsa(parameters), DecodingKeyKind::SecretOrDer(der)) => {
                public::UnparsedPublicKey::new(parameters, der).verify(message, signature)
            }
            (Check::Curve(curve), DecodingKeyKind::SecretOrDer(point)) => {
                public::UnparsedPublicKey::new(curve, point).verify(message, signature)
            }
            (Check::Curve(_), DecodingKeyKind::RsaModulusExponent { .. }) => {
                return Err(Error::new());
            }
        };
        verified.map_err(|_| Error::new())
    }
}

impl JwtVerifier for PublicKey {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

fn signer(algorithm: Algorithm, key: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    if algorithm != Algorithm::HS256 || key.family() != AlgorithmFamily::Hmac {
        return Err(new_error(ErrorKind::InvalidAlgorithm));
    }
    Ok(Box::new(Hs256(hmac_sha256(key.as_bytes()))))
}

fn verifier(algorithm: Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    let (family, check) = match algorithm {
        Algorithm::HS256 => {
            if key.family() != AlgorithmFamily::Hmac {
                return Err(new_error(ErrorKind::InvalidKeyFormat));
            }
            return Ok(Box::new(Hs256(hmac_sha256(key.try_get_as_bytes()?))));
        }
        Algorithm::RS256 => (AlgorithmFamily::Rsa, Check::Rsa(&public::RSA_PKCS1_2048_8192_SHA256)),
        Algorithm::RS384 => (AlgorithmFamily::Rsa, Check::Rsa(&public::RSA_PKCS1_2048_8192_SHA384)),
        Algorithm::RS512 => (AlgorithmFamily::Rsa, Check::Rsa(&public::RSA_PKCS1_2048_8192_SHA512)),
        Algorithm::PS256 => (AlgorithmFamily::Rsa, Check::Rsa(&public::RSA_PSS_2048_8192_SHA256)),
        Algorithm::PS384 => (AlgorithmFamily::Rsa, Check::Rsa(&public::RSA_PSS_2048_8192_SHA384)),
        Algorithm::PS512 => (AlgorithmFamily::Rsa, Check::Rsa(&public::RSA_PSS_2048_8192_SHA512)),
        Algorithm::ES256 => (AlgorithmFamily::Ec, Check::Curve(&public::ECDSA_P256_SHA256_FIXED)),
        Algorithm::ES384 => (AlgorithmFamily::Ec, Check::Curve(&public::ECDSA_P384_SHA384_FIXED)),
        Algorithm::EdDSA => (AlgorithmFamily::Ed, Check::Curve(&public::ED25519)),
        Algorithm::HS384 | Algorithm::HS512 | _ => {
            return Err(new_error(ErrorKind::InvalidAlgorithm));
        }
    };
    if key.family() != family {
        return Err(new_error(ErrorKind::InvalidKeyFormat));
    }
    Ok(Box::new(PublicKey { algorithm, check, key: key.clone() }))
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::jwk::Jwk;
    use serde_json::Value;

    use super::*;

    /// One token of each algorithm with its key, made by Authlib for Python.
    const VECTORS: &str = include_str!("signature/vectors.json");

    #[test]
    fn tokens_of_another_library_are_verified_and_no_changed_one_is() {
        install();
        let vectors: Vec<Value> = serde_json::from_str(VECTORS).expect("JSON");
        assert_eq!(vectors.len(), 9);
        for vector in &vectors {
            let jwk: Jwk = serde_json::from_value(vector["jwk"].clone()).expect("a public key");
            let key = DecodingKey::from_jwk(&jwk).expect("a public key");
            let token = vector["token"].as_str().expect("a token");
            let (message, signature) = token.rsplit_once('.').expect("three parts");
            let algorithm = jsonwebtoken::decode_header(token).expect("a header").alg;
            let verify = |message: &str, signature: &str| {
                jsonwebtoken::crypto::verify(signature, message.as_bytes(), &key, algorithm)
            };
            assert_eq!(verify(message, signature), Ok(true), "{algorithm:?}");
            assert_eq!(verify(&message[1..], signature), Ok(false), "{algorithm:?}");
            let (first, rest) = signature.split_at(1);
            let other = if first == "A" { "B" } else { "A" };
            assert_eq!(verify(message, &format!("{other}{rest}")), Ok(false), "{algorithm:?}");
            let secret = DecodingKey::from_secret(message.as_bytes());
            jsonwebtoken::crypto::verify(signature, message.as_bytes(), &secret, algorithm)
                .expect_err("a secret is no public key");
        }
    }

    #[test]
    fn only_hmac_with_sha_256_signs() {
        install();
        let secret = EncodingKey::from_secret(b"secret");
        for algorithm in [Algorithm::HS384, Algorithm::HS512, Algorithm::ES256, Algorithm::RS256] {
            jsonwebtoken::crypto::sign(b"message", &secret, algorithm).expect_err("no such signer");
        }
        jsonwebtoken::crypto::sign(b"message", &secret, Algorithm::HS256).expect("a signature");
    }
}
