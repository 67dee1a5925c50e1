//~ `Bucket` is not a kind of the API that is known from its type
//~ use a type of `k8s-openapi`, or derive `CustomResource` for the spec of your own

use sendo::Controller;

struct Bucket;

fn main() {
    Controller::new::<Bucket>();
}
