package envoy

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// floors are the first releases of each line without CVE-2026-47774, in which a
// few kilobytes of HTTP/2 headers cost the proxy gigabytes. Lines after the
// first have it from their start.
var floors = []*version.Version{
	version.MustParseGeneric("1.38.1"), version.MustParseGeneric("1.37.3"),
	version.MustParseGeneric("1.36.7"), version.MustParseGeneric("1.35.11"),
}

// acceptable reports whether v is at or above the floor of its line.
func acceptable(v *version.Version) bool {
	newest := floors[0]
	return v.AtLeast(version.MajorMinor(newest.Major(), newest.Minor()+1)) ||
		slices.ContainsFunc(floors, func(floor *version.Version) bool {
			return v.AtLeast(floor) && v.Major() == floor.Major() && v.Minor() == floor.Minor()
		})
}

// "envoy  version: <commit>/1.40.0/Clean/RELEASE/BoringSSL"
var versionPattern = regexp.MustCompile(`version: [0-9a-f]*/(\d+\.\d+\.\d+)`)

// parseVersion reads what envoy --version prints.
func parseVersion(output string) (*version.Version, error) {
	m := versionPattern.FindStringSubmatch(output)
	if m == nil {
		return nil, fmt.Errorf("cannot read a version out of %q", strings.TrimSpace(output))
	}
	return version.ParseGeneric(m[1])
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
	if !acceptable(v) {
		return fmt.Errorf("%s is Envoy %s; at least %v of its line is needed", path, v, floors)
	}
	return nil
}
