package routing

import (
	"cmp"
	"slices"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// AnnotationDeclaredKey on a RoutingConfig is the key for which it has put a
// declaration on the log.
const AnnotationDeclaredKey = "signadot.com/declared-key"

// Holder returns which of some RoutingConfigs with one key has it. There is at least one.
func Holder(candidates ...*crdv1.RoutingConfig) *crdv1.RoutingConfig {
	return slices.MinFunc(candidates, func(a, b *crdv1.RoutingConfig) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// rank returns how much of a right a RoutingConfig has to its key, before its age counts;
// less is more.
func rank(c *crdv1.RoutingConfig) int {
	out := 0
	if c.Annotations[AnnotationDeclaredKey] != c.RoutingKey() {
		out += 2
	}
	if c.DeletionTimestamp != nil {
		out++
	}
	return out
}
