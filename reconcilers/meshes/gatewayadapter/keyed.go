package gatewayadapter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/meshes"
	"switchyard.dev/reconcilers/meshes/gatewayapi"
	"switchyard.dev/reconcilers/policies"
)

// Pauses after failures with a key, and shownWithin, after which the cache should show a written
// object: it may have been deleted before the cache saw it.
const (
	firstPause, longestPause = 200 * time.Millisecond, 15 * time.Second
	shownWithin              = time.Second
)

// inputs are the inputs of the routes of a key.
type inputs struct {
	managed  []gatewayapi.Managed
	governed map[types.NamespacedName]string
	headers  []string
	// ports are those of the sandboxes' Services.
	ports    map[types.NamespacedName][]int32
	revision int
	derived  []string
	// taken are names that the key wants and another key owns.
	taken   map[gatewayapi.Object]string
	elected bool
}

// keyed is a routing key.
type keyed struct {
	from inputs
	// waiting are the Targets for which nothing is derived yet.
	waiting []meshes.Target
	result  gatewayapi.Result
	// asks are the names of routes that the key wants, including those that another key owns.
	asks map[gatewayapi.Object]bool
	// behind are the routes that are out of date, with the status and message of each.
	behind map[gatewayapi.Object]behind
	// wrote are those that this process made, or made this key's again, and the cache has not shown
	// as such, by UID.
	wrote map[gatewayapi.Object]types.UID
	// failures are those in a row. again is when to try again; zero for not at all.
	failures int
	again    time.Time
	// repairs counts consecutive writes after changes of derived objects alone; repaired is the time of
	// the last.
	repairs  int
	repaired time.Time
}

// behind is how far a route is that is not as it should be.
type behind struct{ status, message string }

// mostRepairs is how many consecutive repairs of a key are immediate, each at most twice longestPause
// after the one before. Otherwise a cluster policy or a controller that changes each write of the
// operator would make it write continuously.
const mostRepairs = 8

// due reports whether the key has to be synced.
func (k *keyed) due(now inputs, at time.Time) bool {
	if !k.again.IsZero() && !at.Before(k.again) {
		return true
	}
	if k.repairs > mostRepairs {
		now.derived = k.from.derived
	}
	return !reflect.DeepEqual(k.from, now)
}

// repairing reports whether only the derived objects have changed.
func (k *keyed) repairing(now inputs) bool {
	before := k.from
	before.derived = now.derived
	return reflect.DeepEqual(before, now) && !slices.Equal(k.from.derived, now.derived)
}

// bring derives the routes of a key and, on the leader, writes those that are out of date. It does not
// change the objects of other keys.
func (a *Adapter) bring(ctx context.Context, c *cluster, key string, k *keyed, now inputs) {
	repairing := k.repairing(now) || k.repairs > mostRepairs
	k.from, k.again = now, time.Time{}
	current := gatewayapi.Routes{}
	for _, r := range c.derived[key] {
		delete(k.wrote, r.object)
		r.addTo(&current)
	}
	k.result = gatewayapi.Derive(a.input(c, k, now, current))
	changes := gatewayapi.Plan(current, k.result.Routes, c.releases...)
	k.behind, k.asks = map[gatewayapi.Object]behind{}, map[gatewayapi.Object]bool{}
	pending := behind{meshes.StatusPending, "It is being written."}
	if !now.elected {
		pending.message = "The elected replica writes it."
	}
	for _, o := range together(k.result.Routes) {
		k.asks[objectOf(o)] = true
	}
	for _, o := range slices.Concat(together(changes.Create), together(changes.Update)) {
		k.behind[objectOf(o)] = pending
	}
	if now.elected {
		repaired := slices.Collect(maps.Keys(k.behind))
		k.settle(a.logger, key, a.writeAll(ctx, c, key, k, changes.Delete))
		k.count(repairing, repaired)
	}
	for _, object := range k.result.Refused {
		k.asks[object] = true
	}
}

// writeAll writes the routes that are out of date, and deletes those that are not wanted.
func (a *Adapter) writeAll(ctx context.Context, c *cluster, key string, k *keyed, remove gatewayapi.Routes) error {
	var errs []error
	for _, o := range together(k.result.Routes) {
		if _, is := k.behind[objectOf(o)]; is {
			errs = append(errs, a.write(ctx, c, k, o))
		}
	}
	// Routes go before the policies of their backends.
	for _, o := range slices.Backward(together(remove)) {
		if by, wanted := a.wanted[objectOf(o)]; wanted && by != key {
			continue // It was relabelled for this key; the sync of its own key repairs it.
		}
		errs = append(errs, a.delete(ctx, objectOf(o), o.GetUID()))
	}
	for object, uid := range k.wrote { // Written objects that are not in the cache yet.
		if !k.asks[object] {
			errs = append(errs, a.delete(ctx, object, uid))
			delete(k.wrote, object)
		}
	}
	return errors.Join(errs...)
}

