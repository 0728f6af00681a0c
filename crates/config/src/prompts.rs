//! Prompts: the built-in templates, and how templates are rendered, once per load.

use std::path::Path;

use minijinja::{Environment as Templates, UndefinedBehavior, context};

use super::error::{FilePosition, Problem};

const AGENT: &str = include_str!("../../../prompts/en/agent.md.j2");
const COMPACTOR: &str = include_str!("../../../prompts/en/compactor.md.j2");

/// Which of an agent's two prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PromptKind {
    Agent,
    Compactor,
}

impl PromptKind {
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Agent => "prompt",
            Self::Compactor => "compactor_prompt",
        }
    }

    fn built_in(self) -> &'static str {
        match self {
            Self::Agent => AGENT,
            Self::Compactor => COMPACTOR,
        }
    }
}

/// The variables of a template. They are constant as long as the configuration is: a volatile value would void the provider's
/// prompt cache with every change.
#[derive(Debug, Clone, Copy)]
pub(super) struct PromptContext<'a> {
    /// The agent's name: `{{ agent }}`.
    pub(super) agent: &'a str,
    /// Its time zone: `{{ timezone }}`.
    pub(super) timezone: &'a str,
}

/// Renders an agent's prompt from a file, or the built-in one.
pub(super) fn render(
    kind: PromptKind,
    file: Option<&Path>,
    context: PromptContext<'_>,
) -> Result<String, Problem> {
    let Some(file) = file else {
        return render_text(kind, Path::new("the built-in prompt"), kind.built_in(), context);
    };
    let key = kind.key();
    let text = std::fs::read_to_string(file).map_err(|error| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        if kind == PromptKind::Agent && name.contains(char::is_whitespace) {
            return Problem::new(format!("`{key}` names a file, and there is none of that name"))
                .hint("to give the prompt itself, write it as `prompt_text`");
        }
        Problem::new(format!("`{key}`: cannot read the prompt file {}: {error}", file.display())).hint(
            format!(
                "create the file or correct `{key}` (a relative path starts at the config file's folder); \
             without `{key}` the built-in prompt is used"
            ),
        )
    })?;
    render_text(kind, file, &text, context)
}

/// Renders a prompt that is written in the config file itself.
pub(super) fn render_own(text: &str, context: PromptContext<'_>) -> Result<String, Problem> {
    // Lines of the text are not those of the file, so the caller sets the key's place.
    render_text(PromptKind::Agent, Path::new(""), text, context).map_err(|problem| Problem {
        place: None,
        message: problem.message.replacen("`prompt`", "`prompt_text`", 1),
        ..problem
    })
}

fn render_text(
    kind: PromptKind,
    file: &Path,
    text: &str,
    PromptContext { agent, timezone }: PromptContext<'_>,
) -> Result<String, Problem> {
    let mut templates = Templates::new();
    templates.set_undefined_behavior(UndefinedBehavior::Strict);
    let rendered = templates
        .render_str(text, context! { agent, timezone })
        .map_err(|error| template_problem(kind, file, text, &error))?;
    if rendered.trim().is_empty() {
        let message = format!("`{}`: {} renders to an empty prompt", kind.key(), file.display());
        return Err(Problem::new(message).hint("write what the model is to know, or leave the key out"));
    }
    Ok(rendered.trim().to_owned())
}

fn template_problem(kind: PromptKind, file: &Path, text: &str, error: &minijinja::Error) -> Problem {
    let detail = error.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
    let message = format!("`{}`: the template fails: {}{detail}", kind.key(), error.kind());
    let line = error.line().unwrap_or(1);
    let shown = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    let indent = shown.chars().take_while(|c| c.is_whitespace()).count();
    let place = FilePosition {
        file: file.to_owned(),
        line,
        column: indent + 1,
        width: shown.trim().chars().count().clamp(1, 80),
        text: shown.to_owned(),
    };
    Problem::new(message).at(Some(place)).hint("a template may use {{ agent }} and {{ timezone }}")
}
