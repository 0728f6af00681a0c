//! Files that people attach: fetched from Discord's hosts, without the token, which they do not ask for.

use cairn_types::message::Part;
use reqwest::Url;

use super::wire::AttachedFile;
use crate::attach::{AttachLimits, Attachment, DownloadError, Downloads, Unread};

const HOSTS: [&str; 2] = ["https://cdn.discordapp.com", "https://media.discordapp.net"];

pub(super) struct Files {
    platform: &'static str,
    downloads: Downloads,
}

impl Files {
    /// With a host of files of one's own (`cdn`) they come from there alone; with an API of one's own (`own`) they may come
    /// from its host, too.
    ///
    /// # Errors
    /// No HTTP client can be made.
    pub(super) fn new(
        platform: &'static str,
        api: &Url,
        own: bool,
        cdn: Option<&Url>,
    ) -> Result<Self, DownloadError> {
        let discords = HOSTS.iter().filter_map(|host| Url::parse(host).ok());
        let hosts: Vec<Url> = match cdn {
            Some(cdn) => vec![cdn.clone()],
            None => discords.chain(own.then(|| api.clone())).collect(),
        };
        let own = own || cdn.is_some();
        Ok(Self { platform, downloads: Downloads::new(hosts, own)? })
    }

    /// A file within the limits as a part of a message; one that cannot be fetched is named.
    pub(super) async fn part(&self, attached: &AttachedFile, limits: AttachLimits) -> Part {
        let attachment = Attachment {
            name: &attached.filename,
            media_type: attached.content_type.as_deref(),
            size: Some(attached.size),
        };
        let fetched = match attachment.wanted(&limits) {
            Ok(most) => self.downloads.fetch(&attached.url, most).await.map_err(|error| {
                tracing::warn!(platform = self.platform, %error, "an attachment could not be read; it is only named");
                match error {
                    DownloadError::TooLong(_) => Unread::TooLarge,
                    DownloadError::Foreign | DownloadError::Status(_) | DownloadError::Transport(_) => {
                        Unread::Unavailable
                    }
                }
            }),
            Err(unread) => Err(unread),
        };
        attachment.part(fetched)
    }
}
