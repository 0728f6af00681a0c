//! OpenAI's Responses API, as spoken by OpenAI and by servers that offer the same calls: requests without anything kept on
//! the server. Its client is [`crate::OpenAi`], which asks servers without it over chat completions.

pub(crate) mod assemble;
pub(crate) mod request;

/// What puts the answer to a request of one message together.
pub(crate) fn assembler() -> impl crate::answer::Assemble {
    assemble::Assembler::new("m", 1)
}

#[cfg(test)]
mod tests;
