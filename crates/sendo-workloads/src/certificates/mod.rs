//! Approves, signs and deletes CertificateSigningRequests.
//!
//! [`approver`] approves requests of nodes for certificates of clients, [`signer`] signs what is
//! approved with the cluster's authority, [`cleaner`] deletes what is old.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/certificates/certificate_controller_utils.go`
//! - `pkg/apis/certificates/helpers.go`: `ParseCSR`, `ValidateKubeletServingCSR`,
//!   `ValidateKubeletClientCSR`

pub mod approver;
pub mod cleaner;
pub mod signer;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use sendo_x509::CertificateRequest;

/// Clients of the API server.
const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
/// Nodes, as clients of the API server.
const NODE_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// Nodes, as servers.
const NODE_SERVING: &str = "kubernetes.io/kubelet-serving";
/// Requests of the first version of the API.
const LEGACY: &str = "kubernetes.io/legacy-unknown";

/// Whether a condition of this type holds.
fn has(csr: &CertificateSigningRequest, type_: &str) -> bool {
    let status = csr.status.as_ref();
    let mut conditions = status
        .into_iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|known| known.type_ == type_ && known.status != "False")
}

/// Whether the certificate was issued.
fn is_issued(csr: &CertificateSigningRequest) -> bool {
    let status = csr.status.as_ref();
    let certificate = status.and_then(|status| status.certificate.as_ref());
    certificate.is_some_and(|certificate| !certificate.0.is_empty())
}

fn usages(csr: &CertificateSigningRequest) -> &[String] {
    csr.spec.usages.as_deref().unwrap_or_default()
}

/// What the object asks for.
fn parse(csr: &CertificateSigningRequest) -> Result<CertificateRequest, String> {
    let text = String::from_utf8_lossy(&csr.spec.request.0);
    let block = sendo_x509::pem_block(&text);
    let block = block.filter(|block| block.label == "CERTIFICATE REQUEST");
    let block = block.ok_or("PEM block type must be CERTIFICATE REQUEST")?;
    let request = CertificateRequest::from_der(&block.content);
    request.ok_or_else(|| "asn1: structure error".to_owned())
}

/// What is wrong with a request of a node for a certificate of a client.
fn node_client_fault(request: &CertificateRequest, usages: &[String]) -> Option<String> {
    let names = request.count_alternative_names();
    let fault = match names {
        _ if !is_in_nodes(request) => "subject organization is not system:nodes",
        names if names.hosts > 0 => "DNS subjectAltNames are not allowed",
        names if names.mail > 0 => "Email subjectAltNames are not allowed",
        names if names.addresses > 0 => "IP subjectAltNames are not allowed",
        names if names.uris > 0 => "URI subjectAltNames are not allowed",
        _ => return node_fault(request, usages, "client auth"),
    };
    Some(fault.to_owned())
}

/// What is wrong with a request of a node for a certificate of a server.
fn node_serving_fault(request: &CertificateRequest, usages: &[String]) -> Option<String> {
    let names = request.count_alternative_names();
    let fault = match names {
        _ if !is_in_nodes(request) => "subject organization is not system:nodes",
        names if names.hosts + names.addresses == 0 => "DNS or IP subjectAltName is required",
        names if names.mail > 0 => "Email subjectAltNames are not allowed",
        names if names.uris > 0 => "URI subjectAltNames are not allowed",
        _ => {
            let is_named = common_name(request).starts_with("system:node:");
            let of_usages = usages_fault(usages, "server auth");
            return of_usages.or_else(|| (!is_named).then(|| NOT_A_NODE.to_owned()));
        }
    };
    Some(fault.to_owned())
}

const NOT_A_NODE: &str = "subject common name does not begin with system:node:";

fn node_fault(request: &CertificateRequest, usages: &[String], usage: &str) -> Option<String> {
    match common_name(request).starts_with("system:node:") {
        true => usages_fault(usages, usage),
        false => Some(NOT_A_NODE.to_owned()),
    }
}

fn common_name(request: &CertificateRequest) -> &str {
    request.subject.common_name().unwrap_or_default()
}

fn is_in_nodes(request: &CertificateRequest) -> bool {
    request.subject.organizations().eq(["system:nodes"])
}

/// Nodes use their keys for signatures and for `usage`, and RSA keys for the encipherment of keys.
fn usages_fault(usages: &[String], usage: &str) -> Option<String> {
    let mut own: Vec<&str> = usages.iter().map(String::as_str).collect();
    own.sort_unstable();
    own.dedup();
    let mut full = ["digital signature", "key encipherment", usage];
    full.sort_unstable();
    let without_rsa = full.iter().filter(|usage| **usage != "key encipherment");
    let is_right = own == full || own.iter().eq(without_rsa);
    (!is_right).then(|| format!("usages did not match [{}]", full.join(" ")))
}
