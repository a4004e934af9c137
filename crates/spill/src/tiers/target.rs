//! The names by which users specify tiers.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::str::FromStr;

use super::display::shown;
use super::file::FileTier;
use super::nbd::NbdTier;
#[cfg(feature = "redis")]
use super::redis::RedisTier;
use super::{BadTarget, Terms, Tier};

/// A tier that was named, but not yet opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A directory, a file that does not exist yet, or a block device.
    File(PathBuf),
    /// An NBD URI.
    Nbd(String),
    /// URLs of a server, or of some servers of a cluster.
    Redis(Vec<String>),
}

/// For display: without passwords.
impl fmt::Display for Target {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::File(path) => to.write_str(&memfold_escape::path(path)),
            Target::Nbd(uri) => to.write_str(&shown(uri)),
            Target::Redis(urls) => to.write_str(&shown(urls.first().map_or("", String::as_str))),
        }
    }
}

const NBD: [&str; 6] = ["nbd", "nbds", "nbd+unix", "nbds+unix", "nbd+vsock", "nbds+vsock"];
/// The schemes that users write, and those that the client expects.
const REDIS: [(&str, &str); 5] = [
    ("redis", "redis"),
    ("valkey", "redis"),
    ("redis+unix", "redis+unix"),
    ("valkey+unix", "redis+unix"),
    ("unix", "unix"),
];

impl FromStr for Target {
    type Err = BadTarget;

    fn from_str(text: &str) -> Result<Self, BadTarget> {
        Target::named(text.as_ref())
    }
}

impl Target {
    /// Parses a name: a path may have any bytes, a URL is text.
    pub fn named(name: &OsStr) -> Result<Self, BadTarget> {
        let bytes = name.as_bytes();
        // A name that begins like a path is a path, whatever its directories are called.
        let is_path = bytes.starts_with(b"/") || bytes.starts_with(b"./") || bytes.starts_with(b"../");
        let colon = bytes.windows(3).position(|three| three == b"://").filter(|_| !is_path);
        let (scheme, rest) = colon.map_or((&b"file"[..], bytes), |at| (&bytes[..at], &bytes[at + 3..]));
        if scheme == b"file" {
            if rest.trim_ascii().is_empty() {
                return Err(BadTarget("the target is empty: give a directory, a new file, or a URL like nbd://HOST/EXPORT or redis://HOST".into()));
            }
            // A new file may have nearly any name, so a mistyped URL would be taken for one. It may contain a
            // password, so the message does not repeat it.
            if rest.contains(&b':') && !rest.contains(&b'/') {
                return Err(BadTarget(
                    "this may be a server: give a URL like nbd://HOST/EXPORT or redis://HOST, or ./NAME for a file".into(),
                ));
            }
            return Ok(Target::File(OsStr::from_bytes(rest).into()));
        }
        let Some((text, (scheme, rest))) =
            name.to_str().and_then(|text| Some((text, text.split_once("://")?)))
        else {
            return Err(BadTarget(
                "a URL must be UTF-8, and this one has other bytes: write them as %FF".into(),
            ));
        };
        if NBD.contains(&scheme) {
            return Ok(Target::Nbd(text.to_owned()));
        }
        if let Some((_, scheme)) = REDIS.iter().find(|(name, _)| *name == scheme) {
            return redis(scheme, rest);
        }
        let more = if matches!(scheme, "rediss" | "valkeys") {
            "; for Redis over TLS, run a tunnel (stunnel) and name its local end"
        } else {
            ""
        };
        Err(BadTarget(format!(
            "there is no tier for {scheme}://: use a path, nbd://, nbds://, nbd+unix://, redis:// or redis+unix://{more}"
        )))
    }
}

/// `redis://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...][/DATABASE]`
fn redis(scheme: &str, rest: &str) -> Result<Target, BadTarget> {
    if scheme != "redis" {
        return Ok(Target::Redis(vec![format!("{scheme}://{rest}")]));
    }
    let (who, rest) = rest.rsplit_once('@').map_or(("", rest), |(who, rest)| (who, rest));
    let at = if who.is_empty() { "" } else { "@" };
    let (hosts, tail) = match rest.find(['/', '?']) {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    if hosts.split(',').any(str::is_empty) {
        return Err(BadTarget(format!(
            "redis://{rest} names no host: give redis://HOST or redis://HOST:PORT"
        )));
    }
    Ok(Target::Redis(hosts.split(',').map(|host| format!("{scheme}://{who}{at}{host}{tail}")).collect()))
}

impl Target {
    /// Opens it. `run` identifies the data on servers that several runs use.
    pub fn open(&self, run: &str, terms: Terms) -> Result<Box<dyn Tier>, BadTarget> {
        Ok(match self {
            Target::File(path) => Box::new(FileTier::open(path, terms)?),
            Target::Nbd(uri) => Box::new(NbdTier::open(uri, run, terms)?),
            #[cfg(feature = "redis")]
            Target::Redis(urls) => Box::new(RedisTier::open(urls, run, terms)?),
            #[cfg(not(feature = "redis"))]
            Target::Redis(_) => {
                return Err(BadTarget(
                    "this memfold was built without the tier for Redis; the default features include it"
                        .into(),
                ));
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_understood() {
        let target = |text: &str| text.parse::<Target>();
        assert_eq!(target("/var/tmp"), Ok(Target::File("/var/tmp".into())));
        assert_eq!(target("file:///var/tmp"), Ok(Target::File("/var/tmp".into())));
        assert_eq!(target("./host:1"), Ok(Target::File("./host:1".into())));
        let uri = "nbd+unix:///export?socket=/run/nbd";
        assert_eq!(target(uri), Ok(Target::Nbd(uri.into())));
        assert_eq!(target("redis://h:1"), Ok(Target::Redis(vec!["redis://h:1".into()])));
        let urls = ["redis://u:p@a:1/3".to_owned(), "redis://u:p@b/3".to_owned()];
        assert_eq!(target("valkey://u:p@a:1,b/3"), Ok(Target::Redis(urls.into())));
        for bad in
            ["", " ", "file:", "file://", "host:1", "http://h", "rediss://h", "redis://", "redis://a,,b"]
        {
            assert!(target(bad).is_err(), "{bad}");
        }
        assert!(!target("user:secret@host:1").unwrap_err().0.contains("secret"));
        assert!(target("rediss://h").unwrap_err().0.contains("stunnel"));
    }

    #[test]
    fn paths_have_any_bytes_and_urls_are_text() {
        let target = |bytes: &'static [u8]| Target::named(OsStr::from_bytes(bytes));
        let file = |bytes: &'static [u8]| Ok(Target::File(OsStr::from_bytes(bytes).into()));
        assert_eq!(target(b"/tmp/\xff"), file(b"/tmp/\xff"));
        assert_eq!(target(b"\xff"), file(b"\xff"));
        assert_eq!(target(b"file:///tmp/\xff"), file(b"/tmp/\xff"));
        assert_eq!(target(b"/tmp/a://b"), file(b"/tmp/a://b"));
        assert_eq!(target(b"./http://b:1"), file(b"./http://b:1"));
        assert!(target(b"redis://\xff").unwrap_err().0.contains("URL must be UTF-8"));
        assert!(target(b"\xff://host").unwrap_err().0.contains("URL must be UTF-8"));
        assert!(target(b"\xff:1").unwrap_err().0.contains("may be a server"));
    }
}
