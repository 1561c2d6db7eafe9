package envoy

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// version is an Envoy release: major, minor, patch.
type version [3]int

func (v version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

// floors are the first releases of each line without CVE-2026-47774, in which a
// few kilobytes of HTTP/2 headers cost the proxy gigabytes. Lines after the
// first have it from their start.
var floors = []version{{1, 38, 1}, {1, 37, 3}, {1, 36, 7}, {1, 35, 11}}

// acceptable reports whether v is at or above the floor of its line.
func (v version) acceptable() bool {
	newest := floors[0]
	if v[0] != newest[0] || v[1] > newest[1] {
		return v[0] > newest[0] || v[0] == newest[0] && v[1] > newest[1]
	}
	for _, floor := range floors {
		if v[1] == floor[1] {
			return v[2] >= floor[2]
		}
	}
	return false
}

// "envoy  version: <commit>/1.40.0/Clean/RELEASE/BoringSSL"
var versionPattern = regexp.MustCompile(`version: [0-9a-f]*/(\d+)\.(\d+)\.(\d+)`)

// parseVersion reads what envoy --version prints.
func parseVersion(output string) (version, error) {
	m := versionPattern.FindStringSubmatch(output)
	if m == nil {
		return version{}, fmt.Errorf("cannot read a version out of %q", strings.TrimSpace(output))
	}
	var v version
	for i := range v {
		n, err := strconv.Atoi(m[i+1])
		if err != nil {
			return version{}, fmt.Errorf("version %q: %w", m[0], err)
		}
		v[i] = n
	}
	return v, nil
}

// check runs the binary and reports whether its version will do.
func check(ctx context.Context, path string) error {
	out, err := exec.CommandContext(ctx, path, "--version").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s --version: %w: %s", path, err, strings.TrimSpace(string(out)))
	}
	v, err := parseVersion(string(out))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if !v.acceptable() {
		return fmt.Errorf("%s is Envoy %s; at least %v of its line is needed", path, v, floors)
	}
	return nil
}
