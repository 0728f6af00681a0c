//! OpenAI's Responses API, as spoken by OpenAI and by servers that offer the same calls: requests without anything kept on
//! the server. Its client is [`crate::OpenAi`], which asks servers without it over chat completions.

pub(crate) mod assemble;
pub(crate) mod request;

#[cfg(test)]
mod tests;
