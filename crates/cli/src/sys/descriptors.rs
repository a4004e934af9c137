//! File descriptors: opens the standard ones, passes descriptors on, and closes all others.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::path::Path;

use nix::libc;

/// Makes sure that all three standard descriptors are open, on /dev/null if necessary. Returns whether
/// standard output was open: the standard library treats writes to a closed one as successful.
pub fn provide_standard_descriptors() -> io::Result<bool> {
    let mut has_output = true;
    // SAFETY: the call accepts any number and changes nothing.
    if (0..3).all(|fd| unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0) {
        return Ok(true);
    }
    loop {
        let file = std::fs::File::options().read(true).write(true).open("/dev/null")?;
        // The file gets the lowest free number: one of the three, unless all of them are in use.
        match file.into_raw_fd() {
            0 | 2 => (),
            1 => has_output = false,
            other => {
                nix::unistd::close(other)?;
                return Ok(has_output);
            }
        }
    }
}

/// Does the same, and lets executed programs inherit the standard descriptors.
#[cfg(feature = "disk")]
pub fn provide_standard_descriptors_for_all() -> io::Result<()> {
    provide_standard_descriptors()?;
    for fd in 0..3 {
        // SAFETY: takes numbers only.
        if unsafe { libc::fcntl(fd, libc::F_SETFD, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The id, as seen from here, of the process at the other end of a stream.
pub fn peer(stream: &std::os::unix::net::UnixStream) -> io::Result<i32> {
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the structure and its size are live, and the size is that of the structure.
    let done = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut bytes,
        )
    };
    nix::errno::Errno::result(done)?;
    Ok(found.pid)
}

/// Sends bytes and a descriptor.
pub fn send_descriptor(
    stream: &std::os::unix::net::UnixStream,
    words: &[u8],
    descriptor: &impl AsRawFd,
) -> io::Result<()> {
    let part = libc::iovec { iov_base: words.as_ptr().cast_mut().cast(), iov_len: words.len() };
    // A header of 16 bytes, and the descriptor.
    let mut control = [0u64; 3];
    // SAFETY: all-zero bytes are a valid, empty header.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = (&raw const part).cast_mut();
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    let fd = descriptor.as_raw_fd();
    // SAFETY: `control` has room for the one header and the one descriptor that are written here. The kernel
    // only reads the buffers that the message names.
    let sent = unsafe {
        let head = libc::CMSG_FIRSTHDR(&raw const message);
        (*head).cmsg_level = libc::SOL_SOCKET;
        (*head).cmsg_type = libc::SCM_RIGHTS;
        (*head).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as _;
        libc::CMSG_DATA(head).cast::<RawFd>().write_unaligned(fd);
        libc::sendmsg(stream.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
    };
    nix::errno::Errno::result(sent)?;
    Ok(())
}

/// Closes every descriptor that is not in `keep`.
pub fn close_all_but(keep: &[RawFd]) {
    let mut keep: Vec<u32> = keep.iter().filter_map(|fd| u32::try_from(*fd).ok()).collect();
    keep.sort_unstable();
    let mut first = 0;
    for fd in keep {
        if fd > first {
            close_range(first, fd - 1);
        }
        first = fd + 1;
    }
    close_range(first, u32::MAX);
}

/// The open descriptors.
pub fn descriptors() -> Vec<RawFd> {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let mut found: Vec<RawFd> =
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    // The list contains the descriptor of the directory itself, which is no longer open. SAFETY: the call
    // accepts any number and changes nothing.
    found.retain(|fd| unsafe { libc::fcntl(*fd, libc::F_GETFD) } >= 0);
    found
}

fn close_range(first: u32, last: u32) {
    // SAFETY: takes numbers only. The caller of `close_all_but` names every descriptor that this process
    // still uses; the others are inherited, and no value here owns them.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
}

/// Whether the file that `path` leads to has an extended attribute.
pub fn has_attribute(path: &Path, name: &CStr) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_encoded_bytes()) else { return false };
    // SAFETY: both strings end with zero; a null buffer of length zero only asks for the size.
    unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), std::ptr::null_mut(), 0) > 0 }
}

/// Duplicates descriptor `fd`; the copy is closed at exec.
pub fn duplicate(fd: RawFd) -> nix::Result<OwnedFd> {
    // SAFETY: the call accepts any number.
    let raw = nix::errno::Errno::result(unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) })?;
    // SAFETY: the call has just made this descriptor, and nothing else owns it.
    Ok(unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(raw) })
}

/// Moves a descriptor to a number of at least 3, closed at exec. If memfold was started with standard error
/// closed, one of its files must not take that number.
pub fn above_standard(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() > 2 {
        return Ok(fd);
    }
    Ok(duplicate(fd.as_raw_fd())?)
}
