//~ `ConfigMap` cannot be converted to another version of its kind
//~ write `impl Convert for ConfigMap` with the version that is the hub

use sendo::Manager;
use sendo::k8s_openapi::api::core::v1::ConfigMap;

fn main() {
    Manager::new("program").serves::<ConfigMap>();
}
