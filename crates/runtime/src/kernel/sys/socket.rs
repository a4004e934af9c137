//! A request to a listener at an abstract socket name, and the descriptor in the answer.

use super::{Errno, Fd, PollFd, Result, close, nr, poll, syscall, write};

/// Connects to an abstract name.
pub fn connect(name: &[u8]) -> Result<Fd> {
    const UNIX: u16 = 1;
    const STREAM: usize = 1;
    const CLOEXEC: usize = 0o2000000;
    // The family, a zero, and the name.
    let mut address = [0u8; 110];
    address[..2].copy_from_slice(&UNIX.to_ne_bytes());
    address.get_mut(3..3 + name.len()).ok_or(Errno::INVAL)?.copy_from_slice(name);
    // SAFETY: makes a descriptor.
    let fd = unsafe { syscall(nr::SOCKET, [UNIX as usize, STREAM | CLOEXEC, 0, 0, 0, 0]) }? as i32;
    let args = [fd as usize, address.as_ptr() as usize, 3 + name.len(), 0, 0, 0];
    // SAFETY: the kernel only reads the address.
    match unsafe { syscall(nr::CONNECT, args) } {
        Ok(_) => Ok(Fd(fd)),
        Err(error) => {
            close(Fd(fd));
            Err(error)
        }
    }
}

/// Sends `words`; the answer is a number and a descriptor.
pub fn ask(stream: Fd, words: &[u8], timeout_ns: u64) -> Result<(Fd, u32)> {
    const CMSG_CLOEXEC: usize = 0x4000_0000;
    if write(stream, words)? != words.len() {
        return Err(Errno::AGAIN);
    }
    let mut wait = [PollFd { fd: stream, events: 1, revents: 0 }];
    if poll(&mut wait, Some(timeout_ns))? == 0 {
        return Err(Errno::TIMEDOUT);
    }
    let mut number = [0u8; 4];
    // Length, level and kind in one word; the descriptor.
    let mut control = [0u64; 3];
    let part = [number.as_mut_ptr() as usize, number.len()];
    let mut message =
        [0usize, 0, &raw const part as usize, 1, control.as_mut_ptr() as usize, size_of_val(&control), 0];
    let args = [stream.0 as usize, message.as_mut_ptr() as usize, CMSG_CLOEXEC, 0, 0, 0];
    // SAFETY: the message names live buffers of these sizes, to which the kernel writes.
    let received = unsafe { syscall(nr::RECVMSG, args) }?;
    let fd = Fd(control[2] as i32);
    // One descriptor, at the socket level (1), of the kind "rights" (1).
    if control[0] != 20 || control[1] != 1 << 32 | 1 {
        return Err(Errno::NOENT);
    }
    if received != number.len() {
        close(fd);
        return Err(Errno::NOENT);
    }
    Ok((fd, u32::from_le_bytes(number)))
}
