//! Bodies of `multipart/form-data` as RFC 7578 has them, read strictly.

/// A part of a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormPart {
    pub name: String,
    /// Set for a file.
    pub file_name: Option<String>,
    pub content_type: Option<String>,
    pub data: Vec<u8>,
}

fn find(body: &[u8], what: &[u8]) -> Option<usize> {
    body.windows(what.len()).position(|window| window == what)
}

/// The parts of a body.
///
/// # Errors
/// What is wrong with the form, for people.
pub fn parse(content_type: &str, body: &[u8]) -> Result<Vec<FormPart>, String> {
    let boundary =
        content_type.strip_prefix("multipart/form-data").and_then(|rest| rest.split_once("boundary="));
    let (_, boundary) = boundary.ok_or_else(|| format!("`{content_type}` names no boundary"))?;
    let boundary = boundary.trim_matches('"');
    // RFC 2046, 5.1.1.
    if !(1..=70).contains(&boundary.len()) {
        return Err(format!("a boundary of {} characters", boundary.len()));
    }
    let line = format!("--{boundary}");
    let mut rest = body.strip_prefix(line.as_bytes()).ok_or("the body does not begin with its boundary")?;
    let mut parts: Vec<FormPart> = Vec::new();
    let between = format!("\r\n{line}");
    loop {
        if let Some(end) = rest.strip_prefix(b"--") {
            let is_end = end.is_empty() || end == b"\r\n";
            return if is_end {
                Ok(parts)
            } else {
                Err("there is something behind the last boundary".to_owned())
            };
        }
        rest = rest.strip_prefix(b"\r\n").ok_or("a boundary does not end its line")?;
        let at = find(rest, between.as_bytes()).ok_or("a part does not end")?;
        parts.push(part(&rest[..at])?);
        rest = &rest[at + between.len()..];
    }
}

fn part(bytes: &[u8]) -> Result<FormPart, String> {
    let at = find(bytes, b"\r\n\r\n").ok_or("a part has no end of its headers")?;
    let head = std::str::from_utf8(&bytes[..at]).map_err(|_| "the headers of a part are no UTF-8")?;
    let (mut disposition, mut content_type) = (None, None);
    for line in head.split("\r\n") {
        let (name, value) = line.split_once(':').ok_or_else(|| format!("`{line}` is no header"))?;
        match name.to_ascii_lowercase().as_str() {
            "content-disposition" => disposition = Some(value.trim()),
            "content-type" => content_type = Some(value.trim().to_owned()),
            other => return Err(format!("a part has the header `{other}`")),
        }
    }
    let disposition = disposition.ok_or("a part has no Content-Disposition")?;
    if !disposition.starts_with("form-data;") {
        return Err(format!("`{disposition}` is not form-data"));
    }
    let quoted = |key: &str| {
        let (_, rest) = disposition.split_once(&format!("; {key}=\""))?;
        rest.split_once('"').map(|(value, _)| value.to_owned())
    };
    let name = quoted("name").ok_or("a part has no name")?;
    Ok(FormPart { name, file_name: quoted("filename"), content_type, data: bytes[at + 4..].to_vec() })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--b--\r\n", true)]
    #[case("--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n--b--", true)]
    #[case("--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n", false)]
    #[case("--b\r\nContent-Disposition: attachment; name=\"a\"\r\n\r\n1\r\n--b--\r\n", false)]
    #[case("--b\r\nContent-Disposition: form-data\r\n\r\n1\r\n--b--\r\n", false)]
    #[case("--b\r\nX-Evil: 1\r\n\r\n1\r\n--b--\r\n", false)]
    #[case("--c--\r\n", false)]
    fn only_whole_forms_are_read(#[case] body: &str, #[case] is_whole: bool) {
        assert_eq!(parse("multipart/form-data; boundary=b", body.as_bytes()).is_ok(), is_whole);
    }
}