// settle records the result of the writes of a key.
func (k *keyed) settle(logger *slog.Logger, key string, err error) {
	if err == nil {
		k.failures = 0
		if len(k.wrote) > 0 {
			k.again = time.Now().Add(shownWithin)
		}
		return
	}
	k.failures++
	pause := pauseAfter(k.failures)
	k.again = time.Now().Add(pause)
	logger.Warn("routes of a routing key cannot be written; retrying", "key", key, "error", err, "in", pause)
}

// count counts a repair of some routes, if it was one. After mostRepairs in a row it delays the next,
// and sets the status of the repaired routes to failed.
func (k *keyed) count(repairing bool, repaired []gatewayapi.Object) {
	switch {
	case !repairing, len(repaired) == 0 && k.repairs > mostRepairs, len(repaired) > 0 && time.Since(k.repaired) > 2*longestPause:
		k.repairs = 0
	}
	if !repairing || len(repaired) == 0 {
		return
	}
	k.repairs, k.repaired = k.repairs+1, time.Now()
	if k.repairs <= mostRepairs {
		return
	}
	k.again = time.Now().Add(pauseAfter(k.repairs - mostRepairs))
	for _, object := range repaired {
		if _, failed := k.behind[object]; !failed {
			k.behind[object] = behind{meshes.StatusFailed, fmt.Sprintf(
				"Something changes %s as often as it is written. Find in its metadata.managedFields, or among the admission policies of the cluster, what does, and have that leave it alone.", object)}
		}
	}
}

// pauseAfter is how long to wait after so many failures in a row.
func pauseAfter(failures int) time.Duration {
	if failures >= 8 {
		return longestPause
	}
	return min(firstPause<<(failures-1), longestPause)
}

// input returns the input of gatewayapi.Derive for a key.
func (a *Adapter) input(c *cluster, k *keyed, now inputs, current gatewayapi.Routes) gatewayapi.Input {
	in := gatewayapi.Input{
		Managed: now.managed, Grants: c.grants, VirtualServices: now.governed, Taken: now.taken, CustomHeaders: now.headers,
		PreservedLabels: a.config.Settings.PreservedLabels, PreservedAnnotations: a.config.Settings.PreservedAnnotations, Order: a.config.Settings.order(),
		Policies: c.policies, Plugins: c.salient.plugins, RefusePolicies: a.config.Settings.Policies != policies.Report,
		Releases: c.releases,
		Services: append(services(c.salient.ports), services(now.ports)...),
	}
	in.Routes.HTTP = append(append(in.Routes.HTTP, c.baselines.HTTP...), current.HTTP...)
	in.Routes.GRPC = append(append(in.Routes.GRPC, c.baselines.GRPC...), current.GRPC...)
	in.Routes.TLS = append(append(in.Routes.TLS, c.baselines.TLS...), current.TLS...)
	return in
}

// write writes one derived route, and records the result.
func (a *Adapter) write(ctx context.Context, c *cluster, k *keyed, want client.Object) error {
	object := objectOf(want)
	have := k.wrote[object]
	if r := c.all[object]; r != nil {
		have = r.meta.UID
	}
	uid, err := put(ctx, a.config.Client, want, have)
	switch {
	case err == nil:
		delete(k.behind, object)
		if r := c.all[object]; r == nil || !r.derivedFor(want.GetAnnotations()[crdv1.AnnotationRoutingKey]) {
			k.wrote[object] = uid
		}
		return nil
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		// The event of the other change triggers the next sync.
		delete(k.wrote, object)
		k.behind[object] = behind{meshes.StatusPending, "Another client has created or changed it since it was read. It will be read again."}
		return err
	}
	k.behind[object] = behind{meshes.StatusFailed, fmt.Sprintf("%s cannot be written: %v. Retrying.", object, err)}
	return err
}

