// Package modules builds programs of other projects from their Go modules.
package modules

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// modules are the programs that come from Go modules: each is built in its own module, with what
// it pins.
var modules = map[string]struct{ module, pkg string }{
	"chisel": {"github.com/jpillora/chisel@v1.10.1", "."},
	"frps":   {"github.com/fatedier/frp@v0.61.0", "./cmd/frps"},
	"frpc":   {"github.com/fatedier/frp@v0.61.0", "./cmd/frpc"},
}

// Build returns the path of a program of a module. It is built once for each cache.
func Build(cache, name string) (string, error) {
	path := filepath.Join(cache, name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	from := modules[name]
	out, err := exec.Command("go", "mod", "download", "-json", from.module).Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", from.module, err)
	}
	_, dir, _ := strings.Cut(string(out), `"Dir": "`)
	dir, _, _ = strings.Cut(dir, `"`)
	cmd := exec.Command("go", "build", "-C", dir, "-trimpath", "-o", path, from.pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=mod")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", name, err, out)
	}
	return path, nil
}
