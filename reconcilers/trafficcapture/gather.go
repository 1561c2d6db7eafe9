package trafficcapture

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/fork/power"
	"switchyard.dev/reconcilers/fork/services"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/sidecars/traffic/members"
	"switchyard.dev/sidecars/traffic/ports"
)

// gather reads what counts for a capture.
//
// +kubebuilder:rbac:groups=signadot.com,resources=forkedworkloads;signadotexternalworkloads;virtualworkloads;signadotsandboxes;routingconfigs,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=services;pods,verbs=get;list;watch
func (r *Reconciler) gather(ctx context.Context, c *crdv1.TrafficCapture) (Input, error) {
	in := Input{Capture: c, Now: metav1.NewTime(r.config.Now().UTC()), Disabled: r.config.Disabled}
	if why := Outside(r.config.Namespaces, c.Namespace); why != "" { // the cache has no pods there
		in.Disabled = why
		return in, nil
	}
	sandbox := &crdv1.SignadotSandbox{}
	err := r.config.Client.Get(ctx, client.ObjectKey{Name: c.Spec.Sandbox}, sandbox)
	if client.IgnoreNotFound(err) != nil {
		return in, fmt.Errorf("read SignadotSandbox %s: %w", c.Spec.Sandbox, err)
	}
	if err == nil {
		in.Sandbox = sandbox
	}
	if in.Workstation, err = r.workstation(ctx, in.Sandbox, c.Spec.Override); err != nil {
		return in, err
	}
	all, err := publish.Members(ctx, r.config.Client, client.InNamespace(c.Namespace))
	if err != nil {
		return in, fmt.Errorf("read the members of sandboxes in namespace %s: %w", c.Namespace, err)
	}
	var captures crdv1.TrafficCaptureList
	if err := r.config.Client.List(ctx, &captures, client.InNamespace(c.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return in, fmt.Errorf("list the TrafficCaptures of namespace %s: %w", c.Namespace, err)
	}
	for _, f := range lists.Map(all, memberOf) {
		if !c.AttachedTo(f.name()) && !names(c, in.Sandbox, f.member()) {
			continue
		}
		for _, o := range lists.Pointers(captures.Items) {
			if o.UID != c.UID && o.AttachedTo(f.name()) {
				f.Others = append(f.Others, o)
			}
		}
		if err := r.read(ctx, c, &f); err != nil {
			return in, err
		}
		in.Forks = append(in.Forks, f)
	}
	if r.config.Receivers != nil && len(in.Forks) > 0 {
		if in.Counts, err = r.config.Receivers.Counts(ctx, c.Namespace, c.Name); err != nil {
			in.Counts, in.Trouble = nil, err.Error()
		}
	}
	return in, nil
}

// names reports whether a capture is of a member of this sandbox, which may be nil. One without a baseline receives no
// requests with the key.
func names(c *crdv1.TrafficCapture, sandbox *crdv1.SignadotSandbox, m crdv1.Member) bool {
	at, routed := m.BaselineRef()
	of := members.Member{ObjectRef: at}
	switch m := m.(type) {
	case *crdv1.SignadotExternalWorkload:
		of.Given = m.Spec.Name
	case *crdv1.VirtualWorkload:
		of.Given = m.Spec.Name
	}
	return routed && sandbox != nil && apply.IsOwned(m, sandbox.UID) && (c.Spec.Workload == "" || c.Spec.Workload == m.GetName() || of.Is(c.Spec.Workload))
}

// read reads what counts for a member.
func (r *Reconciler) read(ctx context.Context, c *crdv1.TrafficCapture, f *Fork) error {
	if c.Spec.Override != nil && f.Workload == nil {
		f.Unserved = f.String() + " has no override: only forks have. Name a fork in spec.workload."
	}
	if f.Unserved != "" {
		return nil
	}
	var own corev1.ServiceList
	m := f.member()
	if err := r.config.Client.List(ctx, &own, client.InNamespace(m.GetNamespace()), client.MatchingFields{apply.IndexOwner: string(m.GetUID())}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the Services of %s: %w", f, err)
	}
	if err := r.readRouting(ctx, f); err != nil {
		return err
	}
	if slices.ContainsFunc(f.Routing, func(r routing.Routing) bool { return len(r.Mesh) > 0 }) {
		all, err := baseline.ServicesIn(ctx, r.config.Client, m.GetNamespace())
		if err != nil {
			return err
		}
		f.Headless = headless(m.RoutingInfo(), all)
	}
	if f.Workload == nil {
		return r.readOther(ctx, c, f, own.Items)
	}
	f.Seconds = r.seconds(ctx, own.Items, c.Spec.Override != nil)
	return r.readFork(ctx, c, f, own.Items)
}

// headless returns which of the mapped Services of a baseline have no address; none if all are so.
func headless(info *crdv1.WorkloadRoutingInfo, all []corev1.Service) (out []string) {
	if info == nil {
		return nil
	}
	for _, m := range info.Services {
		if slices.ContainsFunc(all, func(s corev1.Service) bool { return s.Name == m.From && s.Spec.ClusterIP == corev1.ClusterIPNone }) {
			out = append(out, m.From)
		}
	}
	if len(out) == len(info.Services) {
		return nil
	}
	return out
}

// readRouting reads how requests reach a member.
func (r *Reconciler) readRouting(ctx context.Context, f *Fork) error {
	configs, err := member.NamedBy(ctx, r.config.Client, f.member())
	if err != nil {
		return err
	}
	for i := range configs {
		var members []crdv1.Member
		for _, m := range routing.Named(&configs[i]) {
			one, err := member.Get(ctx, r.config.Client, m.Kind, m.Namespace, m.Name)
			if err != nil {
				return err
			}
			members = append(members, one)
		}
		f.Routing = append(f.Routing, routing.Of(&configs[i], members, r.config.KeyHeaders))
	}
	return nil
}

// readFork reads what counts for a fork with these Services.
func (r *Reconciler) readFork(ctx context.Context, c *crdv1.TrafficCapture, f *Fork, own []corev1.Service) error {
	w := f.Workload
	var pods corev1.PodList
	if err := r.config.Client.List(ctx, &pods, client.InNamespace(w.Namespace), client.MatchingLabels{crdv1.LabelForkedWorkload: crdv1.LabelValue(w.Name)}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the pods of ForkedWorkload %s/%s: %w", w.Namespace, w.Name, err)
	}
	f.Pods = pods.Items
	if w.Status.Fork == nil || w.Status.Fork.ObjectRef == nil {
		return nil
	}
	live, err := baseline.Read(ctx, r.config.Client, *w.Status.Fork.ObjectRef)
	if err != nil || live == nil {
		return err
	}
	f.readServices(c, own, live.Template.Spec)
	if c.Redirects(w.Name) == nil && len(f.Ports) > 0 {
		f.Policy, err = r.policy(ctx, w, *live.Template, f.Ports)
	}
	return err
}

// readServices determines the ports that can be recorded, and the Services that have one. own are all Services of the
// fork with this pod.
func (f *Fork) readServices(c *crdv1.TrafficCapture, own []corev1.Service, pod corev1.PodSpec) {
	listening := map[int32]int32{} // the application's port
	for _, t := range append([]*crdv1.TrafficCapture{c}, f.Others...) {
		for _, p := range t.Status.Pods {
			for _, port := range p.Ports {
				if p.Workload == f.Workload.Name {
					listening[port.Listening] = port.Application
				}
			}
		}
	}
	firsts := slices.Clone(own)
	for i := range firsts {
		firsts[i].Spec.Ports = slices.Clone(firsts[i].Spec.Ports)
		for j, p := range firsts[i].Spec.Ports {
			if application := listening[p.TargetPort.IntVal]; application != 0 {
				firsts[i].Spec.Ports[j].TargetPort = intstr.FromInt32(application)
			}
		}
	}
	firsts = firstOf(firsts)
	var declared []int32
	for _, container := range power.Containers(pod) {
		for _, p := range container.Ports {
			declared = append(declared, p.ContainerPort)
		}
	}
	all := services.Captured(firsts, pod)
	pairs := ports.Listening(all, declared)
	for _, application := range lists.Unique(all) {
		if l := pairs[application]; l != 0 && (c.Spec.Port == 0 || c.Spec.Port == application) {
			f.Ports = append(f.Ports, crdv1.CapturedPort{Application: application, Listening: l})
		}
	}
	for i := range firsts {
		has := services.Captured(firsts[i:i+1], pod)
		if slices.ContainsFunc(f.Ports, func(p crdv1.CapturedPort) bool { return slices.Contains(has, p.Application) }) {
			f.Services = append(f.Services, firsts[i].Name)
		}
	}
	slices.Sort(f.Services)
}

// firstOf returns the Services of a member that are no second ones, by name: the cache has them in no order.
func firstOf(own []corev1.Service) []corev1.Service {
	firsts := lists.Filter(own, func(s corev1.Service) bool {
		return !slices.ContainsFunc(own, func(o corev1.Service) bool {
			return s.Name == services.TrafficName(o.Name, false) || s.Name == services.TrafficName(o.Name, true)
		})
	})
	slices.SortFunc(firsts, func(a, b corev1.Service) int { return strings.Compare(a.Name, b.Name) })
	return firsts
}

// seconds returns which of the Services of a fork are second ones, of captures or of an override, and whether these answer.
func (r *Reconciler) seconds(ctx context.Context, own []corev1.Service, override bool) map[string]Second {
	out := map[string]Second{}
	for _, first := range own {
		second := lists.First(lists.Pointers(own), func(s *corev1.Service) bool { return s.Name == services.TrafficName(first.Name, override) })
		if second == nil {
			continue
		}
		answers := member.Reachable(second)
		for _, p := range second.Spec.Ports {
			if answers && p.Protocol == corev1.ProtocolTCP && r.config.Dial != nil {
				answers = r.config.Dial(ctx, net.JoinHostPort(second.Spec.ClusterIP, strconv.Itoa(int(p.Port)))) == nil
			}
		}
		out[second.Name] = Second{Created: second.CreationTimestamp, Answers: answers}
	}
	return out
}

// policy returns the name of a NetworkPolicy that refuses requests to the containers that record in the pods of a fork. The cache has
// only the selectors of policies.
//
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=list
func (r *Reconciler) policy(ctx context.Context, w *crdv1.ForkedWorkload, fork corev1.PodTemplateSpec, of []crdv1.CapturedPort) (string, error) {
	var all networkingv1.NetworkPolicyList
	if err := r.config.Live.List(ctx, &all, client.InNamespace(w.Namespace)); err != nil {
		return "", fmt.Errorf("list the NetworkPolicies of namespace %s: %w", w.Namespace, err)
	}
	callers, err := baseline.Read(ctx, r.config.Client, w.Spec.Baseline)
	if err != nil || callers == nil {
		return "", err
	}
	return Refusing(all.Items, fork, *callers.Template, of), nil
}
