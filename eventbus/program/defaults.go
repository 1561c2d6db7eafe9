package program

import (
	"flag"
	"fmt"
)

// DefaultsVariable is the environment variable with the version of the defaults. The chart sets it.
const DefaultsVariable = "SWITCHYARD_DEFAULTS"

// Defaults is a version of the defaults of settings that are not given. It changes only where a
// stricter default would stop clients that an earlier release served.
type Defaults int

const (
	// Earlier: the installation comes from a chart that had no version of defaults.
	Earlier Defaults = 1
	// Current: the installation began with this release or a later one.
	Current Defaults = 2
)

// Current reports whether the strict defaults of this release apply.
func (d Defaults) Current() bool { return d >= Current }

// ReadDefaults returns the version that the environment names; Current if it names none.
func ReadDefaults(getenv func(string) string) (Defaults, error) {
	return ParseDefaults(getenv(DefaultsVariable))
}

// ParseDefaults reads a version as text; Current for an empty one. Versions of a later release are
// refused.
func ParseDefaults(text string) (Defaults, error) {
	switch text {
	case "1":
		return Earlier, nil
	case "", "2":
		return Current, nil
	}
	return Current, fmt.Errorf("%s is %q: this release knows the versions 1 and 2 of its defaults", DefaultsVariable, text)
}

// AcceptPlain adds the flag accept-plain, which is false by default with the current defaults. The
// caller calls the returned function after it has parsed flags, with whether the program has a
// certificate: without one and without the flag it takes plain connections.
func AcceptPlain(flags *flag.FlagSet, d Defaults, accept *bool, usage string) (parsed func(certificate bool)) {
	flags.BoolVar(accept, "accept-plain", !d.Current(), usage)
	return func(certificate bool) {
		given := false
		flags.Visit(func(f *flag.Flag) { given = given || f.Name == "accept-plain" })
		*accept = *accept || !certificate && !given
	}
}
