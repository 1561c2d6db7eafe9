package trafficcapture

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/fork/services"
	"switchyard.dev/reconcilers/fork/traffic"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/routing"
)

// fork returns the pods of a fork to attach, its redirection, and the first reason why not each request is recorded; nil:
// there is none. waits is the result of move.
func (in Input) fork(f Fork, waits string) (pods []crdv1.CapturedPod, redirected *crdv1.CapturedFork, wrong *condition.Condition) {
	name := f.name()
	was := in.Capture.Redirects(name)
	ports := f.Ports
	if was != nil {
		ports = was.Ports // They stay as long as the capture.
	}
	wrong = f.Trouble
	if wrong == nil && waits != "" && in.moves(f) {
		wrong = no(ReasonServicesPending, "Requests of %s are passed on to another destination from now on, so recording begins again: %s.", f, waits)
	}
	if wrong != nil { // Attached pods stay attached: proxies can still send requests to them.
		return lists.Filter(in.Capture.Status.Pods, func(p crdv1.CapturedPod) bool { return p.Workload == name }), nil, wrong
	}
	if wrong = in.unfit(f, ports); wrong != nil {
		return nil, nil, wrong
	}
	pods, ready, listening, missing := in.pods(f, ports)
	switch {
	case missing != "":
		return pods, nil, no(ReasonContainerMissing, "Pod %s of %s has no container %s, because it was created before captures were enabled. Replace the pods of the fork: %s",
			missing, f, traffic.ContainerName, replacePods(f.Workload))
	case len(pods) == 0 && f.Workload == nil:
		return nil, nil, no(ReasonManagerUnavailable, "Requests of %s pass traffic-manager, which has no ready pod: check Deployment traffic-manager.", f)
	case len(pods) == 0:
		return nil, nil, no(ReasonNoPods, "%s has no pod: see its conditions.", f)
	case !ready:
		return pods, was, no(ReasonNoPods, "%s has no ready pod: see its conditions.", f)
	case !listening:
		return pods, nil, in.notListening(f)
	}
	if was == nil {
		if waits != "" && f.Workload == nil { // Requests of forks do not pass traffic-manager.
			return pods, nil, no(ReasonServicesPending, "Waiting with %s until another destination of requests of this capture is in use: %s.", f, waits)
		}
		if wrong := in.unsettled(f); wrong != nil {
			return pods, nil, wrong
		}
		return pods, &crdv1.CapturedFork{Name: name, Ports: ports, Since: in.Now}, no(ReasonServicesPending, "The Services of %s are being changed.", f)
	}
	return pods, was, in.notReached(f, was)
}

// pods returns the pods of a fork to attach with these ports: whether one is ready, whether they are listening, and one without the
// container that records.
func (in Input) pods(f Fork, ports []crdv1.CapturedPort) (pods []crdv1.CapturedPod, ready, listening bool, missing string) {
	listening = true
	for _, p := range lists.Pointers(f.Pods) {
		switch {
		case p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed:
			continue
		case f.Workload == nil && !isReady(p):
			continue
		case f.Workload != nil && !records(p):
			missing, listening = p.Name, false
			continue
		}
		applied := in.applied(p) && !in.moves(f) // the ports that it has applied had another destination
		pods = append(pods, crdv1.CapturedPod{Name: p.Name, UID: p.UID, Workload: f.name(), Ports: ports, Applied: applied, Addresses: f.addresses(p)})
		if isReady(p) {
			ready, listening = true, listening && applied
		}
	}
	slices.SortFunc(pods, func(a, b crdv1.CapturedPod) int { return strings.Compare(a.Name, b.Name) })
	if f.Workload == nil { // Only pods that have applied the capture get requests.
		listening = slices.ContainsFunc(pods, func(p crdv1.CapturedPod) bool { return p.Applied })
	}
	return pods, ready, listening, missing
}

// moves reports whether requests of a port that is attached are to be passed on to another destination now. A member with Trouble
// keeps the one that it has: it gets no requests, and can have the same one again afterwards.
func (in Input) moves(f Fork) bool {
	return f.Trouble == nil && slices.ContainsFunc(in.Capture.Status.Pods, func(p crdv1.CapturedPod) bool {
		return p.Workload == f.name() && slices.ContainsFunc(p.Ports, func(w crdv1.CapturedPort) bool {
			return slices.ContainsFunc(f.Ports, func(n crdv1.CapturedPort) bool { return n.Application == w.Application && n.To != w.To })
		})
	})
}

// move returns what members wait for of which the requests are to be passed on to another destination; empty: nothing. What proxies
// send to traffic-manager belongs to the old one, so that is served until none does. Then the pods get the new one, and are
// redirected to when they know it. status.draining is when the present step began.
func (d *Decision) move(in Input, moving []Fork) (waits string) {
	since := d.Status.Draining
	if len(moving) == 0 {
		if since != nil && in.Now.Sub(since.Time) < settle {
			return "traffic-manager has just got another destination"
		}
		d.Status.Draining = nil
		return ""
	}
	if waits = d.drained(in, in.returning(moving)); waits == "" {
		d.Status.Draining = new(in.Now)
	}
	return waits
}

