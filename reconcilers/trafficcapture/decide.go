package trafficcapture

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/sidecars/traffic/members"
)

// Reasons of the condition Ready, beside those of an end (Ended).
const (
	// ReasonSandboxNotFound: the sandbox does not exist.
	ReasonSandboxNotFound = "SandboxNotFound"
	// ReasonNotServed: members of this kind have no override.
	ReasonNotServed = "NotServed"
	// ReasonSidecarOutdated: a pod of a virtual workload's baseline has a sidecar of an earlier release, which cannot take
	// back requests that were recorded. ReasonSidecarAbsent: one has none.
	ReasonSidecarOutdated = "SidecarOutdated"
	ReasonSidecarAbsent   = "SidecarAbsent"
	// ReasonNoFork: the sandbox has no such member in the namespace.
	ReasonNoFork = "NoFork"
	// ReasonNoPorts: the fork has no Service with a TCP port to record.
	ReasonNoPorts = "NoPorts"
	// ReasonNoPods: the fork has no ready pod.
	ReasonNoPods = "NoReadyPod"
	// ReasonContainerMissing: pods of the fork have no container that records.
	ReasonContainerMissing = "ContainerMissing"
	// ReasonOtherPorts: another capture of the fork records other ports.
	ReasonOtherPorts = "OtherPortsCaptured"
	// ReasonPolicyRefuses: a NetworkPolicy does not allow requests to the container that records.
	ReasonPolicyRefuses = "PolicyRefuses"
	// ReasonNotApplied: the container of a pod is not listening yet.
	ReasonNotApplied = "NotApplied"
	// ReasonManagerUnavailable: no replica of traffic-manager answers, or one does not know captures of some requests.
	ReasonManagerUnavailable = "TrafficManagerUnavailable"
	// ReasonServicesPending: the second Services do not answer yet, or are not in the fork's status.
	ReasonServicesPending = "ServicesPending"
	// ReasonProxiesPending: proxies have not acknowledged the second Services.
	ReasonProxiesPending = "ProxiesPending"
)

// Times. settle is for how long a Service exists before requests are sent to it, since nodes learn of it one by one; it
// counts as answering after patience. meshDelay is how long a mesh takes to configure its proxies. drain is between the
// last acknowledgement and the detachment.
const (
	settle    = 3 * time.Second
	patience  = 30 * time.Second
	meshDelay = 5 * time.Second
	drain     = 10 * time.Second
	soon      = time.Second
	later     = 10 * time.Second
)

// Input has all inputs of Decide. Nothing of it is changed.
type Input struct {
	Capture *crdv1.TrafficCapture
	Now     metav1.Time
	// Disabled is why no capture is possible in this installation; empty: it is.
	Disabled string
	// Sandbox is that of the capture; nil: there is none.
	Sandbox *crdv1.SignadotSandbox
	// Forks are the members of the sandbox in the namespace that the capture names, and those that it is attached to.
	Forks []Fork
	// Workstation is the external workload that answers an override first; nil: another address does.
	Workstation *crdv1.SignadotExternalWorkload
	// Counts are those of all replicas of traffic-manager; nil: none answers, for the reason Trouble.
	Counts  *trafficv1.Counts
	Trouble string
}

// Fork is a fork of the sandbox, or another member.
type Fork struct {
	// Workload is the fork; nil for a member without pods, which Other is then.
	Workload *crdv1.ForkedWorkload
	Other    crdv1.Member
	// Unserved is why the capture, an override, is not for this member; empty: it is.
	Unserved string
	// Trouble is why they cannot be recorded now; nil: nothing is known.
	Trouble *condition.Condition
	// Pods are those of the fork, or of traffic-manager for another member, from the cache.
	Pods []corev1.Pod
	// Ports are the ports that can be recorded, and Full those of the application for which traffic-manager has no free listening port.
	Ports []crdv1.CapturedPort
	Full  []int32
	// Services are the names of its Services without the second ones, and Seconds are these.
	Services []string
	Seconds  map[string]Second
	// Headless are the Services of its baseline without an address, while a mesh is on; none if all are. Owners rarely route them,
	// so no route of a mesh is waited for.
	Headless []string
	// Routing are the RoutingConfigs that name it, with their members.
	Routing []routing.Routing
	// Others are the other captures that are attached to it.
	Others []*crdv1.TrafficCapture
	// Policy names a NetworkPolicy that allows the application's port and not that of the container.
	Policy string
}

