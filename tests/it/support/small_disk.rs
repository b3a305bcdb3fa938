//! A disk that is small, for servers that fill it.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::PROGRAM;

pub(crate) const MIB: u64 = 1 << 20;

/// A disk in memory, which only the processes that [`Self::enter`] starts see.
pub(crate) struct SmallDisk {
    /// Keeps the disk mounted between two servers.
    holder: Child,
    directory: tempfile::TempDir,
}

impl SmallDisk {
    /// `None` where the system lets nobody make a namespace, as in some containers.
    pub(crate) fn mount(bytes: u64) -> Option<Self> {
        let try_out = Command::new("unshare").args(["--map-root-user", "--mount", "true"]).status();
        if !try_out.is_ok_and(|status| status.success()) {
            eprintln!("no namespace can be made here: a full disk is not tried");
            return None;
        }
        let directory = tempfile::tempdir().expect("a directory");
        let mount = format!("mount -t tmpfs -o size={bytes} none \"$0\" && echo && exec sleep 600");
        let mut holder = Command::new("unshare");
        holder.args(["--map-root-user", "--mount", "sh", "-c", &mount]).arg(directory.path());
        let mut holder = holder.stdout(Stdio::piped()).spawn().expect("unshare runs");
        let mut said = [0];
        let out = holder.stdout.as_mut().expect("it is piped");
        std::io::Read::read_exact(out, &mut said).expect("the disk is mounted");
        Some(Self { holder, directory })
    }

    /// The beginning of a command that sees the disk.
    pub(crate) fn enter(&self) -> String {
        let id = self.holder.id();
        format!("nsenter --target {id} --user --mount --preserve-credentials --")
    }

    /// A data directory on it, as a command behind [`Self::enter`] names it.
    pub(crate) fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// The program on this disk: it takes the arguments of [`PROGRAM`], and another data directory.
    pub(crate) fn program(&self) -> PathBuf {
        let (enter, data) = (self.enter(), self.data());
        let text = format!(
            "#!/bin/sh\nexec {enter} {PROGRAM} serve --listen 127.0.0.1:0 --data-dir {}\n",
            data.display()
        );
        let path = self.directory.path().with_extension("sh");
        fs::write(&path, text).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
        path
    }

    /// A path on it, as this process names it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        let root = format!("/proc/{}/root{}", self.holder.id(), self.directory.path().display());
        PathBuf::from(root).join(name)
    }

    /// Fills it until so many MiB are left.
    pub(crate) fn fill(&self, left: u64) {
        let mut file = File::options().create(true).append(true).open(self.path("filler"));
        let file = file.as_mut().expect("a file");
        // The last piece does not fit as a whole.
        while self.free() > left * MIB && file.write_all(&[1; 1 << 12]).is_ok() {}
    }

    /// The free bytes.
    pub(crate) fn free(&self) -> u64 {
        let disk = rustix::fs::statvfs(self.path("")).expect("the disk is there");
        disk.f_bavail * disk.f_frsize
    }

    /// The reserve of the server, in MiB.
    pub(crate) fn reserve(&self) -> u64 {
        fs::metadata(self.path("data/reserve")).map_or(0, |file| file.len() / MIB)
    }

    /// Takes the filler away.
    pub(crate) fn empty(&self) {
        fs::remove_file(self.path("filler")).expect("it is there");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
        let _ = fs::remove_file(self.directory.path().with_extension("sh"));
    }
}
