//! Files that people attach. They are fetched from Discord's hosts without the token.

use reqwest::Url;

use super::wire::AttachedFile;
use crate::attach::{
    AttachLimits, Attachment, Content, DownloadError, Downloads, Recorded, Transcriber, Unread,
};

const HOSTS: [&str; 2] = ["https://cdn.discordapp.com", "https://media.discordapp.net"];

pub(super) struct Files {
    platform: &'static str,
    downloads: Downloads,
}

impl Files {
    /// Allows only `cdn` if it is set; otherwise Discord's hosts and, if the API is not Discord's (`own`), the API's
    /// host.
    ///
    /// # Errors
    /// The HTTP client cannot be built.
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

    /// Adds an attached file to a message. A file over the limits or that cannot be fetched is only named. Without a
    /// `transcriber` recordings are, too.
    pub(super) async fn read(
        &self,
        attached: &AttachedFile,
        limits: AttachLimits,
        transcriber: Option<&Transcriber>,
        content: &mut Content,
    ) {
        let attachment = Attachment {
            name: &attached.filename,
            media_type: attached.content_type.as_deref(),
            size: Some(attached.size),
        };
        let transcriber = transcriber.filter(|_| attachment.is_sound());
        let wanted = match transcriber {
            Some(transcriber) => attachment.within(transcriber.max_bytes()),
            None => attachment.wanted(&limits),
        };
        let fetched = match wanted {
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
        let Some(transcriber) = transcriber else {
            content.parts.push(attachment.read(self.platform, &limits, fetched).await);
            return;
        };
        let called = match attached.duration_secs {
            Some(secs) => format!("voice message ({secs:.0} s)"),
            None => format!("audio {}", attachment.shown_name()),
        };
        let is_message = attached.duration_secs.is_some();
        let recorded = Recorded { called: &called, attachment: &attachment, is_message };
        transcriber.hear(self.platform, recorded, fetched, content).await;
    }
}
