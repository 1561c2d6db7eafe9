// Package peers compares answers in the ways that the comparison is measured beside: a plain diff, Diffy's rule, traffic-diff, and
// the two that need no answers.
package peers

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"switchyard.dev/tests/comparison/corpus"
)

// Judge returns the red paths of a case, from k runs of each side.
type Judge func(c corpus.Case, k int) []string

// Always reports each unit.
func Always(c corpus.Case, _ int) (red []string) {
	for _, u := range c.Units {
		red = append(red, u.Path)
	}
	return red
}

// Never reports none.
func Never(corpus.Case, int) []string { return nil }

// Plain compares the first answers of both sides.
func Plain(c corpus.Case, _ int) []string {
	return slices.Collect(maps.Keys(Differ(c.Baseline[0], c.Fork[0])))
}

// Diffy is the rule of Diffy: a path is red if the candidate differs from the primary clearly more often than the primary from the
// secondary, which runs the same code: by more than 20 percent of both, and in more than 0.03 percent of the requests. Primary and
// secondary are consecutive runs of the baseline.
func Diffy(c corpus.Case, k int) (red []string) {
	raw, noise := map[string]int{}, map[string]int{}
	for i := range k {
		for path := range Differ(c.Baseline[i], c.Fork[i]) {
			raw[path]++
		}
		for path := range Differ(c.Baseline[i], c.Baseline[(i+1)%k]) {
			noise[path]++
		}
	}
	for path, r := range raw {
		n := noise[path]
		if difference := float64(r - n); difference > 0 && 100*difference/float64(r+n) > 20 && 100*difference/float64(k) > 0.03 {
			red = append(red, path)
		}
	}
	return red
}

// Differ returns the paths at which two answers differ; elements of lists are *.
func Differ(a, b corpus.Answer) map[string]bool {
	paths := map[string]bool{}
	if a.Status != b.Status {
		paths["status"] = true
	}
	for name := range a.Header {
		if a.Header[name] != b.Header[name] {
			paths["header/"+name] = true
		}
	}
	differ("body", a.Decoded(), b.Decoded(), paths)
	return paths
}

func differ(path string, a, b any, paths map[string]bool) {
	switch x := a.(type) {
	case map[string]any:
		if y, is := b.(map[string]any); is {
			for name := range x {
				if _, is := y[name]; !is {
					paths[path+"/"+name] = true
					continue
				}
				differ(path+"/"+name, x[name], y[name], paths)
			}
			for name := range y {
				if _, is := x[name]; !is {
					paths[path+"/"+name] = true
				}
			}
			return
		}
	case []any:
		if y, is := b.([]any); is {
			if len(x) != len(y) {
				paths[path] = true
			}
			for i := range min(len(x), len(y)) {
				differ(path+"/*", x[i], y[i], paths)
			}
			return
		}
	}
	if text(a) != text(b) {
		paths[path] = true
	}
}

func text(value any) string {
	if s, is := value.(string); is {
		return strconv.Quote(s)
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(encoded)
}
