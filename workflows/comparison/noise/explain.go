package noise

import (
	"fmt"
	"strings"

	"switchyard.dev/eventbus/lists"
)

// longestShown is how many characters of a value are shown.
const longestShown = 60

// Explain returns two or three sentences: the place with what the baseline did in its runs and what the fork did, and what that means.
func (f Finding) Explain() string {
	where := f.Path
	if f.At != f.Path {
		where += " (at " + f.At + ")"
	}
	text := fmt.Sprintf("%s: %s. The baseline had %s; the fork had %s.", where, f.what(), inRuns(f.Baseline), inRuns(f.Fork))
	if f.Property != "value" && f.Property != "range" && f.Property != "stability" && f.Old != nil && f.New != nil {
		text += fmt.Sprintf(" For example %s and %s.", short(f.Old.String()), short(f.New.String()))
	}
	return text + " " + f.meaning()
}

func (f Finding) what() string {
	switch {
	case f.Operation == Remove:
		return "removed"
	case f.Operation == Add:
		return "added"
	case f.Property == "range":
		return "outside of the values of the baseline"
	case f.Property == "stability" && constant(f.Baseline):
		return "another random value in each run"
	case f.Property == "stability":
		return "no longer another value in each run"
	case f.Property == "value":
		return "another value"
	}
	return "another " + f.Property
}

func inRuns(all []string) string {
	if constant(all) {
		return fmt.Sprintf("%s in %s", short(all[0]), countOf(len(all)))
	}
	return strings.Join(lists.Map(all, short), ", ")
}

func countOf(n int) string {
	if n == 1 {
		return "its only run"
	}
	return fmt.Sprintf("all %d runs", n)
}

func short(s string) string {
	if s == "" {
		return "none"
	}
	if runes := []rune(s); len(runes) > longestShown {
		return string(runes[:longestShown]) + "…"
	}
	return s
}

func (f Finding) meaning() string {
	switch {
	case f.Colour == Yellow:
		return "This can be noise that the baseline's runs did not show: run both sides again."
	case f.Level == 0:
		return "Chance does not explain this."
	}
	return fmt.Sprintf("A place that varies by chance in each run looks like this in at most %.2g %% of comparisons.", 100*f.Level)
}
