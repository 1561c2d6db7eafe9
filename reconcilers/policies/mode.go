package policies

import (
	"cmp"
	"fmt"
)

// Mode is what to do where a policy does not apply to what the operator creates.
type Mode string

const (
	// Refuse does not create it.
	Refuse Mode = "refuse"
	// Report creates it, and a condition names the policy.
	Report Mode = "report"
)

// ParseMode reads a Mode. The default is empty, and may be written auto.
func ParseMode(text string) (Mode, error) {
	switch m := Mode(text); m {
	case "", "auto":
		return "", nil
	case Refuse, Report:
		return m, nil
	}
	return "", fmt.Errorf("%q is none of auto, %s and %s", text, Refuse, Report)
}

// Settings say what to do about policies.
type Settings struct {
	// Routes and Workloads are what to do where a policy does not apply to a derived route, or to a
	// fork. Empty: the default.
	Routes, Workloads Mode
	// Kinds are further kinds of policies, beside the known ones.
	Kinds []Kind
}

// WithDefaults returns the settings without an empty Mode. current is false for an installation
// that keeps the behaviour of an earlier release.
func (s Settings) WithDefaults(current bool) Settings {
	if routes := Refuse; s.Routes == "" {
		if !current {
			routes = Report
		}
		s.Routes = routes
	}
	s.Workloads = cmp.Or(s.Workloads, Report)
	return s
}
