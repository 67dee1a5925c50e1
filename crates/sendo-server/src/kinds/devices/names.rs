//! Validation of the names of resource pools and of device attributes.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/resource/validation/validation.go`: `validatePoolName`, `validateQualifiedName`,
//!   `validateFullyQualifiedName`, `validateCIdentifier`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::names;

use crate::kinds::check::{self, Errors};
use crate::kinds::pod::sources::driver_name;

const MAX_POOL: usize = 253;
const MAX_IDENTIFIER: usize = 32;

/// Validates a pool name: one or more DNS subdomains separated by slashes.
pub(super) fn pool(errors: &mut Errors, path: &Path, name: &str) {
    if name.is_empty() {
        errors.push(Error::required(path, ""));
        return;
    }
    if name.len() > MAX_POOL {
        errors.push(Error::too_long(path, MAX_POOL));
    }
    for part in name.split('/') {
        check::faults(errors, path, part, names::dns1123_subdomain(part));
    }
}

/// Validates an attribute name, with or without a domain.
pub(super) fn qualified(errors: &mut Errors, path: &Path, name: &str) {
    match name.split('/').collect::<Vec<_>>()[..] {
        [name] => identifier(errors, path, name),
        [domain, name] => {
            match domain {
                "" => errors.push(Error::invalid(path, "", "the domain must not be empty")),
                domain => driver_name(errors, path, domain),
            }
            match name {
                "" => errors.push(Error::invalid(path, "", "the name must not be empty")),
                name => identifier(errors, path, name),
            }
        }
        // Kubernetes accepts names with more than two parts.
        _ => {}
    }
}

/// Validates an attribute name that must have a domain.
pub(super) fn fully_qualified(errors: &mut Errors, path: &Path, name: &str) {
    qualified(errors, path, name);
    if !name.contains('/') {
        let fault = "a fully qualified name must be a domain and a name separated by a slash";
        errors.push(Error::invalid(path, name, fault));
    }
}

fn identifier(errors: &mut Errors, path: &Path, name: &str) {
    if name.len() > MAX_IDENTIFIER {
        errors.push(Error::too_long(path, MAX_IDENTIFIER));
    }
    check::faults(errors, path, name, names::c_identifier(name));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_property_may_need_its_domain() {
        for (name, plain, full) in [
            ("model", 0, 1),
            ("a.example/model", 0, 0),
            ("/model", 1, 1),
            ("a.example/", 1, 1),
            ("no-domain", 1, 2),
        ] {
            let (mut errors, mut more) = (Vec::new(), Vec::new());
            qualified(&mut errors, &Path::root(), name);
            fully_qualified(&mut more, &Path::root(), name);
            assert_eq!((errors.len(), more.len()), (plain, full), "{name}");
        }
    }
}