// Second is the second Service of a Service.
type Second struct {
	Created metav1.Time
	Answers bool
}

// Decision is the next status, and when to decide again.
type Decision struct {
	Status     crdv1.TrafficCaptureStatus
	Conditions condition.Set
	// Over: nothing of the capture is left, and its finalizer can be removed.
	Over  bool
	After time.Duration
}

// Decide returns the next status of a capture.
func Decide(in Input) Decision {
	d := Decision{Status: *in.Capture.Status.DeepCopy(), Conditions: condition.Set{}, After: later}
	d.Status.ObservedGeneration = in.Capture.Generation
	if l := in.Capture.Spec.Lease; l != nil && (d.Status.Lease == nil || !d.Status.Lease.RenewTime.Equal(&l.RenewTime)) {
		d.Status.Lease = &crdv1.CaptureLeaseStatus{RenewTime: l.RenewTime, SeenTime: in.Now}
	}
	d.count(in)
	d.Conditions[crdv1.ConditionAccepted] = condition.True("Accepted", "The sandbox has such a member.")
	if cause, ended := in.ended(d.Status.Lease); ended {
		d.end(in, cause)
		return d
	}
	d.Conditions[crdv1.ConditionEnded] = condition.False("Live", "The capture has not ended.")
	if in.Sandbox != nil {
		d.Status.RoutingKey = in.Sandbox.Spec.ID
		d.Status.OtherRoutingKeys = in.otherKeys()
	}
	ready := d.live(in)
	if d.Conditions[crdv1.ConditionReady] = ready; !ready.IsTrue() {
		d.After = soon
	}
	if ready.Reason == ReasonSandboxNotFound || ready.Reason == ReasonNoFork {
		d.Conditions[crdv1.ConditionAccepted] = ready
	}
	return d
}

