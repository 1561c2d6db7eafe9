package policies

import (
	"fmt"
	"regexp"
)

// Mode is the action if a policy does not apply to an object that the operator creates.
type Mode string

const (
	// Refuse does not create it.
	Refuse Mode = "refuse"
	// Report creates it, and a condition names the policy.
	Report Mode = "report"
)

// Settings configure the handling of policies.
type Settings struct {
	// Routes and Workloads are the actions if a policy does not apply to a derived route, or to a fork.
	// Empty: the default.
	Routes    Mode `json:"routes"`
	Workloads Mode `json:"workloads"`
	// Kinds are further kinds of policies, beside the known ones.
	Kinds []Kind `json:"kinds"`
	// PreservedLabels are RE2 expressions for keys of labels of baselines that all forks keep, so
	// that policies by these labels apply to forks.
	PreservedLabels []string `json:"-"`
}

// Auto is written for the default.
const Auto Mode = "auto"

// Validate returns an error that names the invalid value of the chart.
func (s Settings) Validate() error {
	for field, m := range map[string]Mode{"routes": s.Routes, "workloads": s.Workloads} {
		if m != "" && m != Auto && m != Refuse && m != Report {
			return fmt.Errorf("policies.%s is %q: write %s, %s or %s", field, m, Auto, Refuse, Report)
		}
	}
	for i, kind := range s.Kinds {
		if err := kind.Validate(); err != nil {
			return fmt.Errorf("policies.kinds[%d]: %w", i, err)
		}
	}
	for i, expression := range s.PreservedLabels {
		if _, err := regexp.Compile(expression); err != nil {
			return fmt.Errorf("forks.preservedLabels[%d] is not an RE2 expression: %w", i, err)
		}
	}
	return nil
}

// WithDefaults returns the settings with the default of each Mode that is left open. current is
// false for an installation that keeps the behaviour of an earlier release: it reports.
func (s Settings) WithDefaults(current bool) Settings {
	open := func(m Mode) bool { return m == "" || m == Auto }
	if open(s.Routes) && current {
		s.Routes = Refuse
	}
	if open(s.Routes) {
		s.Routes = Report
	}
	if open(s.Workloads) {
		s.Workloads = Report
	}
	return s
}
