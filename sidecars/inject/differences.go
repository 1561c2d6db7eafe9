package inject

import (
	"slices"
	"strings"
)

// Differences returns the settings that Outdated names as a phrase, such as "injected with another
// image of the sidecar and of the init container than now". A fault in a pod's own annotation,
// for which new pods are refused, is appended.
func Differences(names []string) string {
	var parts, rest []string
	of := map[string][]string{}
	for _, name := range names {
		noun, whose, found := strings.Cut(name, " of ")
		word := map[string]string{"image": "another image", "resources": "other resources"}[noun]
		switch {
		case strings.HasPrefix(name, "annotation "):
			rest = append(rest, name)
			continue
		case !found || word == "":
			parts = append(parts, "another "+name)
			continue
		case of[word] == nil:
			parts = append(parts, word)
		}
		of[word] = append(of[word], whose)
	}
	for i, part := range parts {
		if all := of[part]; all != nil {
			slices.SortFunc(all, func(a, b string) int { return -strings.Compare(a, b) }) // "the sidecar" is first
			parts[i] += " of " + strings.Join(all, " and of ")
		}
	}
	var phrases []string
	if len(parts) > 0 {
		phrases = append(phrases, "injected with "+strings.Join(parts, ", ")+" than now")
	}
	for _, fault := range rest {
		phrases = append(phrases, "new pods get no sidecar: "+fault)
	}
	return strings.Join(phrases, "; ")
}
