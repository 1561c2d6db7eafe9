package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed mitmproxy.txt
var pinned string

// environment is the folder of the Python environment with mitmproxy.
func environment(cache string) string {
	return filepath.Join(cache, "mitmproxy", strings.TrimSpace(strings.ReplaceAll(pinned, "==", "-")))
}

// goreplayModule is built with its own go.mod. It needs cgo and the headers of libpcap.
const goreplayModule = "github.com/buger/goreplay@v1.3.2"

// replayer is the folder with goreplay, and in pcap what Debian's packages of libpcap have.
func replayer(cache string) string { return filepath.Join(cache, "goreplay-v1.3.2") }

const libraries = "pcap/usr/lib/x86_64-linux-gnu"

// install installs the peers that are needed, since the namespace of the measurements has no network.
func (s settings) install(ctx context.Context) error {
	var failed error
	if _, err := os.Stat(filepath.Join(environment(s.cache), "bin", "mitmdump")); err != nil && s.measures("cost", "highest") {
		venv := environment(s.cache)
		failed = errors.Join(execute(ctx, "", nil, "python3", "-m", "venv", venv), execute(ctx, "", nil, filepath.Join(venv, "bin", "pip"), "install", "-q", strings.TrimSpace(pinned)))
	}
	dir := replayer(s.cache)
	if _, err := os.Stat(filepath.Join(dir, "goreplay")); err != nil && s.measures("goreplay") {
		failed = errors.Join(failed, os.MkdirAll(dir, 0o700),
			execute(ctx, dir, nil, "sh", "-c", "apt-get download -q libpcap0.8 libpcap0.8-dev && for f in *.deb; do dpkg -x $f pcap; done"),
			execute(ctx, "", []string{"CGO_ENABLED=1", "GOBIN=" + dir, "CGO_CFLAGS=-I" + filepath.Join(dir, "pcap/usr/include"), "CGO_LDFLAGS=-L" + filepath.Join(dir, libraries)}, "go", "install", goreplayModule))
	}
	return failed
}

func execute(ctx context.Context, dir string, env []string, name string, arguments ...string) error {
	cmd := exec.CommandContext(ctx, name, arguments...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", cmd, err, out)
	}
	return nil
}
