//~ expected `Handler<u32, ObjectKey>`, found `Handler<Tick, ObjectKey>`

use sendo::k8s_openapi::api::core::v1::ConfigMap;
use sendo::{Controller, Reader, handler, source};

struct Tick;

fn main() {
    let (_sender, numbers) = source::channel::<u32>(1);
    let handler = handler::map(|_: Tick, cx: &Reader| cx.list::<ConfigMap>().keys());
    Controller::new::<ConfigMap>().watches(numbers, handler);
}
