// Package meaning finds where a patched pod differs from its author's probable intent: the order of
// variables, labels that the pod reads and a fork does not have, and entries that a strategic merge adds
// where others were to be replaced.
package meaning

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Order returns the positions of the variables of a container in the order in which each $(NAME) is
// replaced: Kubernetes replaces references to variables that stand earlier in the list. A strategic merge places
// new variables first, so that they could not refer to others. References between two variables that
// the baseline has in the same form keep their order, and so their meaning. circle has
// the names of variables that refer to each other; order is nil then.
func Order(env, baseline []corev1.EnvVar) (order []int, circle []string) {
	place := map[string]int{}
	for i, e := range env {
		if _, twice := place[e.Name]; twice {
			return nil, nil // The last of a name counts, which depends on the order as it is.
		}
		place[e.Name] = i
	}
	unchanged := func(e corev1.EnvVar) bool {
		return slices.ContainsFunc(baseline, func(b corev1.EnvVar) bool {
			return b.Name == e.Name && b.Value == e.Value && (b.ValueFrom == nil) == (e.ValueFrom == nil)
		})
	}
	after := make([]map[int]bool, len(env)) // which others a variable stands after
	for i := range after {
		after[i] = map[int]bool{}
	}
	for i, e := range env {
		for _, name := range References(e.Value) {
			j, there := place[name]
			switch {
			case !there || i == j:
			case unchanged(e) && unchanged(env[j]) && stands(baseline, e.Name, name): // Not replaced in the baseline either.
				after[j][i] = true
			default:
				after[i][j] = true
			}
		}
	}
	placed := map[int]bool{}
	for len(order) < len(env) {
		next := -1
		for i := range env {
			if !placed[i] && !slices.ContainsFunc(keys(after[i]), func(j int) bool { return !placed[j] }) {
				next = i
				break
			}
		}
		if next < 0 {
			return nil, inCircle(env, after)
		}
		placed[next] = true
		order = append(order, next)
	}
	return order, nil
}

// has reports whether a list has a variable with this value.
func has(env []corev1.EnvVar, e corev1.EnvVar) bool {
	return slices.ContainsFunc(env, func(b corev1.EnvVar) bool {
		return b.Name == e.Name && b.Value == e.Value && (b.ValueFrom == nil) == (e.ValueFrom == nil)
	})
}

// OfThemselves returns the names of variables that refer to themselves, and did not in the baseline.
func OfThemselves(env, baseline []corev1.EnvVar) (names []string) {
	for _, e := range env {
		if slices.Contains(References(e.Value), e.Name) && !has(baseline, e) {
			names = append(names, e.Name)
		}
	}
	return names
}

// stands reports whether one variable precedes another one in a list.
func stands(env []corev1.EnvVar, first, second string) bool {
	index := func(name string) int {
		return slices.IndexFunc(env, func(e corev1.EnvVar) bool { return e.Name == name })
	}
	return index(first) < index(second)
}

// inCircle returns the names of variables that refer to themselves through others.
func inCircle(env []corev1.EnvVar, after []map[int]bool) (names []string) {
	for i := range env {
		reached := map[int]bool{}
		for next := keys(after[i]); len(next) > 0; next = next[1:] {
			if !reached[next[0]] {
				reached[next[0]] = true
				next = append(next, keys(after[next[0]])...)
			}
		}
		if reached[i] {
			names = append(names, env[i].Name)
		}
	}
	return names
}

func keys(set map[int]bool) []int {
	return slices.Sorted(maps.Keys(set))
}

// References returns the names in the $(NAME) of a value. $$ is an escaped $.
func References(value string) (names []string) {
	for {
		i := strings.IndexByte(value, '$')
		if i < 0 || i+1 >= len(value) {
			return names
		}
		end := strings.IndexByte(value[i:], ')')
		if value[i+1] != '(' || end < 0 {
			value = value[i+1:]
			if value[0] == '$' {
				value = value[1:]
			}
			continue
		}
		names, value = append(names, value[i+2:i+end]), value[i+end+1:]
	}
}