// otherKeys returns the other routing keys with requests that are routed to the members.
func (in Input) otherKeys() (keys []string) {
	for _, f := range in.Forks {
		for _, r := range f.Routing {
			if key := r.Config.RoutingKey(); key != in.Sandbox.Spec.ID {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	return lists.Filter(slices.Compact(keys), func(key string) bool { return key != "" })
}

// live attaches and redirects the forks, and returns the condition Ready.
func (d *Decision) live(in Input) condition.Condition {
	d.Status.Pods = nil
	switch {
	case in.Sandbox == nil:
		return condition.False(ReasonSandboxNotFound, fmt.Sprintf("SignadotSandbox %s does not exist: create it.", in.Capture.Spec.Sandbox))
	case len(in.Forks) == 0:
		return in.noMember()
	}
	if wrong := in.unrestricted(); wrong != nil {
		return *wrong
	}
	var first *condition.Condition
	var redirected []crdv1.CapturedFork
	served := lists.Filter(in.Forks, func(f Fork) bool { return f.Unserved == "" })
	unserved := lists.Filter(in.Forks, func(f Fork) bool { return f.Unserved != "" })
	if len(unserved) > 0 && (len(served) == 0 || in.Capture.Spec.Workload != "") {
		first = no(ReasonNotServed, "%s", unserved[0].Unserved)
	}
	waits := d.move(in, lists.Filter(served, in.moves))
	for _, f := range served {
		pods, now, wrong := in.fork(f, waits)
		d.Status.Pods = append(d.Status.Pods, pods...)
		if now != nil {
			redirected = append(redirected, *now)
		}
		if first == nil {
			first = wrong
		}
	}
	d.Status.Redirected = redirected
	if first != nil {
		return *first
	}
	names := lists.Map(served, Fork.name)
	if in.overrides() {
		return in.overriding(condition.List(names, 3, ", "))
	}
	message := "Each request that begins now is recorded: " + condition.List(names, 3, ", ") + "."
	for _, f := range unserved {
		message += " " + f.Unserved
	}
	if not := lists.FlatMap(served, in.unrecorded); len(not) > 0 {
		message += " Not recorded: " + condition.List(not, 3, "; ") + "."
	}
	return condition.True("Recording", message)
}

// noMember returns that the sandbox has no such member in the namespace, and the names of those that it has.
func (in Input) noMember() condition.Condition {
	const most = 10 // names in a message
	spec, namespace, problem := in.Capture.Spec, in.Capture.Namespace, ""
	of := func(r members.Member) string { return r.Namespace }
	here := lists.Filter(members.Of(in.Sandbox), func(r members.Member) bool { return r.Namespace == namespace })
	switch spaces := lists.Unique(lists.Map(members.Of(in.Sandbox), of)); {
	case slices.ContainsFunc(here, func(r members.Member) bool { return spec.Workload == "" || r.Is(spec.Workload) }):
		problem = fmt.Sprintf("The members of sandbox %s in namespace %s are not created yet: see the conditions of the sandbox.", spec.Sandbox, namespace)
	case len(here) > 0:
		names := lists.Unique(lists.Map(here, members.Member.String))
		problem = fmt.Sprintf("Sandbox %s has no fork, external or virtual workload %s in namespace %s: name one of %s.", spec.Sandbox, spec.Workload, namespace, condition.List(names, most, ", "))
	case len(spaces) > 0:
		problem = fmt.Sprintf("Sandbox %s has no fork, no external workload with a baseline, and no virtual workload in namespace %s: create the capture in namespace %s.", spec.Sandbox, namespace, condition.List(spaces, most, " or "))
	default:
		problem = fmt.Sprintf("Sandbox %s has no fork, no external workload with a baseline, and no virtual workload: add one to its spec.", spec.Sandbox)
	}
	return condition.False(ReasonNoFork, problem)
}

// member returns the member.
func (f Fork) member() crdv1.Member {
	if f.Workload != nil {
		return f.Workload
	}
	return f.Other
}

// name returns the name of the member in the status, and String names it in messages.
func (f Fork) name() string { return crdv1.CapturedName(f.member().MemberKind(), f.member().GetName()) }

// String implements fmt.Stringer.
func (f Fork) String() string { return f.member().MemberKind() + " " + f.member().GetName() }

// overrides reports whether the capture is an override.
func (in Input) overrides() bool { return in.Capture.Spec.Override != nil }

// count copies the counts of the replicas, where they answer.
func (d *Decision) count(in Input) {
	if in.Counts == nil {
		return
	}
	c := &crdv1.CaptureCounts{
		Seen: number(in.Counts.GetSeen()), Stored: number(in.Counts.GetStored()), SampledOut: number(in.Counts.GetSampledOut()), Evicted: number(in.Counts.GetEvicted()),
	}
	for reason, n := range in.Counts.GetLost() {
		if c.Lost == nil {
			c.Lost = map[string]int64{}
		}
		c.Lost[reason] = number(n)
	}
	d.Status.Counts = c
}

func number(n uint64) int64 { return int64(min(n, 1<<62)) } //nolint:gosec // bounded

// applied reports whether the container of a pod is listening for the capture. A container keeps its attachments while it is
// attached to no replica, also when it is restarted: then the answer is that of the status.
func (in Input) applied(pod *corev1.Pod) bool {
	known := slices.ContainsFunc(in.Capture.Status.Pods, func(p crdv1.CapturedPod) bool { return p.UID == pod.UID && p.Applied })
	for _, p := range in.Counts.GetPods() {
		switch {
		case p.GetPodUid() != string(pod.UID):
		case p.GetApplied():
			return true
		case p.GetAttached():
			known = false
		}
	}
	return known
}
