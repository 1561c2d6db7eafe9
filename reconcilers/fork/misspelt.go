package fork

import (
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/reconcilers/fork/power"
	"switchyard.dev/routeserver/spelling"
)

// How alike two words are when one is taken for a misspelling of the other.
const (
	// shortestWord is the number of letters from which on a word can be misspelt:
	// shorter ones, such as "a" and "b" or "ro" and "rw", differ on purpose.
	shortestWord = 4
	// longWord is the number of letters from which on two of them may be wrong, and
	// not only one.
	longWord = 8
)

// checkNames returns a Problem when a patch names a container that is not there and that
// looks like a misspelling of one that is. before and next are the pod before and after
// the patch.
//
// A container without an image cannot be a new one. One with an image can, and then its
// name counts only in a strategic patch, which finds containers by their names; a merge
// or JSON patch adds one on purpose.
func checkNames(form string, before, next corev1.PodSpec, here patchPlace) *Problem {
	var names []string
	for _, c := range power.Containers(before) {
		names = append(names, c.Name)
	}
	for _, c := range power.Containers(next) {
		if slices.Contains(names, c.Name) || c.Image != "" && form != formStrategic {
			continue
		}
		meant := slices.IndexFunc(names, func(name string) bool {
			_, stays := power.ContainerNamed(next, name)
			return stays && isMisspelt(c.Name, name)
		})
		switch {
		case meant < 0:
		case c.Image == "":
			return problem(ReasonPatchFailed, "%s names container %q, which is not there: did you mean %q?", here, c.Name, names[meant])
		default:
			return problem(ReasonPatchFailed, "%s names container %q, which is not there: did you mean %q? "+
				"To add a new container, give it a name that is less alike", here, c.Name, names[meant])
		}
	}
	return nil
}

// isMisspelt reports whether name looks like a misspelling of meant: the same but for
// case and hyphens, or the same words but for a letter or two that is missing, added,
// wrong or swapped with its neighbour. Names that differ only in digits, such as
// "worker" and "worker2", are numbered on purpose.
func isMisspelt(name, meant string) bool {
	name, meant = strings.ToLower(name), strings.ToLower(meant)
	if strings.ReplaceAll(name, "-", "") == strings.ReplaceAll(meant, "-", "") {
		return true
	}
	if withoutDigits(name) == withoutDigits(meant) {
		return false
	}
	words, meantWords := strings.Split(name, "-"), strings.Split(meant, "-")
	if len(words) != len(meantWords) {
		return false
	}
	for i, word := range words {
		if longer := max(len(word), len(meantWords[i])); word != meantWords[i] &&
			(longer < shortestWord || spelling.Distance(word, meantWords[i], 2) > 1+longer/longWord) {
			return false
		}
	}
	return true
}

// withoutDigits returns a name without digits and hyphens.
func withoutDigits(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || unicode.IsDigit(r) {
			return -1
		}
		return r
	}, name)
}
