//! The meaning of an execution's events for its watcher.

use callboard_client::Event;

/// True if the execution has ended with the event.
pub(super) fn is_end(event: &Event) -> bool {
    let end = ["execution.completed", "execution.failed", "execution.cancelled"];
    end.contains(&event.name.as_str())
}

/// True if the execution may have another state; a piece of an output changes nothing in it.
pub(super) fn is_news(event: &Event) -> bool {
    event.name != "task.delta"
}

/// The step that the event is about.
pub(super) fn step(event: &Event) -> Option<&str> {
    let resource = &event.body["resource"];
    resource["id"].as_str().filter(|_| resource["kind"] == "step")
}
