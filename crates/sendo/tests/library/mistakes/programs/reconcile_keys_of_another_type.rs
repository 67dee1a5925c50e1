//~ expected function signature `fn(u32, Context) -> _`
//~ found function signature `fn(u64, Context) -> _`

use sendo::{Action, Context, Controller, Result};

async fn reconcile(_: u64, _: Context) -> Result<Action> {
    Ok(Action::done())
}

fn main() {
    Controller::keyed::<u32>("numbers").reconcile(reconcile);
}
