//! What `memfold disk status` shows: one definition for each column. Help and the man page are made from them.
//!
//! Names and meanings are those of zramctl(8) where it has the column.

/// A column: its name, and its definition.
pub struct Column {
    /// Which column it is.
    pub is: Is,
    /// The name above the cells and in `--output`.
    pub name: &'static str,
    /// Its definition.
    pub definition: &'static str,
}

/// The columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Is {
    Name,
    Pid,
    DiskSize,
    Data,
    Compr,
    Algorithm,
    Streams,
    ZeroPages,
    Total,
    MemLimit,
    MemUsed,
    Migrated,
    CompRatio,
    Dense,
    Resident,
    Spilled,
    Refused,
    Door,
    Address,
    MountPoint,
}

const fn column(is: Is, name: &'static str, definition: &'static str) -> Column {
    Column { is, name, definition }
}

/// All columns, in order.
pub const COLUMNS: [Column; 20] = [
    column(Is::Name, "NAME", "name of the device"),
    column(Is::Pid, "PID", "process ID of the device"),
    column(Is::DiskSize, "DISKSIZE", "size of the device"),
    column(Is::Data, "DATA", "bytes of pages that hold data"),
    column(Is::Compr, "COMPR", "the same, compressed (payload)"),
    column(Is::Algorithm, "ALGORITHM", "codecs for written data, and for data that stay cold"),
    column(Is::Streams, "STREAMS", "threads that can compress at the same time"),
    column(Is::ZeroPages, "ZERO-PAGES", "pages of one repeated word, which take no memory (of zeros: none)"),
    column(Is::Total, "TOTAL", "all memory that the device uses: payload, resident pages, overhead"),
    column(Is::MemLimit, "MEM-LIMIT", "memory that it may use"),
    column(
        Is::MemUsed,
        "MEM-USED",
        "peak memory use, including what it keeps free for compressing: the number that MEM-LIMIT limits",
    ),
    column(Is::Migrated, "MIGRATED", "blobs that were moved to close holes"),
    column(Is::CompRatio, "COMP-RATIO", "DATA divided by TOTAL; nothing for an empty device"),
    column(Is::Dense, "DENSE", "part of DATA that is in the dense tier"),
    column(Is::Resident, "RESIDENT", "bytes of pages that also have an uncompressed copy"),
    column(Is::Spilled, "SPILLED", "compressed bytes that are on the backing device"),
    column(Is::Refused, "REFUSED", "writes that were refused at the limit"),
    column(Is::Door, "DOOR", "how it is accessed: nbd or fuse"),
    column(Is::Address, "ADDRESS", "where: a socket, a file"),
    column(
        Is::MountPoint,
        "MOUNTPOINT",
        "where file systems on loop devices of its file are mounted, or [SWAP]",
    ),
];

/// The columns shown by default.
pub const SHOWN: [Is; 12] = [
    Is::Name,
    Is::DiskSize,
    Is::Data,
    Is::Compr,
    Is::Total,
    Is::MemLimit,
    Is::MemUsed,
    Is::CompRatio,
    Is::Dense,
    Is::Algorithm,
    Is::Address,
    Is::MountPoint,
];

impl Is {
    /// The column.
    pub fn column(self) -> &'static Column {
        COLUMNS
            .iter()
            .find(|column| column.is == self)
            .unwrap_or_else(|| unreachable!("{self:?} is in the table: a test looks"))
    }

    /// Whether its cells are text and left-aligned.
    pub fn is_text(self) -> bool {
        matches!(self, Is::Name | Is::Algorithm | Is::Door | Is::Address | Is::MountPoint)
    }
}

/// The columns named in a comma-separated list; the error is the first unknown name.
pub fn named(list: &str) -> Result<Vec<Is>, String> {
    let one = |name: &str| {
        let found = COLUMNS.iter().find(|column| column.name.eq_ignore_ascii_case(name));
        found.map(|column| column.is).ok_or_else(|| name.to_owned())
    };
    list.split(',').map(str::trim).map(one).collect()
}

/// All columns, for help.
pub fn help() -> String {
    let mut text = "Columns:".to_owned();
    for column in &COLUMNS {
        text.push_str(&format!("\n  {:<10}  {}", column.name, column.definition));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_is_found_by_its_name() {
        for column in &COLUMNS {
            assert_eq!(named(&column.name.to_lowercase()), Ok(vec![column.is]));
            assert_eq!(column.is.column().name, column.name);
        }
        assert_eq!(named("data, NAME,data"), Ok(vec![Is::Data, Is::Name, Is::Data]));
        for (list, unknown) in [("NAME,SIZE", "SIZE"), ("", ""), ("NAME,,DATA", "")] {
            assert_eq!(named(list), Err(unknown.to_owned()), "{list}");
        }
        assert!(SHOWN.iter().all(|is| help().contains(is.column().name)));
    }
}
