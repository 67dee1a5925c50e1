//! The server over TLS, with certificates of its own authority.

use std::sync::Arc;

use kube::api::{Api, DynamicObject, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use sendo_server::{ApiServer, Authority, Options};
use sendo_store::Memory;
use sendo_world::World;
use serde_json::json;

async fn serving() -> (ApiServer, World, Kubeconfig) {
    let world = World::real();
    let store = Arc::new(Memory::new(world.clock().clone(), Default::default()));
    let server = ApiServer::start(Options::new(store, world.clone()))
        .await
        .unwrap();
    let authority = Authority::new(world.clock().wall()).unwrap();
    let serving = server
        .serve(([127, 0, 0, 1], 0).into(), authority)
        .await
        .unwrap();
    let config = Kubeconfig::from_yaml(&serving.kubeconfig()).unwrap();
    (server, world, config)
}

async fn client(config: Kubeconfig) -> kube::Client {
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(config, &options)
        .await
        .unwrap();
    kube::Client::try_from(config).unwrap()
}

#[tokio::test]
async fn the_kubeconfig_makes_an_administrator() {
    let (server, world, config) = serving().await;
    let client = client(config).await;
    let kind = kube::core::GroupVersionKind::gvk("", "v1", "ConfigMap");
    let resource = kube::core::ApiResource::from_gvk(&kind);
    let maps: Api<DynamicObject> = Api::default_namespaced_with(client, &resource);
    let object = DynamicObject::new("a", &resource).data(json!({"data": {"k": "v"}}));
    maps.create(&PostParams::default(), &object).await.unwrap();
    assert_eq!(maps.get("a").await.unwrap().data["data"]["k"], "v");
    server.shutdown().await;
    assert_eq!(world.tasks().running(), [""; 0]);
}

#[tokio::test]
async fn the_bearer_token_alone_makes_an_administrator() {
    let (server, _, mut config) = serving().await;
    let user = config.auth_infos[0].auth_info.as_mut().unwrap();
    user.client_certificate_data = None;
    user.client_key_data = None;
    client(config).await.list_api_groups().await.unwrap();
    server.shutdown().await;
}

#[tokio::test]
async fn without_certificate_and_token_one_is_a_stranger() {
    let (server, _, mut config) = serving().await;
    let user = config.auth_infos[0].auth_info.as_mut().unwrap();
    user.client_certificate_data = None;
    user.client_key_data = None;
    user.token = None;
    let client = client(config).await;
    let version = client.apiserver_version().await.unwrap();
    assert_eq!(version.minor, "36");
    let refused = client.list_api_groups().await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 403));
    server.shutdown().await;
}
