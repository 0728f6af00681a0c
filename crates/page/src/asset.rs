//! Stylesheets and scripts, in the binary. Their names change with their content, so that browsers may keep them for ever.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::LazyLock;

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
    Talk,
    Icon,
}

/// A file as it is served.
pub(super) struct Served {
    file: File,
    path: String,
    pub(super) kind: &'static str,
    pub(super) text: &'static str,
}

static FILES: LazyLock<[Served; 8]> = LazyLock::new(|| {
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
        (File::Talk, "talk.js", JS, include_str!("files/talk.js")),
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

/// The file that is served under a name.
pub(super) fn served_as(name: &str) -> Option<&'static Served> {
    FILES.iter().find(|served| served.path == name)
}
