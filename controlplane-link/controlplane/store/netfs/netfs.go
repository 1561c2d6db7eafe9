// Package netfs recognises network file systems, on which file locks and shared memory do not work
// as SQLite requires.
package netfs

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// names are the network file systems by the magic number that statfs returns. FUSE is among them:
// most of its file systems are remote, and the number does not show which one it is.
var names = map[uint32]string{
	0x00006969: "NFS",
	0x0000517b: "SMB",
	0xfe534d42: "SMB2",
	0xff534d42: "CIFS",
	0x5346414f: "AFS",
	0x6b414653: "AFS",
	0x73757245: "Coda",
	0x00c36400: "Ceph",
	0x01161970: "GFS2",
	0x7461636f: "OCFS2",
	0x0bd00bd0: "Lustre",
	0x19830326: "BeeGFS",
	0x47504653: "GPFS",
	0x01021997: "9P",
	0x65735546: "FUSE",
	0x786f4256: "VirtualBox shared folder",
	0xbacbacbc: "VMware shared folder",
}

// Name returns the name of a network file system by its magic number; empty: it is none.
func Name(magic uint32) string { return names[magic] }

// Of returns the name of the network file system of a folder; empty: it is on none.
func Of(folder string) (string, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return "", fmt.Errorf("read the file system of %s: %w", folder, err)
	}
	return Name(uint32(s.Type)), nil //nolint:gosec // magic numbers have 32 bits
}