// unfit returns why the requests of a fork cannot be recorded; nil: they can.
func (in Input) unfit(f Fork, ports []crdv1.CapturedPort) *condition.Condition {
	name := f.name()
	if len(ports) == 0 && len(f.Full) > 0 {
		return no(ReasonNoPorts, "No port of %s can be recorded, because all %d listening ports of traffic-manager are in use: delete other captures. Their ports are free ten minutes later.", f, PortCount)
	}
	if len(ports) == 0 && in.Capture.Spec.Port != 0 {
		return no(ReasonNoPorts, "No Service of %s sends TCP requests to port %d of its application: name another port.", f, in.Capture.Spec.Port)
	}
	if len(ports) == 0 {
		return no(ReasonNoPorts, "%s has no Service with a TCP port, so there is nothing to record.", f)
	}
	if o := in.Capture.Spec.Override; o != nil {
		for _, t := range o.Targets {
			if !slices.ContainsFunc(ports, func(p crdv1.CapturedPort) bool { return p.Application == t.Port }) {
				return no(ReasonNoPorts, "No Service of %s sends TCP requests to port %d of its application: override another port.", f, t.Port)
			}
		}
	}
	for _, o := range f.Others {
		i := slices.IndexFunc(o.Status.Pods, func(p crdv1.CapturedPod) bool { return p.Workload == name })
		if i >= 0 && !slices.Equal(o.Status.Pods[i].Ports, ports) {
			return no(ReasonOtherPorts, "TrafficCapture %s records other ports of %s. Delete it, or record the same ports.", o.Name, f)
		}
	}
	if f.Policy != "" {
		return no(ReasonPolicyRefuses, "NetworkPolicy %s allows requests to the application of %s and not to the container that records. Add port %d to it.", f.Policy, f, ports[0].Listening)
	}
	return nil
}

// notListening returns that a ready pod is not listening, and why if that is known.
func (in Input) notListening(f Fork) *condition.Condition {
	if in.Counts == nil {
		return in.unanswered()
	}
	for _, p := range in.Counts.GetPods() {
		switch {
		case !p.GetAttached():
		case p.GetProblem() != "":
			return no(ReasonNotApplied, "Pod %s cannot record: %s.", p.GetPod(), trimmed(p.GetProblem()))
		case p.GetUnknown() && f.has(p.GetPodUid()):
			return no(ReasonNotApplied, "Pod %s has a container %s of an earlier release, which has no override, or records no captures of some requests. Replace the pods of the fork: %s",
				p.GetPod(), traffic.ContainerName, replacePods(f.Workload))
		}
	}
	if f.Workload == nil {
		return no(ReasonNotApplied, "Waiting until traffic-manager is listening for %s. If that lasts, read its log.", f)
	}
	return no(ReasonNotApplied, "Waiting until the container %s of each pod of %s is listening. If that lasts, read its log.", traffic.ContainerName, f)
}

// unrestricted returns that a replica of traffic-manager may have containers record or override all requests instead of those of the
// capture; nil: none does, or the capture is attached already.
func (in Input) unrestricted() *condition.Condition {
	spec := in.Capture.Spec
	switch {
	case spec.Traces == "" && len(spec.RoutingKeys)+len(spec.ExceptRoutingKeys) == 0 || len(in.Capture.Status.Pods) > 0 || in.Counts.GetRestricts():
		return nil
	case in.Counts == nil:
		return in.unanswered()
	}
	return no(ReasonManagerUnavailable, "A replica of traffic-manager does not state that it knows captures of some requests: it is of an earlier release, or does not answer. Wait until all pods of Deployment traffic-manager are of this release; if that lasts, check it.")
}

// unanswered returns that no replica of traffic-manager answers.
func (in Input) unanswered() *condition.Condition {
	return no(ReasonManagerUnavailable, "No replica of traffic-manager answers, so no container gets the capture: %s. Check Deployment traffic-manager.", trimmed(in.Trouble))
}

// has reports whether a pod is of the fork.
func (f Fork) has(pod string) bool {
	return f.Workload != nil && slices.ContainsFunc(f.Pods, func(p corev1.Pod) bool { return string(p.UID) == pod })
}

// addresses returns those of a pod of traffic-manager.
func (f Fork) addresses(p *corev1.Pod) []string {
	if f.Workload != nil {
		return nil
	}
	return lists.Map(p.Status.PodIPs, func(ip corev1.PodIP) string { return ip.IP })
}

