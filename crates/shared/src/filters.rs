//! The seccomp filters of a process, as reported by `/proc/PID/status`, and how their number is stored.

/// Added to a number of filters under which the system call `userfaultfd` must not be made: only the device
/// may be used.
pub const BY_DEVICE_ONLY: u32 = 1 << 31;

/// The contents of `/proc/self/status`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// Process id.
    pub pid: u32,
    /// 0 means no filter.
    pub mode: u32,
    /// Number of filters. Kernels before 5.9 do not report it.
    pub count: Option<u32>,
}

impl Status {
    /// Reads the status in pieces, up to an empty one; `None` if it does not mention filters.
    pub fn read(mut piece: impl FnMut(&mut [u8]) -> usize) -> Option<Self> {
        let mut parser = Parser::default();
        let mut buffer = [0; 1024];
        loop {
            let length = piece(&mut buffer).min(buffer.len());
            if length == 0 {
                return parser.seen.then_some(parser.status);
            }
            parser.add(&buffer[..length]);
        }
    }
}

/// Parses the status in pieces, since the list of groups may have any length.
#[derive(Default)]
struct Parser {
    line: [u8; 32],
    length: usize,
    status: Status,
    seen: bool,
}

impl Parser {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if *byte == b'\n' {
                self.end_line();
                self.length = 0;
            } else if let Some(place) = self.line.get_mut(self.length) {
                *place = *byte;
                self.length += 1;
            }
        }
    }

    fn end_line(&mut self) {
        let line = &self.line[..self.length];
        let number = |name: &[u8]| {
            let rest = line.strip_prefix(name)?.trim_ascii();
            core::str::from_utf8(rest).ok()?.parse::<u32>().ok()
        };
        if let Some(pid) = number(b"Pid:") {
            self.status.pid = pid;
        } else if let Some(mode) = number(b"Seccomp:") {
            (self.status.mode, self.seen) = (mode, true);
        } else if let Some(count) = number(b"Seccomp_filters:") {
            self.status.count = Some(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_in_pieces() {
        let text = b"Name:\tx\nPid:\t123\nGroups:\t1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20\nSeccomp:\t2\nSeccomp_filters:\t3\n";
        for size in 1..40 {
            let mut pieces = text.chunks(size);
            let status = Status::read(|buffer| {
                let piece = pieces.next().unwrap_or_default();
                buffer[..piece.len()].copy_from_slice(piece);
                piece.len()
            });
            assert_eq!(status, Some(Status { pid: 123, mode: 2, count: Some(3) }));
        }
        assert_eq!(Status::read(|_| 0), None);
    }
}
