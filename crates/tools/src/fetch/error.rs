//! Why a page is not fetched, as text for the model. It names hosts, but no addresses inside a network.

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum FetchError {
    #[error("`url` is no address that can be fetched: {0}")]
    Url(String),
    #[error("only http and https are fetched, not `{0}`")]
    Scheme(String),
    /// The address contains a user name or a password.
    #[error("an address with a user's name or password in it is not fetched; leave them out")]
    Credentials,
    #[error("`{host}` is not among the hosts that may be fetched: {allowed}")]
    Host { host: String, allowed: String },
    #[error(
        "port {0} of this host may not be fetched: only 80 and 443, unless the operator names another with it"
    )]
    Port(u16),
    /// A private address, or a name that resolves to one.
    #[error("`{0}` is not on the public internet: private and local addresses are never fetched")]
    Private(String),
    #[error("there were more than {0} redirects")]
    Redirects(usize),
    /// A redirect to an address that may not be fetched.
    #[error("it redirects to somewhere that is not fetched: {0}")]
    Redirect(Box<Self>),
    #[error("there is no host `{0}`, or its name cannot be looked up now")]
    Lookup(String),
    /// The connection, the certificate or the protocol failed.
    #[error("`{host}` could not be read: {cause}")]
    Failed { host: String, cause: String },
    #[error("it took longer than {0} s")]
    Slow(u64),
    #[error("it is no text: its content type is `{0}`; only text is fetched")]
    Type(String),
    /// The content type is text, but the body is binary.
    #[error("it is no text: there are zero bytes in it; only text is fetched")]
    Binary,
    #[error("`{0}` answers compressed, which it was asked not to do; it cannot be read")]
    Compressed(String),
}

impl FetchError {
    pub(super) fn outcome(&self) -> &'static str {
        match self {
            Self::Url(_)
            | Self::Scheme(_)
            | Self::Credentials
            | Self::Host { .. }
            | Self::Port(_)
            | Self::Private(_) => "refused",
            Self::Redirect(error) => error.outcome(),
            Self::Redirects(_) | Self::Lookup(_) | Self::Failed { .. } | Self::Compressed(_) => "failed",
            Self::Slow(_) => "timed_out",
            Self::Type(_) | Self::Binary => "no_text",
        }
    }
}
