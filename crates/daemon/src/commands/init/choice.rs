//! The servers that `init` knows by name.

use cairn_config::{ANTHROPIC_URL, OPENAI_URL, Provider};
use clap::ValueEnum;

/// `--provider`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Choice {
    /// Ollama, on this machine unless you say otherwise
    Ollama,
    /// LM Studio, on this machine unless you say otherwise
    #[value(alias = "lm-studio")]
    Lmstudio,
    /// OpenAI, or any server of chat completions: llama.cpp, vLLM, LocalAI
    Openai,
    /// Anthropic
    Anthropic,
    /// OpenRouter: many providers' models with one key
    Openrouter,
    /// DeepSeek
    Deepseek,
    /// Google's Gemini
    #[value(alias = "google")]
    Gemini,
    /// The built-in model: no network, no key
    Offline,
}

impl Choice {
    pub(super) fn provider(self) -> Provider {
        match self {
            Self::Anthropic => Provider::Anthropic,
            Self::Offline => Provider::Offline,
            Self::Ollama
            | Self::Lmstudio
            | Self::Openai
            | Self::Openrouter
            | Self::Deepseek
            | Self::Gemini => Provider::Openai,
        }
    }

    /// Where its server is; empty for the embedded model.
    pub(super) fn address(self) -> &'static str {
        match self {
            // https://docs.ollama.com/api/openai-compatibility
            Self::Ollama => "http://127.0.0.1:11434/v1",
            // https://lmstudio.ai/docs/developer/openai-compat
            Self::Lmstudio => "http://127.0.0.1:1234/v1",
            Self::Openai => OPENAI_URL,
            Self::Anthropic => ANTHROPIC_URL,
            // https://openrouter.ai/docs/quickstart
            Self::Openrouter => "https://openrouter.ai/api/v1",
            // https://api-docs.deepseek.com/
            Self::Deepseek => "https://api.deepseek.com",
            // https://ai.google.dev/gemini-api/docs/openai
            Self::Gemini => "https://generativelanguage.googleapis.com/v1beta/openai",
            Self::Offline => "",
        }
    }

    /// Whether its server may be elsewhere.
    pub(super) fn moves(self) -> bool {
        matches!(self, Self::Ollama | Self::Lmstudio | Self::Openai | Self::Anthropic)
    }

    /// Whether its server takes requests without a key, as it comes.
    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Ollama | Self::Lmstudio)
    }

    pub(super) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// All of them, a line each.
    pub(super) fn menu() -> String {
        let lines = Self::value_variants().iter().map(|choice| {
            let help = choice.to_possible_value().and_then(|value| value.get_help().cloned());
            format!("  {:<12}{}\n", choice.name(), help.unwrap_or_default())
        });
        lines.collect()
    }

    pub(super) fn of(answer: &str) -> Result<Self, String> {
        let names =
            || Self::value_variants().iter().map(|choice| choice.name()).collect::<Vec<_>>().join(", ");
        Self::from_str(answer, true).map_err(|_| format!("write one of {}", names()))
    }
}

#[cfg(test)]
mod tests {
    use cairn_config::base_url_trouble;

    use super::*;

    #[test]
    fn every_choice_has_a_name_a_line_in_the_menu_and_an_address_that_passes_its_check() {
        let menu = Choice::menu();
        assert_eq!(menu.lines().count(), Choice::value_variants().len(), "{menu}");
        for choice in Choice::value_variants() {
            assert_eq!(Choice::of(&choice.name().to_uppercase()), Ok(*choice));
            let trouble = base_url_trouble(choice.address(), choice.provider());
            assert!(*choice == Choice::Offline || trouble.is_none(), "{choice:?}: {trouble:?}");
        }
        assert_eq!(Choice::of("lm-studio"), Ok(Choice::Lmstudio));
        assert!(Choice::of("openia").unwrap_err().contains("ollama, lmstudio, openai"));
    }
}
