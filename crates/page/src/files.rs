//! Stylesheets and scripts, in the binary. Their names change with their content, so that browsers may keep them for ever.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use cairn_api::error::ApiError;

use crate::layout::PageError;

const CSS: &str = "text/css; charset=utf-8";
const SVG: &str = "image/svg+xml";
const JS: &str = "text/javascript; charset=utf-8";

/// A file of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum File {
    Style,
    Script,
    Htmx,
    Chart,
    ChartStyle,
    Events,
    Icon,
}

struct Served {
    file: File,
    path: String,
    kind: &'static str,
    text: &'static str,
}

static FILES: LazyLock<[Served; 7]> = LazyLock::new(|| {
    let files = [
        (
            File::Style,
            "page.css",
            CSS,
            concat!(include_str!("files/page.css"), include_str!("files/registers.css")),
        ),
        (File::Script, "page.js", JS, include_str!("files/page.js")),
        (File::Htmx, "htmx.js", JS, include_str!("files/htmx.min.js")),
        (File::Chart, "uplot.js", JS, include_str!("files/uplot.min.js")),
        (File::Events, "events.js", JS, include_str!("files/events.js")),
        (File::ChartStyle, "uplot.css", CSS, include_str!("files/uplot.min.css")),
        (File::Icon, "icon.svg", SVG, include_str!("files/icon.svg")),
    ];
    files.map(|(file, name, kind, text)| {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        Served { file, path: format!("{:016x}-{name}", hasher.finish()), kind, text }
    })
});

impl File {
    /// Where it is served.
    pub(super) fn path(self) -> String {
        let served = FILES.iter().find(|served| served.file == self);
        served.map(|served| format!("/files/{}", served.path)).unwrap_or_default()
    }
}

/// `GET /files/{name}`.
pub(super) async fn file(Path(name): Path<String>) -> Result<Response, PageError> {
    let served = FILES.iter().find(|served| served.path == name);
    let served = served.ok_or_else(|| {
        ApiError::not_found(
            "no_such_file",
            "there is no such file",
            "the daemon was updated: load the page again",
        )
    })?;
    let headers = [(CONTENT_TYPE, served.kind), (CACHE_CONTROL, "public, max-age=31536000, immutable")];
    Ok((headers, served.text).into_response())
}
