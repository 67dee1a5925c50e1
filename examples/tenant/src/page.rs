//! The page that every replica serves: the list of tenants, in plain text.

use sendo::{Listener, ObjectExt, PageRequest, PageResponse, Result, RunContext};

use crate::api::Tenant;

/// Serves `/tenants` on `address`, if there is one, until the program stops.
pub(crate) async fn serve(cx: RunContext, address: Option<String>) -> Result<()> {
    let Some(address) = address else {
        return Ok(());
    };
    let listener = Listener::bind(&address, "TENANT_PAGE_ADDRESS").await?;
    tracing::info!(address = %listener.address(), "serving /tenants");
    let answer = {
        let cx = cx.clone();
        move |request: PageRequest| {
            let answer = match request.path.as_str() {
                "/tenants" => PageResponse::ok(page(&cx)),
                _ => PageResponse::not_found(),
            };
            async move { answer }
        }
    };
    listener.serve(cx.world(), cx.stopping(), answer).await;
    Ok(())
}

fn page(cx: &RunContext) -> String {
    let line = |tenant: &Tenant| {
        format!(
            "{}: {}\n",
            tenant.name(),
            tenant.namespace_names().join(" ")
        )
    };
    let tenants = cx.list::<Tenant>();
    tenants.iter().map(|tenant| line(&tenant)).collect()
}
