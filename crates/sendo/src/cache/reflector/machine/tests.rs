//! The state machine of a watch, step by step.

use super::*;
use k8s_openapi::api::core::v1::ConfigMap;

const MINUTE: Duration = Duration::from_secs(60);

fn machine() -> Machine {
    Machine::new(Random::from_seed(1), false, Box::new(Held::Whole))
}

fn page(version: &str, next: Option<&str>) -> Input {
    Input::Page(Page {
        version: version.to_owned(),
        next: next.map(str::to_owned),
        objects: Vec::new(),
        unreadable: Vec::new(),
    })
}

fn watching(version: &str) -> Machine {
    let mut machine = machine();
    assert!(machine.on(page(version, None)).next.wait().is_zero());
    machine
}

fn watch_from(version: &str) -> Request {
    let from = version.to_owned();
    Request::Watch { from }
}

fn list_from_the_start() -> Request {
    Request::List {
        page: None,
        limit: Some(PAGE),
    }
}

fn error(code: u16) -> Input {
    Input::Line(Line::Error(Box::new(Status {
        code,
        ..Status::default()
    })))
}

#[test]
fn lists_page_by_page_then_watches_from_the_lists_version() {
    let mut machine = machine();
    assert_eq!(machine.request(), list_from_the_start());
    assert!(machine.on(page("7", Some("more"))).update.is_none());
    let limit = Some(PAGE);
    let page_two = Some("more".to_owned());
    assert_eq!(
        machine.request(),
        Request::List {
            page: page_two,
            limit
        }
    );
    let reaction = machine.on(page("7", None));
    assert!(matches!(reaction.update, Some(Update::Listed(list, _)) if list.version == 7));
    assert_eq!(machine.request(), watch_from("7"));
}

#[test]
fn a_page_that_fails_is_asked_for_again_without_starting_over() {
    let mut machine = machine();
    machine.on(page("7", Some("more")));
    let error = WatchError::Other("cut".to_owned());
    let reaction = machine.on(Input::failed(error, Duration::ZERO));
    assert!(matches!(
        reaction.update,
        Some(Update::Failed(Verb::List, _))
    ));
    assert!(!reaction.next.wait().is_zero());
    assert!(matches!(
        machine.request(),
        Request::List { page: Some(_), .. }
    ));
}

#[test]
fn an_old_version_is_listed_anew_at_once_and_the_second_time_after_a_wait() {
    let mut machine = watching("7");
    assert!(machine.on(error(410)).next.wait().is_zero());
    assert_eq!(machine.request(), list_from_the_start());
    machine.on(page("8", None));
    assert!(!machine.on(error(410)).next.wait().is_zero());
}

#[test]
fn an_error_nobody_knows_is_not_gone_on_from() {
    let mut machine = watching("7");
    assert!(!machine.on(error(500)).next.wait().is_zero());
    assert_eq!(machine.request(), list_from_the_start());
}

#[test]
fn a_watch_that_lived_starts_the_waits_anew() {
    let mut machine = watching("7");
    let fail = |lived| Input::failed(WatchError::Other("cut".to_owned()), lived);
    for _ in 0..8 {
        machine.on(fail(Duration::ZERO));
    }
    assert!(machine.on(fail(Duration::ZERO)).next.wait() >= MINUTE / 4);
    assert!(machine.on(fail(MINUTE)).next.wait() <= MINUTE / 60);
    assert!(
        machine
            .on(Input::Ended { lived: MINUTE })
            .next
            .wait()
            .is_zero()
    );
    assert_eq!(machine.request(), watch_from("7"));
}

#[test]
fn a_line_without_a_version_does_not_lose_the_place() {
    let mut machine = watching("7");
    machine.on(Input::Line(Line::Applied(Arc::new(ConfigMap::default()))));
    assert_eq!(machine.request(), watch_from("7"));
    let version = "9".to_owned();
    machine.on(Input::Line(Line::Bookmark {
        version,
        ends_list: false,
    }));
    assert_eq!(machine.request(), watch_from("9"));
}

fn streaming() -> Machine {
    Machine::new(Random::from_seed(1), true, Box::new(Held::Whole))
}

fn applied(name: &str) -> Input {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    Input::Line(Line::Applied(Arc::new(map)))
}

fn bookmark(version: &str, ends_list: bool) -> Input {
    let version = version.to_owned();
    Input::Line(Line::Bookmark { version, ends_list })
}

#[test]
fn a_streamed_list_is_whole_at_its_last_bookmark_and_the_watch_goes_on() {
    let mut machine = streaming();
    assert_eq!(machine.request(), Request::Stream);
    machine.on(Input::Opened);
    for input in [applied("a"), applied("b"), applied("a")] {
        let reaction = machine.on(input);
        assert!(reaction.update.is_none() && reaction.next == Next::Read);
    }
    let reaction = machine.on(bookmark("9", true));
    assert_eq!(reaction.next, Next::Read);
    assert!(
        matches!(reaction.update, Some(Update::Listed(list, _)) if list.version == 9 && list.objects.len() == 2)
    );
    assert!(matches!(
        machine.on(applied("c")).update,
        Some(Update::Applied(_))
    ));
}

#[test]
fn a_server_that_streams_no_lists_is_asked_for_pages_from_then_on() {
    let mut machine = streaming();
    machine.on(applied("a"));
    assert!(machine.on(Input::CannotStream).next.wait().is_zero());
    assert_eq!(machine.request(), list_from_the_start());
    machine.on(page("7", None));
    machine.on(error(410));
    assert_eq!(machine.request(), list_from_the_start());
}

#[test]
fn a_bookmark_that_does_not_end_the_list_shows_that_lists_are_not_streamed() {
    let mut machine = streaming();
    machine.on(Input::Opened);
    machine.on(applied("a"));
    assert!(machine.on(bookmark("5", false)).next.wait().is_zero());
    assert_eq!(machine.request(), list_from_the_start());
}

#[test]
fn a_watch_that_falls_silent_is_opened_from_where_it_was_and_has_not_failed() {
    let mut machine = watching("7");
    machine.on(Input::Opened);
    machine.on(bookmark("9", false));
    let reaction = machine.on(Input::Silent);
    assert!(reaction.update.is_none() && reaction.next.wait().is_zero());
    assert_eq!(machine.request(), watch_from("9"));
}

#[test]
fn a_streamed_list_that_is_cut_off_starts_anew_with_backoff() {
    let mut machine = streaming();
    machine.on(applied("a"));
    let cut = Input::failed(WatchError::Other("cut".to_owned()), MINUTE);
    assert!(!machine.on(cut).next.wait().is_zero());
    assert_eq!(machine.request(), Request::Stream);
    let reaction = machine.on(bookmark("9", true));
    assert!(matches!(reaction.update, Some(Update::Listed(list, _)) if list.objects.is_empty()));
}
