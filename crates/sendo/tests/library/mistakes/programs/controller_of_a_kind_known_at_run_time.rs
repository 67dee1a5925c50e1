//~ `DynamicObject` is not a kind of the API that is known from its type

use sendo::kube::core::DynamicObject;
use sendo::Controller;

fn main() {
    Controller::new::<DynamicObject>();
}
