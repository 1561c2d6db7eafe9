package fork

import (
	"regexp"
	"slices"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
)

// nameOfFork matches the variables of another fork, and in them the name of its baseline.
var nameOfFork = regexp.MustCompile(`\{\{\s*\.forks\.([^{}\s]+)\.service\.(?:host|port)\s*\}\}`)

// Siblings returns the baselines, as kind/namespace/name, of the other forks that templates
// among the patches name, in order.
func Siblings(patches []crdv1.Patch) []string {
	var names []string
	for _, p := range patches {
		if form, err := theForm(p); err == nil && p.Template {
			names = append(names, siblings(form.content)...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func siblings(content []byte) []string {
	return lists.Map(nameOfFork.FindAllSubmatch(content, -1), func(found [][]byte) string { return string(found[1]) })
}
