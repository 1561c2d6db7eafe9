package spec

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// noVersion is the version of a plugin without a version in its name.
const noVersion = "0.0.0"

// PluginName names one version of a plugin.
type PluginName struct {
	// Bare is the name without the version.
	Bare string
	// Version is a semantic version; empty if none is named.
	Version string
}

// bare matches the name of a plugin.
var bare = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9._-]*[a-zA-Z0-9])?$`)

// Maximum lengths of the name of a plugin, and of its version.
const (
	maxBare    = 63
	maxVersion = 128
)

// ParsePluginName reads name or name@version. The text of the error is the end of a sentence.
func ParsePluginName(text string) (PluginName, error) {
	name, of, versioned := strings.Cut(text, "@")
	if len(name) > maxBare || !bare.MatchString(name) {
		return PluginName{}, fmt.Errorf("is %.200q; the name of a plugin has at most %d letters, digits, -, _ and ., and begins and ends with a letter or digit", text, maxBare)
	}
	if versioned {
		if len(of) > maxVersion {
			return PluginName{}, fmt.Errorf("has a version of %d characters; it can have %d", len(of), maxVersion)
		}
		v, err := version.ParseSemantic(of)
		if err != nil {
			return PluginName{}, fmt.Errorf("is %q; the part after @ must be a semantic version, such as 1.2.0", text)
		}
		of = v.String()
	}
	return PluginName{name, of}, nil
}

// Defaulted returns the name with the default version if it names none.
func (n PluginName) Defaulted() PluginName {
	n.Version = cmp.Or(n.Version, noVersion)
	return n
}

// String returns the name as people see it: version 0.0.0 is not shown.
func (n PluginName) String() string {
	if n.Version == "" || n.Version == noVersion {
		return n.Bare
	}
	return n.Bare + "@" + n.Version
}

// NewestFirst sorts names by plugin, and each plugin's by version, the highest first.
func NewestFirst(names []PluginName) {
	slices.SortFunc(names, func(a, b PluginName) int {
		if a.Bare != b.Bare {
			return strings.Compare(a.Bare, b.Bare)
		}
		return b.compare(a)
	})
}

// compare compares versions, as strings.Compare does.
func (n PluginName) compare(other PluginName) int {
	v, err := version.ParseSemantic(n.Defaulted().Version)
	order, otherErr := 0, err
	if err == nil {
		order, otherErr = v.Compare(other.Defaulted().Version)
	}
	if otherErr != nil || order == 0 { // they differ only in ignored parts, such as build metadata
		return strings.Compare(n.Version, other.Version)
	}
	return order
}

// Next returns the name with the patch version that comes after its own.
func (n PluginName) Next() PluginName {
	if v, err := version.ParseSemantic(n.Defaulted().Version); err == nil {
		n.Version = fmt.Sprintf("%d.%d.%d", v.Major(), v.Minor(), v.Patch()+1)
	}
	return n
}
