package apps

import (
	"context"
	"os/exec"
	"path/filepath"

	"switchyard.dev/tools/pinned"
)

// Apps are the programs on this machine.
type Apps struct {
	// Compiled is the folder of the Go programs, and Unpacked the root of a file system
	// with what is in Debian's packages.
	Compiled, Unpacked string
}

// Find returns the programs, and makes those ready that are not in the cache. root is
// the folder of this repository. The error is one that says what to do.
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

// Clients returns the folder of clients that nobody here wrote, for tests of tunnels: grpcurl.
// They have pins of their own, so that who needs one compiles no more.
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