// report returns the report of a Target.
func (k *keyed) report(c *cluster, m *gatewayapi.Managed) Report {
	out := Report{Synced: true, Mappings: m.Mappings}
	for _, u := range c.unreadable { // First: other messages advise objects that could overwrite it.
		if out.Lost == nil && mentions(u.content, m.TargetService) {
			out.Lost = new(condition.False(ReasonRouteUnreadable, fmt.Sprintf("%s cannot be read, so nothing is derived from it: %v. Write it in the form of %s.", u.object, u.err, gatewayv1.GroupVersion)))
		}
	}
	for _, f := range k.result.Findings {
		if f.Managed != m.Name {
			continue
		}
		switch {
		case !f.Problem:
			out.Notes = append(out.Notes, f.Message)
		case out.Lost == nil:
			out.Lost = new(condition.False(f.Reason, f.Message))
		}
	}
	if lost := k.withoutTLS(m.Name); lost != nil && out.Lost == nil {
		out.Lost = lost
	}
	if c.unreadTLS != "" {
		out.Notes = append(out.Notes, c.unreadTLS)
	}
	derived, within := false, false
	for _, match := range k.result.Matched[m.Name] {
		derived, within = derived || match.Derived != nil, within || match.WithinMesh()
		if match.Derived != nil && match.Status == gatewayapi.StatusDerived {
			k.follow(c, &match)
			if match.Status == ReasonNotAccepted && out.Lost == nil {
				out.Lost = new(condition.False(match.Status, match.Message))
			}
		}
		out.Matches = append(out.Matches, match)
	}
	if derived && !within {
		out.Notes = append(out.Notes, fmt.Sprintf("Requests from within the mesh reach the baseline: no route that refers to Service %s/%s has a Service as its parent.", m.Namespace, m.TargetService))
	}
	return out
}

// ReasonRouteUnreadable: a route does not match the schema known to this program.
const ReasonRouteUnreadable = "RouteUnreadable"

// follow sets the status of a match from the progress of its derived route.
func (k *keyed) follow(c *cluster, match *crdv1.MatchedObject) {
	say := func(status, message string) {
		match.Status = status
		if message != "" && match.Message != "" {
			message = match.Message + "\n" + message
		}
		if message != "" {
			match.Message = message
		}
	}
	if b, is := k.behind[*match.Derived]; is {
		say(b.status, b.message)
		return
	}
	baseline, derived := c.all[match.Baseline], c.all[*match.Derived]
	switch {
	case baseline == nil: // It has just gone, and the next sync reads that.
	case derived == nil && len(baseline.statuses) > 0:
		say(meshes.StatusPending, "")
	case derived != nil:
		if status, message := accepted(baseline, derived); status != "" {
			say(status, message)
		}
	}
}

// ReasonTLSNotDerived: a copy of a BackendTLSPolicy cannot be written.
const ReasonTLSNotDerived = "BackendTLSPolicyNotDerived"

// withoutTLS returns the condition that a copy of a BackendTLSPolicy for a GatewayAPIRoute cannot be
// written; nil if all can.
func (k *keyed) withoutTLS(managed string) *condition.Condition {
	for _, p := range k.result.Routes.TLS {
		if !slices.ContainsFunc(p.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Name == managed }) {
			continue
		}
		if b, is := k.behind[objectOf(p)]; is && b.status == meshes.StatusFailed {
			return new(condition.False(ReasonTLSNotDerived, fmt.Sprintf("%s does not apply to requests with the key, since its copy is not in place: %s", strings.Replace(p.Annotations[gatewayapi.AnnotationDerivedFrom], "/", " ", 1), b.message)))
		}
	}
	return nil
}

// together returns objects of all kinds, policies of backends before the routes to them.
func together(r gatewayapi.Routes) []client.Object {
	out := lists.Map(r.TLS, func(o *gatewayv1.BackendTLSPolicy) client.Object { return o })
	out = append(out, lists.Map(r.HTTP, func(o *gatewayv1.HTTPRoute) client.Object { return o })...)
	out = append(out, lists.Map(r.GRPC, func(o *gatewayv1.GRPCRoute) client.Object { return o })...)
	return out
}

// addTo adds it to those of its kind.
func (r *route) addTo(all *gatewayapi.Routes) {
	switch {
	case r.http != nil:
		all.HTTP = append(all.HTTP, r.http)
	case r.grpc != nil:
		all.GRPC = append(all.GRPC, r.grpc)
	default:
		all.TLS = append(all.TLS, r.tls)
	}
}

// objectOf identifies a route or a policy.
func objectOf(o client.Object) gatewayapi.Object {
	kind := HTTPRoutes.Kind
	switch o.(type) {
	case *gatewayv1.GRPCRoute:
		kind = GRPCRoutes.Kind
	case *gatewayv1.BackendTLSPolicy:
		kind = BackendTLSPolicies.Kind
	}
	return gatewayapi.Object{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}
}
