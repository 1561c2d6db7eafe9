package trafficcapture

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/member/recorders"
	"switchyard.dev/reconcilers/routing"
)

// The ports on which traffic-manager listens for members without pods, one for each port of each member. The first is its
// published one. An address is all that a proxy has of a destination, so one port could not distinguish members.
const (
	FirstPort = 8080
	PortCount = 512
)

// memberOf returns a member.
func memberOf(m crdv1.Member) Fork {
	if w, is := m.(*crdv1.ForkedWorkload); is {
		return Fork{Workload: w}
	}
	return Fork{Other: m}
}

// readVirtual reads what counts for a virtual workload, which own has the second Services of: the Services of its baseline, and
// whether the sidecars of the baseline take back requests that traffic-manager passes on.
func (r *Reconciler) readVirtual(ctx context.Context, w *crdv1.VirtualWorkload, f *Fork, own []corev1.Service) (all []corev1.Service, pods recorders.Sidecars, err error) {
	ref, _ := w.BaselineRef()
	of, err := baseline.Read(ctx, r.config.Client, ref)
	if err != nil || of == nil || w.Status.RoutingConfig == nil {
		return own, pods, err
	}
	running, _, err := baseline.Pods(ctx, r.config.Client, of)
	if err != nil {
		return own, pods, err
	}
	services, err := baseline.ServicesIn(ctx, r.config.Client, w.Namespace)
	v := recorders.VirtualOf(w, w.Status.RoutingConfig.Services, services)
	pods = recorders.SidecarsOf(running)
	f.Trouble = f.trouble(pods, v)
	return slices.Concat(v.Firsts, own), pods, err
}

// trouble returns why the requests of a virtual workload cannot be recorded now; nil: they can.
func (f *Fork) trouble(pods recorders.Sidecars, v recorders.Virtual) *condition.Condition {
	at, _ := f.Other.BaselineRef()
	meshed := slices.ContainsFunc(f.Routing, func(r routing.Routing) bool { return len(r.Mesh) > 0 })
	addressed := slices.ContainsFunc(v.Firsts, func(s corev1.Service) bool { return s.Spec.ClusterIP != corev1.ClusterIPNone })
	switch restart := "kubectl rollout restart " + strings.ToLower(at.Kind) + " " + at.Name + " -n " + at.Namespace; {
	case pods.Old != "":
		return no(ReasonSidecarOutdated, "The sidecar of pod %s is of an earlier release, which cannot take back requests that traffic-manager passes on. Restart the pods of the baseline: %s", pods.Old, restart)
	case pods.With > 0 && pods.Without > 0:
		return no(ReasonSidecarAbsent, "%d of %d pods of the baseline of %s have no sidecar. Restart them: %s", pods.Without, pods.With+pods.Without, f, restart)
	case pods.With+pods.Without == 0:
		return no(ReasonNoPods, "The baseline of %s has no pod: see the conditions of its workload.", f)
	case pods.With == 0 && !meshed:
		return no(ReasonSidecarAbsent, "The pods of the baseline of %s have no sidecar, and no mesh routes its requests: see SidecarsReady of the virtual workload.", f)
	case pods.With == 0 && len(v.Firsts) > 0 && !addressed:
		return no(ReasonNoPorts, "Service %s has no address of its own (clusterIP None), to which traffic-manager could pass requests on. Inject sidecars into the baseline.", v.Firsts[0].Annotations[crdv1.AnnotationBaselineService])
	case v.Ambiguous != "":
		return no(ReasonServicesPending, "Service %s sends requests to different ports of old and new pods: wait until the rollout ends.", v.Ambiguous)
	}
	return nil
}

// readOther reads what counts for a member without pods, with these Services: the pods of traffic-manager, and the ports on
// which they listen for it.
func (r *Reconciler) readOther(ctx context.Context, c *crdv1.TrafficCapture, f *Fork, own []corev1.Service) error {
	var pods corev1.PodList
	if err := r.config.Client.List(ctx, &pods, client.InNamespace(r.config.Namespace), client.MatchingLabels{"app": ManagerName}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the pods of %s: %w", ManagerName, err)
	}
	f.Pods = pods.Items
	var sidecars recorders.Sidecars
	if w, is := f.Other.(*crdv1.VirtualWorkload); is {
		var err error
		if own, sidecars, err = r.readVirtual(ctx, w, f, own); err != nil {
			return err
		}
	}
	f.Seconds = r.seconds(ctx, own, c.Spec.Override != nil)
	var all crdv1.TrafficCaptureList
	if err := r.config.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the TrafficCaptures: %w", err)
	}
	var served discoveryv1.EndpointSliceList
	if err := r.config.Client.List(ctx, &served, client.MatchingLabels{discoveryv1.LabelManagedBy: recorders.ManagedBy}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the endpoints in pods of %s: %w", ManagerName, err)
	}
	r.ports.take(all.Items, served.Items, r.config.Now())
	f.readPorts(firstOf(own), c.Spec.Port, sidecars, func(application int32) int32 {
		return r.ports.of(claim{c.Namespace, f.name(), application}, r.config.Now())
	})
	return nil
}

