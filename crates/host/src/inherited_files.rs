//! Open files that a process inherited from the one that started it.

/// First descriptor after stdin, stdout and stderr.
const FIRST_OTHER_DESCRIPTOR: i32 = 3;

/// Keeps every open file except stdin, stdout and stderr from the processes that this one starts.
///
/// Call this first in `main`: a shell or a service manager may have left private files and pipes open, and a program
/// that inherits them can read them and keeps their readers waiting. Files that this process opens later are closed on
/// exec anyway.
pub fn close_inherited_files_on_exec() {
    close_fds::set_fds_cloexec(FIRST_OTHER_DESCRIPTOR, &[]);
}

#[cfg(test)]
mod tests {
    use std::{fs::File, process::Command};

    use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};

    use super::*;

    #[test]
    fn a_child_inherits_no_file_that_was_left_open() {
        let open = File::open("/dev/null").unwrap();
        fcntl_setfd(&open, FdFlags::empty()).unwrap();
        close_inherited_files_on_exec();
        assert_eq!(fcntl_getfd(&open).unwrap(), FdFlags::CLOEXEC);
        let listed = Command::new("ls").arg("/proc/self/fd").output().unwrap();
        // `ls` itself opens the folder.
        assert_eq!(String::from_utf8_lossy(&listed.stdout), "0\n1\n2\n3\n");
    }
}
