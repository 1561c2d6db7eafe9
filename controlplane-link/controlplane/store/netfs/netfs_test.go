package netfs_test

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"switchyard.dev/controlplane-link/controlplane/store/netfs"
)

func TestNames(t *testing.T) {
	for magic, want := range map[int64]string{
		unix.NFS_SUPER_MAGIC: "NFS", unix.SMB_SUPER_MAGIC: "SMB", unix.SMB2_SUPER_MAGIC: "SMB2", unix.CIFS_SUPER_MAGIC: "CIFS",
		unix.AFS_SUPER_MAGIC: "AFS", unix.AFS_FS_MAGIC: "AFS", unix.CODA_SUPER_MAGIC: "Coda", unix.CEPH_SUPER_MAGIC: "Ceph",
		unix.OCFS2_SUPER_MAGIC: "OCFS2", unix.V9FS_MAGIC: "9P", unix.FUSE_SUPER_MAGIC: "FUSE",
		unix.EXT4_SUPER_MAGIC: "", unix.XFS_SUPER_MAGIC: "", unix.BTRFS_SUPER_MAGIC: "", unix.TMPFS_MAGIC: "", unix.OVERLAYFS_SUPER_MAGIC: "",
	} {
		if got := netfs.Name(uint32(magic)); got != want { //nolint:gosec // magic numbers have 32 bits
			t.Errorf("%#x is %q, want %q", magic, got, want)
		}
	}
}

func TestOfAFolder(t *testing.T) {
	if name, err := netfs.Of(t.TempDir()); err != nil || name != "" {
		t.Errorf("a temporary folder: %q, %v", name, err)
	}
	if _, err := netfs.Of(t.TempDir() + "/none"); err == nil || !strings.Contains(err.Error(), "/none") {
		t.Error(err)
	}
}
