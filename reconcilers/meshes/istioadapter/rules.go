package istioadapter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/meshes/destinationrules"
	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/reconcilers/meshes/istioadapter/pacing"
)

// DestinationRules is the kind.
var DestinationRules = VirtualServices.GroupVersion().WithKind("DestinationRule")

// RulesDefinition is the name of the CustomResourceDefinition of DestinationRules.
const RulesDefinition = "destinationrules.networking.istio.io"

// ruleWrite bounds a write of a DestinationRule, which a VirtualService waits for.
const ruleWrite = 5 * time.Second

// foundRules are the DestinationRules of the cluster, of which none is changed.
type foundRules struct {
	objects []*unstructured.Unstructured
	// unread is why they are not known; nil when they are.
	unread error
	// failed is why a derived one could not be written.
	failed map[types.NamespacedName]string
}

// rules are the derived DestinationRules, wanted and existing.
type rules struct {
	wanted, have map[types.NamespacedName]*unstructured.Unstructured
	derived      map[types.NamespacedName]*destinationrules.Rule
	// hosts are those of all Services of sandboxes.
	hosts map[string]bool
	// findings are by the Service of the baseline, those about Sidecars too.
	findings map[types.NamespacedName][]istio.Finding
}

// rules returns the DestinationRules of the cluster; none where it lacks the kind.
func (a *Adapter) rules(ctx context.Context) foundRules {
	var out foundRules
	a.mu.Lock()
	out.failed = maps.Clone(a.ruleFailures)
	a.mu.Unlock()
	present, err := a.config.Kinds.Present(ctx, DestinationRules.GroupKind())
	if err != nil || !present {
		out.unread = err
		return out
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(DestinationRules.GroupVersion().WithKind(DestinationRules.Kind + "List"))
	if out.unread = a.config.Client.List(ctx, list, client.UnsafeDisableDeepCopy); out.unread != nil {
		return out
	}
	for i := range list.Items {
		out.objects = append(out.objects, &list.Items[i])
	}
	return out
}

// rulesFrom returns the derived DestinationRules that follow from those of owners. While these
// cannot be read, nothing is derived and nothing is deleted.
func (s *state) rulesFrom(f found) rules {
	out := rules{wanted: map[types.NamespacedName]*unstructured.Unstructured{}, have: map[types.NamespacedName]*unstructured.Unstructured{}, findings: map[types.NamespacedName][]istio.Finding{}}
	if s.trouble != nil || f.rules.unread != nil {
		for id := range s.services {
			if f.rules.unread != nil {
				out.findings[id] = []istio.Finding{{Reason: destinationrules.ReasonNotDerived, Service: id, Message: fmt.Sprintf(
					"DestinationRules cannot be read, so those for the host of Service %s do not apply to requests with the key: %v. Grant the operator get, list and watch on destinationrules.networking.istio.io.", id, f.rules.unread)}}
			}
		}
		return out
	}
	for _, o := range f.rules.objects {
		if destinationrules.Derived(o) {
			out.have[types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}] = o
		}
	}
	all := destinationrules.Derive(s.mesh.ClusterDomain(), f.services, s.virtualServices(), f.rules.objects)
	out.derived, out.findings, out.hosts = all.Wanted, all.Findings, destinationrules.Hosts(s.mesh.ClusterDomain(), f.services)
	for id, rule := range all.Wanted {
		out.wanted[id] = rule.Object
		if why := f.rules.failed[id]; why != "" && !out.current(id) {
			for _, of := range rule.Of {
				out.findings[of.Service] = append(out.findings[of.Service], istio.Finding{Reason: destinationrules.ReasonNotDerived, Service: of.Service, Key: of.Key, Lost: rule.TLS, Message: fmt.Sprintf(
					"DestinationRule %s for the host of Service %s does not apply to requests with the key: a copy of it for %s cannot be written (%s). Correct that, or copy it for that host yourself.",
					rule.From, of.Service, rule.Host, why)})
			}
		}
	}
	for service := range out.findings {
		slices.SortFunc(out.findings[service], func(a, b istio.Finding) int { return cmp.Compare(a.Message, b.Message) })
	}
	return out
}

// virtualServices returns the newest versions of the VirtualServices, sorted.
func (s *state) virtualServices() (out []*unstructured.Unstructured) {
	for _, k := range s.objects {
		out = append(out, k.have)
	}
	return sorted(out)
}

