package routingkey

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/controller"
)

// Holder returns the claim that has the key: own, or one of the others, which may include own. It is
// the owner of config, the RoutingConfig with the name of the key; if no claim owns it, or config is
// nil, it is the oldest, then the first by name. One that is being deleted holds its key until its
// RoutingConfig is deleted, and then as long as it is the oldest.
func Holder(own Claim, others []Claim, config *crdv1.RoutingConfig) Claim {
	first := own
	for _, c := range append([]Claim{own}, others...) {
		if config != nil && (apply.IsOwned(config, c.UID) || c.restored(config)) {
			return c
		}
		if c.UID != first.UID && compare(c, first) < 0 {
			first = c
		}
	}
	return first
}

// Has reports whether own has the key, and no RoutingConfig of another owner has its name. The other
// arguments are those of Holder.
func Has(own Claim, others []Claim, config *crdv1.RoutingConfig) bool {
	return Holder(own, others, config).UID == own.UID && (config == nil || apply.IsOwned(config, own.UID) || own.restored(config))
}

// restored reports whether a RoutingConfig may have been created for the claim and restored from a
// backup without its owner. The claim adopts it if it is as it should be.
func (c Claim) restored(config *crdv1.RoutingConfig) bool {
	label := crdv1.LabelSandbox
	if c.Kind == crdv1.KindRouteGroup {
		label = crdv1.LabelRouteGroup
	}
	return apply.Restored(&metav1.ObjectMeta{Labels: map[string]string{label: crdv1.LabelValue(c.Name)}}, config)
}

// ReasonTaken is the reason of a condition of an object that claims a key held by another.
const ReasonTaken = "RoutingKeyTaken"

// Accept returns the condition that own has the key in its field, and that requests can carry it:
// otherwise no part of it could be reached. The other arguments are those of Holder.
func Accept(field, key string, own Claim, others []Claim, config *crdv1.RoutingConfig) condition.Condition {
	if problem := Problem(key); problem != "" {
		return condition.False(baseline.ReasonInvalidSpec, field+" "+problem)
	}
	if h := Holder(own, others, config); h.UID != own.UID {
		return condition.False(ReasonTaken, fmt.Sprintf("Routing key %q is held by %s, which had it first: choose another %s", key, h, field))
	}
	if !Has(own, others, config) {
		return condition.False(ReasonTaken, fmt.Sprintf("Routing key %q is held by %s, which %s did not make: choose another %s, or delete that object",
			key, maker(config), own, field))
	}
	return condition.True("Accepted", fmt.Sprintf("Routing key %q is held by this object.", key))
}

// maker returns the name of a RoutingConfig with its owner.
func maker(c *crdv1.RoutingConfig) string {
	name := "RoutingConfig " + c.Name
	if owner := metav1.GetControllerOfNoCopy(c); owner != nil {
		name += " of " + owner.Kind + " " + owner.Name
	}
	return name
}

// shownRivals is how many of those are named that claim a key which another one has.
const shownRivals = 3

// Rivals returns a sentence with the other claims to a routing key, for the status of its holder. It is
// empty if there are none. claims may include own.
func Rivals(own Claim, claims []Claim) string {
	names := lists.Map(lists.Filter(claims, func(c Claim) bool { return c.UID != own.UID }), Claim.String)
	if more := len(names) - shownRivals; more > 0 {
		names = append(names[:shownRivals], fmt.Sprintf("%d more", more))
	}
	if len(names) == 0 {
		return ""
	}
	return "Others waiting for this routing key: " + strings.Join(names, ", ") + "."
}

// Look returns the claims to the key that own claims, and the RoutingConfig with the name of the key,
// nil if there is none: the arguments of Holder. It reads the cache. If own does not have the key
// according to the cache, it reads again with live: a stale cache, as on a leader that has just
// started, may have a deleted rival and may lack own's objects, and own would delete running workloads
// if it wrongly concluded that it lost its key. Errors are to be retried.
func Look(ctx context.Context, cache, live client.Reader, key string, own Claim) ([]Claim, *crdv1.RoutingConfig, error) {
	claims, err := Claims(ctx, cache, key)
	if err != nil || key == "" {
		return nil, nil, err
	}
	config, err := configOf(ctx, cache, key)
	if err != nil || Has(own, claims, config) {
		return claims, config, err
	}
	if config, err = configOf(ctx, live, key); err != nil {
		return nil, nil, err
	}
	for {
		rival := Holder(own, claims, config)
		if rival.UID == own.UID {
			return claims, config, nil
		}
		if stands, err := claimed(ctx, live, key, rival); err != nil || stands {
			return claims, config, err
		}
		claims = slices.DeleteFunc(claims, func(c Claim) bool { return c.UID == rival.UID })
	}
}

// configOf reads the RoutingConfig with the name of a key; nil when there is none.
func configOf(ctx context.Context, c client.Reader, key string) (*crdv1.RoutingConfig, error) {
	config := &crdv1.RoutingConfig{}
	err := c.Get(ctx, client.ObjectKey{Name: ConfigName(key)}, config)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read RoutingConfig %s: %w", ConfigName(key), err)
	}
	return config, nil
}

// claimed reports whether the one that claims is there, in that life, and claims the key.
func claimed(ctx context.Context, live client.Reader, key string, c Claim) (bool, error) {
	var o client.Object = &crdv1.SignadotSandbox{}
	if c.Kind == crdv1.KindRouteGroup {
		o = &crdv1.SignadotRouteGroup{}
	}
	err := live.Get(ctx, client.ObjectKey{Name: c.Name}, o)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("see whether %s claims routing key %q: %w", c, key, err)
	}
	return err == nil && o.GetUID() == c.UID && Of(o) == key, nil
}

// Claimants returns a handler that maps a claimant of a key (see Of) to the others of a kind, so that
// one takes over when another gives the key up. kind is crdv1.KindSandbox or crdv1.KindRouteGroup.
func Claimants(c client.Reader, kind string) handler.EventHandler {
	return controller.Enqueue(func(ctx context.Context, o client.Object) []reconcile.Request {
		claims, err := Claims(ctx, c, Of(o))
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Cannot find who else claims a routing key", "key", Of(o))
			return nil
		}
		var out []reconcile.Request
		for _, claim := range claims {
			if claim.Kind == kind && claim.UID != o.GetUID() {
				out = append(out, reconcile.Request{NamespacedName: client.ObjectKey{Name: claim.Name}})
			}
		}
		return out
	})
}