// unsettled returns which second Service cannot get requests yet; nil: none.
func (in Input) unsettled(f Fork) *condition.Condition {
	for _, s := range f.Services {
		name := services.TrafficName(s, in.overrides())
		second, exists := f.Seconds[name]
		age := in.Now.Sub(second.Created.Time)
		if refused := crdv1.FindCondition(*f.member().StatusConditions(), member.ConditionCaptured); refused != nil && !second.Answers {
			return no(refused.Reason, "A Service that captures of %s need is refused: %s", f, refused.Message)
		}
		if !exists || age < settle || !second.Answers && age < patience {
			return no(ReasonServicesPending, "Waiting until Service %s answers.", name)
		}
	}
	return nil
}

// notReached returns why not all proxies send requests to the second Services; nil: they do.
func (in Input) notReached(f Fork, since *crdv1.CapturedFork) *condition.Condition {
	second := func(m mapping) bool { return m.override || m.second && !in.overrides() }
	if m := f.mapped(); len(f.Services) > 0 && !slices.ContainsFunc(m, second) {
		return no(ReasonServicesPending, "The Services of %s are being changed.", f)
	}
	if c := f.acknowledged(); !c.IsTrue() {
		return no(ReasonProxiesPending, "%s", c.Message)
	}
	for _, r := range f.Routing {
		ordinary := func(s crdv1.ServiceMapping) bool { return !slices.Contains(f.Headless, s.From) }
		if c := f.routedByMesh(r, ordinary); !c.IsTrue() && c.Reason != routing.ReasonRoutingConflict { // after a conflict it gets no requests
			return no(ReasonProxiesPending, "%s", c.Message)
		}
		if len(r.Mesh) > 0 && in.Now.Sub(since.Since.Time) < meshDelay {
			return no(ReasonProxiesPending, "Waiting for the proxies of the mesh.")
		}
	}
	return nil
}

// routedByMesh returns whether the mesh routes requests for these Services of the baseline to the member; true if sidecars route them.
func (f Fork) routedByMesh(r routing.Routing, these func(crdv1.ServiceMapping) bool) condition.Condition {
	m, is := f.member().DeepCopyObject().(crdv1.Member)
	if info := m.RoutingInfo(); is && info != nil {
		info.Services = lists.Filter(info.Services, these)
		r.Members = maps.Clone(r.Members)
		r.Members[member.NameOf(m)] = m
	}
	return r.RoutedByMesh(m)
}

// late returns the ports that a Service got after requests of the member were redirected: those of a capture stay as long as it does.
func (in Input) late(f Fork) (out []string) {
	was := in.Capture.Redirects(f.name())
	for _, p := range f.Ports {
		if was != nil && !slices.ContainsFunc(was.Ports, func(w crdv1.CapturedPort) bool { return w.Application == p.Application }) {
			out = append(out, fmt.Sprintf("port %d of %s, which a Service got after the capture began: create the capture again", p.Application, f))
		}
	}
	return out
}

// unrecorded returns what of the requests of the member is not recorded, though the capture is ready.
func (in Input) unrecorded(f Fork) []string {
	out := in.late(f)
	for _, port := range f.Full {
		out = append(out, fmt.Sprintf("port %d of %s, because all %d listening ports of traffic-manager are in use: delete other captures, and create this one again after ten minutes", port, f, PortCount))
	}
	for _, name := range f.Headless {
		this := func(s crdv1.ServiceMapping) bool { return s.From == name && s.To != "" }
		routed := f.member().RoutingInfo() != nil && slices.ContainsFunc(f.member().RoutingInfo().Services, this)
		for _, r := range f.Routing {
			routed = routed && f.routedByMesh(r, this).IsTrue()
		}
		if !routed {
			out = append(out, fmt.Sprintf("requests to headless Service %s, which no route of a mesh sends to %s", name, f))
		}
	}
	return out
}

// records reports whether a pod has the container that records.
func records(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == traffic.ContainerName })
}

// isReady reports whether a pod that is not being deleted is ready, with all its containers. Those of a pod on a node that does not
// answer stay ready.
func isReady(p *corev1.Pod) bool {
	all := p.Status.ContainerStatuses
	if slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue }) {
		return false
	}
	return p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning && len(all) > 0 && !slices.ContainsFunc(all, func(s corev1.ContainerStatus) bool { return !s.Ready })
}

// replacePods is the command that replaces the pods of a fork one by one: the operator creates the workload again, with
// the container, and it adopts the pods.
func replacePods(w *crdv1.ForkedWorkload) string {
	kind, name := "deployment", w.Name
	if f := w.Status.Fork; f != nil && f.ObjectRef != nil {
		kind, name = strings.ToLower(f.ObjectRef.Kind), f.ObjectRef.Name
	}
	return fmt.Sprintf("kubectl delete %s %s -n %s --cascade=orphan", kind, name, w.Namespace)
}

// no returns a condition that does not hold.
func no(reason, format string, args ...any) *condition.Condition {
	return new(condition.False(reason, fmt.Sprintf(format, args...)))
}

// trimmed returns a message as a part of a sentence.
func trimmed(message string) string {
	return strings.TrimSuffix(condition.OneSentence(message), ".")
}
