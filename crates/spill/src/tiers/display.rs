//! URLs of tiers for display.

/// A URL for display, without a password.
pub fn shown(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    // A password may contain a slash, so the search for `@` must not end there; a query is not a part of the
    // host.
    let end = rest.find('?').unwrap_or(rest.len());
    match rest[..end].rsplit_once('@') {
        Some((who, host)) => match who.split(':').next().unwrap_or("") {
            "" => format!("{scheme}://{host}{}", &rest[end..]),
            user => format!("{scheme}://{user}@{host}{}", &rest[end..]),
        },
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(shown("redis://u:p@ss@h:1/2"), "redis://u@h:1/2");
        assert_eq!(shown("redis://:p/a@h:1/2"), "redis://h:1/2");
        assert_eq!(shown("redis://h"), "redis://h");
        assert_eq!(shown("nbd+unix:///?socket=/a@b"), "nbd+unix:///?socket=/a@b");
    }
}
