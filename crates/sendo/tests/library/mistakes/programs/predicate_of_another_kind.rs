//~ expected `Predicate<ConfigMap>`, found `Predicate<Secret>`

use sendo::k8s_openapi::api::core::v1::{ConfigMap, Secret};
use sendo::Controller;
use sendo::predicate::{Predicate, generation_changed};

fn main() {
    let secrets: Predicate<Secret> = generation_changed();
    Controller::new::<ConfigMap>().when(secrets);
}