// readPorts determines the ports of the application that can be recorded, only this one unless it is 0, among the Services of a member,
// and the Services that have one. listening returns a listening port, 0 if none is free. Without sidecars a headless Service is no
// destination; another one with the same port of the application is.
func (f *Fork) readPorts(firsts []corev1.Service, only int32, sidecars recorders.Sidecars, listening func(application int32) int32) {
	seen := map[int32]int32{} // the listening port
	for _, s := range firsts {
		for _, p := range s.Spec.Ports {
			application, address := p.TargetPort.IntVal, s.Spec.ClusterIP
			_, again := seen[application]
			if only != 0 && only != application || again || address == "" || address == corev1.ClusterIPNone && sidecars.With == 0 {
				continue
			}
			if seen[application] = listening(application); seen[application] == 0 {
				f.Full = append(f.Full, application)
				continue
			}
			to := sidecars.To(application, net.JoinHostPort(address, strconv.Itoa(int(p.Port))))
			f.Ports = append(f.Ports, crdv1.CapturedPort{Application: application, Listening: seen[application], To: to})
		}
	}
	for _, s := range firsts {
		if s.Spec.ClusterIP != "" && slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return seen[p.TargetPort.IntVal] != 0 }) {
			f.Services = append(f.Services, s.Name)
		}
	}
	slices.SortFunc(f.Ports, func(a, b crdv1.CapturedPort) int { return int(a.Application - b.Application) })
}

// claim is a port of a member, and portBook has the listening ports of claims. Only the leader writes the status of captures,
// so its book has all of them. Application 0 is one that is not known. It is safe for concurrent use.
type claim struct {
	namespace, member string
	application       int32
}

type portBook struct {
	mu   sync.Mutex
	held map[int32]holding
}

type holding struct {
	by claim
	at time.Time
}

// forgotten is how long a listening port is kept for a claim that no capture has: nodes and proxies learn late of an end.
const forgotten = 10 * time.Minute

// take notes the ports in the status of all captures, and those of endpoints in pods of traffic-manager: a capture that attaches no pod any
// more leaves them until proxies send no requests there.
func (b *portBook) take(all []crdv1.TrafficCapture, served []discoveryv1.EndpointSlice, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held == nil {
		b.held = map[int32]holding{}
	}
	for i := range all {
		for _, pod := range all[i].Status.Pods {
			if kind, _ := crdv1.CapturedMember(pod.Workload); kind == crdv1.KindForkedWorkload {
				continue
			}
			for _, p := range pod.Ports {
				b.note(claim{all[i].Namespace, pod.Workload, p.Application}, p.Listening, now)
			}
		}
	}
	for i := range served {
		s := &served[i]
		if by := memberBehind(s); by != nil {
			for _, p := range s.Ports {
				if p.Port != nil {
					b.note(claim{s.Namespace, crdv1.CapturedName(by.Kind, by.Name), 0}, *p.Port, now)
				}
			}
		}
	}
}

// memberBehind returns the member for which the operator created a slice with endpoints in pods of traffic-manager; nil: it is another
// slice. One of this form that the member does not need is deleted by the member's controller, and one without a member by Kubernetes.
func memberBehind(s *discoveryv1.EndpointSlice) *metav1.OwnerReference {
	by := metav1.GetControllerOfNoCopy(s)
	if by == nil || by.APIVersion != crdv1.APIVersion || by.Kind != crdv1.KindExternalWorkload && by.Kind != crdv1.KindVirtualWorkload ||
		s.Labels[discoveryv1.LabelManagedBy] != recorders.ManagedBy || !recorders.Are(s) {
		return nil
	}
	return by
}

// note notes that a listening port is in use, unless another member has it. b.mu is held.
func (b *portBook) note(by claim, listening int32, now time.Time) {
	was, held := b.held[listening]
	switch {
	case held && (was.by.namespace != by.namespace || was.by.member != by.member):
		return
	case held && (by.application == 0 || was.by.application != 0 && was.by != by):
		by = was.by
	}
	b.held[listening] = holding{by, now}
}

// of returns the listening port of a claim; 0 if none is free.
func (b *portBook) of(by claim, now time.Time) int32 {
	b.mu.Lock()
	defer b.mu.Unlock()
	free := int32(0)
	for p := int32(FirstPort); p < FirstPort+PortCount; p++ {
		was, held := b.held[p]
		if held && was.by == by {
			b.held[p] = holding{by, now}
			return p
		}
		if free == 0 && (!held || now.Sub(was.at) > forgotten) {
			free = p
		}
	}
	if free != 0 {
		b.held[free] = holding{by, now}
	}
	return free
}
