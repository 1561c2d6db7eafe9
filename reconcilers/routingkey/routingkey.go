// Package routingkey decides which object has a routing key. Sandboxes (spec.id) and route groups
// (spec.routingKey) share one key space, since requests carry a key and no kind. Each declares its key
// with a RoutingConfig, named after the key (ConfigName), so two of them can never declare one key.
//
// Of several that claim a key, the one with the RoutingConfig has it, however old the others are, so
// that a later claim does not interrupt running workloads. Until there is such a RoutingConfig the
// oldest has it (Holder). After its deletion the next one gets it. The rule depends only on the
// objects, so every replica, and the next leader, decides alike; an object without the key creates
// nothing, and its existing objects are deleted. That is why Look trusts the cache only if own has the
// key according to it.
//
// Callers get the arguments of Holder from Look, call Index before the cache starts, and reconcile each
// claimant of a key when another one is created, changes its key or is deleted (see Claimants).
package routingkey

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/condition"
	headers "switchyard.dev/xds/routingkey"
)

// Indexes of the claimants of keys, by key.
const (
	// IndexSandbox finds sandboxes by spec.id.
	IndexSandbox = "spec.id"
	// IndexGroup finds route groups by spec.routingKey.
	IndexGroup = "spec.routingKey"
)

// ConfigName returns the name of the RoutingConfig of a key: the key itself if it is a legal name. Any
// other name is derived from the key and ends with a hash of it, so that no two derived names are
// equal. A key may be equal to a name that is derived from another key: the second one is refused the
// RoutingConfig (apply.Refusal).
func ConfigName(key string) string {
	if len(validation.IsDNS1123Subdomain(key)) == 0 {
		return key
	}
	return crdv1.ObjectName(crdv1.MaxObjectName, key)
}

// MaxLength is the maximum length of a key in bytes, from the maximum length of its subject on the
// routing log with any characters.
const MaxLength = 1000

// Problem returns the problem of an invalid key, and the remedy, to follow the name of the field in a
// sentence; empty if the key is valid. The rules are those of the headers that carry keys (see package
// xds/routingkey).
func Problem(key string) string {
	switch {
	case key == "":
		return "is empty: give it a routing key of its own"
	case len(key) > MaxLength:
		return fmt.Sprintf("has %d bytes, more than %d: give it a shorter one", len(key), MaxLength)
	}
	defects := headers.Check(key)
	if len(defects) < len(headers.Forms()) {
		return ""
	}
	return fmt.Sprintf("%q %s, so no header can carry it (%s). Choose another key", key, defects[0].Why, forms(defects))
}

// ReasonWarning is the reason of the condition Accepted of an object that is accepted with
// a Warning.
const ReasonWarning = "AcceptedWithWarning"

// Accepted returns the condition that an object with this key is accepted: with the
// Warning about the key, if there is one.
func Accepted(key, message string) condition.Condition {
	if warning := Warning(key); warning != "" {
		return condition.True(ReasonWarning, message+" "+warning)
	}
	return condition.True("Accepted", message)
}

// Warning returns which headers cannot carry a key that others can; empty when all can.
func Warning(key string) string {
	defects := headers.Check(key)
	if len(defects) == 0 || Problem(key) != "" {
		return ""
	}
	return fmt.Sprintf("Routing key %q %s, so requests cannot carry it in %s.", key, defects[0].Why, forms(defects))
}

// forms lists the header forms of some defects.
func forms(defects []headers.Defect) string {
	return strings.Join(lists.Map(defects, func(d headers.Defect) string { return string(d.Form) }), ", ")
}

// Claim is a sandbox or a route group that claims a key.
type Claim struct {
	// Kind and Name identify the object.
	Kind, Name string
	// UID distinguishes it from previous objects of that name.
	UID types.UID
	// Created is when it was made.
	Created metav1.Time
}

// OfSandbox is the claim of a sandbox.
func OfSandbox(s *crdv1.SignadotSandbox) Claim {
	return Claim{crdv1.KindSandbox, s.Name, s.UID, s.CreationTimestamp}
}

// OfGroup is the claim of a route group.
func OfGroup(g *crdv1.SignadotRouteGroup) Claim {
	return Claim{crdv1.KindRouteGroup, g.Name, g.UID, g.CreationTimestamp}
}

// String returns the name of the claimant, for messages.
func (c Claim) String() string { return c.Kind + " " + c.Name }

// compare returns the order of two claims.
func compare(a, b Claim) int {
	return cmp.Or(a.Created.Compare(b.Created.Time), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
}

// Claims returns all claims to a key, by the indexes, the oldest first; none for the empty key.
//
// +kubebuilder:rbac:groups=signadot.com,resources=signadotsandboxes;signadotroutegroups,verbs=get;list;watch
func Claims(ctx context.Context, c client.Reader, key string) ([]Claim, error) {
	if key == "" {
		return nil, nil
	}
	var sandboxes crdv1.SignadotSandboxList
	if err := c.List(ctx, &sandboxes, client.MatchingFields{IndexSandbox: key}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list SignadotSandboxes with id %q: %w", key, err)
	}
	var groups crdv1.SignadotRouteGroupList
	if err := c.List(ctx, &groups, client.MatchingFields{IndexGroup: key}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list SignadotRouteGroups with routing key %q: %w", key, err)
	}
	out := lists.Map(lists.Pointers(sandboxes.Items), OfSandbox)
	out = append(out, lists.Map(lists.Pointers(groups.Items), OfGroup)...)
	slices.SortFunc(out, compare)
	return out, nil
}

// Of returns the key that an object claims for itself: a sandbox, a route group, or any RoutingConfig.
// It is empty if it claims none.
func Of(o client.Object) string {
	switch o := o.(type) {
	case *crdv1.SignadotSandbox:
		return o.Spec.ID
	case *crdv1.SignadotRouteGroup:
		return o.Spec.RoutingKey
	case *crdv1.RoutingConfig:
		return o.RoutingKey()
	}
	return ""
}

// Index makes the indexes.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	byKey := func(o client.Object) []string {
		if key := Of(o); key != "" {
			return []string{key}
		}
		return nil
	}
	return errors.Join(
		indexer.IndexField(ctx, &crdv1.SignadotSandbox{}, IndexSandbox, byKey),
		indexer.IndexField(ctx, &crdv1.SignadotRouteGroup{}, IndexGroup, byKey))
}
