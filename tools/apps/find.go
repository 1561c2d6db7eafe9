package apps

import (
	"context"
	"os/exec"
	"path/filepath"

	"switchyard.dev/tools/pinned"
)

// Apps are the programs on this machine.
type Apps struct {
	// Compiled is the directory of the Go programs, and Unpacked the root of a file system with the
	// content of Debian's packages.
	Compiled, Unpacked string
}

// Find returns the programs. It prepares those that are not in the cache. root is the directory of
// this repository. The error names the remedy.
func Find(ctx context.Context, root string) (a Apps, err error) {
	pins := pinned.Module{
		Name: "applications for tests/transparency", Folder: filepath.Join(root, "tools", "apps", "pinned"), Cache: "apps/go",
	}
	if a.Compiled, err = pins.Programs(ctx); err != nil {
		return Apps{}, err
	}
	a.Unpacked, err = debian(ctx)
	return a, err
}

// Clients returns the directory of third-party clients for tests of tunnels: grpcurl. They are
// pinned separately, so that tests of tunnels need not compile the other programs.
func Clients(ctx context.Context, root string) (string, error) {
	return pinned.Module{Name: "clients for tests of tunnels", Folder: filepath.Join(root, "tools", "apps", "clients"), Cache: "apps/clients"}.Programs(ctx)
}

// Go runs a program that was compiled: podinfo, go-httpbin, h2spec, server or client.
func (a Apps) Go(name string, args ...string) *exec.Cmd {
	return exec.CommandContext(context.Background(), filepath.Join(a.Compiled, name), args...)
}

// Debian runs a program by its path on a Debian system: usr/sbin/nginx.
func (a Apps) Debian(path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), filepath.Join(a.Unpacked, path), args...)
	cmd.Env = append(cmd.Environ(), "LD_LIBRARY_PATH="+filepath.Join(a.Unpacked, "usr/lib/x86_64-linux-gnu"))
	return cmd
}