// sorted sorts objects by namespace and name, in place.
func sorted(all []*unstructured.Unstructured) []*unstructured.Unstructured {
	slices.SortFunc(all, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return all
}

// current reports whether a derived DestinationRule is up to date.
func (r rules) current(id types.NamespacedName) bool {
	want, have := r.wanted[id], r.have[id]
	return want == nil && have == nil || want != nil && have != nil && destinationrules.Same(have, want)
}

// routesTo reports whether a VirtualService has routes to a host.
func (s *state) routesTo(host string) bool {
	for _, k := range s.objects {
		if destinationrules.RoutesTo(k.have, host) {
			return true
		}
	}
	return false
}

// enqueueRules queues the derived DestinationRules that are out of date. One that failed waits for its
// own retry, and one that another program changes waits for a growing pause.
func (a *Adapter) enqueueRules(s *state, failed map[types.NamespacedName]string) {
	now := time.Now()
	all := maps.Clone(s.rules.wanted)
	maps.Copy(all, s.rules.have)
	for id := range failed {
		all[id] = nil
	}
	for id := range all {
		switch {
		case s.rules.current(id):
			if a.ruleFailed(id, ""); a.ruleWrites.Calm(id, now) {
				a.ruleQueue.Forget(id)
			}
		case failed[id] == "":
			switch a.ruleWrites.Next(id, s.rules.have[id], now) {
			case pacing.Now:
				a.ruleQueue.Add(id)
			case pacing.Later:
				a.ruleQueue.AddRateLimited(id)
			}
		}
	}
}

// workRules writes derived DestinationRules until ctx ends.
func (a *Adapter) workRules(ctx context.Context, running *sync.WaitGroup) {
	context.AfterFunc(ctx, a.ruleQueue.ShutDown)
	running.Go(func() { drain(ctx, a.ruleQueue, a.bringRule) })
}

// rulesFirst writes the derived DestinationRules of Services, before routes to their hosts are
// written. Those that fail are retried later: without them requests reach the sandbox too.
func (a *Adapter) rulesFirst(ctx context.Context, services map[types.NamespacedName]bool) {
	a.mu.Lock()
	s, failed := a.state, maps.Clone(a.ruleFailures)
	a.mu.Unlock()
	for id, rule := range s.rules.derived {
		concerned := slices.ContainsFunc(rule.Of, func(of destinationrules.Of) bool { return services[of.Service] })
		if !concerned || failed[id] != "" || s.rules.current(id) {
			continue
		}
		switch a.ruleWrites.Next(id, s.rules.have[id], time.Now()) {
		case pacing.Now:
			a.bringRule(ctx, id)
		case pacing.Later:
			a.ruleQueue.AddRateLimited(id)
		}
	}
}

// bringRule writes or deletes a derived DestinationRule if it is out of date. That of a sandbox that
// has been deleted is deleted once no VirtualService has routes to its host.
func (a *Adapter) bringRule(ctx context.Context, id types.NamespacedName) {
	a.ruleWrites.Begin(id)
	a.mu.Lock()
	s := a.state
	a.mu.Unlock()
	if s == nil || !a.Elected() || s.rules.current(id) {
		return
	}
	limited, stop := context.WithTimeout(ctx, ruleWrite)
	defer stop()
	have, err := s.rules.have[id], error(nil)
	switch rule := s.rules.derived[id]; {
	case rule != nil:
		err = a.applyRule(limited, rule)
	case !s.rules.hosts[destinationrules.HostOf(have)] && s.routesTo(destinationrules.HostOf(have)):
		return // The next sync deletes it.
	default:
		uid := have.GetUID()
		err = client.IgnoreNotFound(a.config.Client.Delete(limited, have.DeepCopy(), client.Preconditions{UID: &uid}))
	}
	switch {
	case err == nil:
		a.ruleFailed(id, "")
		a.ruleWrites.Wrote(id, have, s.rules.wanted[id], time.Now())
		a.config.Logger.Info("synced a derived DestinationRule", "namespace", id.Namespace, "name", id.Name)
	case ctx.Err() != nil:
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), errors.Is(err, errNoHost):
		a.ruleQueue.AddRateLimited(id)
	default:
		a.config.Logger.Warn("a derived DestinationRule cannot be written; retrying", "namespace", id.Namespace, "name", id.Name, "error", err)
		a.ruleFailed(id, err.Error())
		a.ruleQueue.AddRateLimited(id)
		a.Stir()
	}
}

// errNoHost: the Service of a sandbox is not found, so no rule is derived for its host yet.
var errNoHost = errors.New("the Service of the sandbox is not found")

// applyRule writes a derived DestinationRule. In the namespace of the sandbox's Service that owns
// it, so that it is deleted with the Service in any case.
func (a *Adapter) applyRule(ctx context.Context, rule *destinationrules.Rule) error {
	o := rule.Object.DeepCopy()
	if o.GetNamespace() == rule.To.Namespace {
		var of corev1.Service
		if err := a.config.Client.Get(ctx, rule.To, &of); apierrors.IsNotFound(err) {
			return errNoHost
		} else if err != nil {
			return fmt.Errorf("read Service %s: %w", rule.To, err)
		}
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: of.Name, UID: of.UID}})
	}
	return a.config.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), apply.FieldOwner, client.ForceOwnership)
}

// ruleFailed records why a derived DestinationRule could not be written; empty after a successful
// write.
func (a *Adapter) ruleFailed(id types.NamespacedName, why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if why == "" {
		delete(a.ruleFailures, id)
		return
	}
	a.ruleFailures[id] = why
}
