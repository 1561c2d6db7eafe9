package trafficcapture

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/fork/services"
)

// Reasons of the condition Ended: why a capture has ended.
const (
	ReasonDeleted        = "Deleted"
	ReasonDisabled       = "CaptureDisabled"
	ReasonLeaseExpired   = "LeaseExpired"
	ReasonTimeLimit      = "TimeLimit"
	ReasonSandboxDeleted = "SandboxDeleted"
)

// Longest is the longest life of a capture with a lease.
const Longest = time.Hour

// ends are the messages of the reasons.
var ends = map[string]string{
	ReasonDeleted:        "The capture is being deleted",
	ReasonDisabled:       "Captures are disabled",
	ReasonLeaseExpired:   "The client that records did not renew the lease: start it again",
	ReasonTimeLimit:      "A capture with a lease ends after one hour: create another one, or one without a lease",
	ReasonSandboxDeleted: "Its sandbox was deleted",
}

// ended returns why a capture has ended; false while it is live. lease is its last change.
func (in Input) ended(lease *crdv1.CaptureLeaseStatus) (cause string, ended bool) {
	c := in.Capture
	if was := crdv1.FindCondition(c.Status.Conditions, crdv1.ConditionEnded); was != nil && ends[was.Reason] != "" && c.DeletionTimestamp == nil {
		return was.Reason, true
	}
	begun := len(c.Status.Pods) > 0
	switch spec := c.Spec.Lease; {
	case c.DeletionTimestamp != nil:
		return ReasonDeleted, true
	case in.Disabled != "":
		return ReasonDisabled, true
	case begun && (in.Sandbox == nil || in.Sandbox.DeletionTimestamp != nil):
		return ReasonSandboxDeleted, true
	case spec == nil:
		return "", false
	case in.Now.Sub(lease.SeenTime.Time) > time.Duration(max(spec.Seconds, 1))*time.Second:
		return ReasonLeaseExpired, true
	case in.Now.Sub(c.CreationTimestamp.Time) > Longest:
		return ReasonTimeLimit, true
	}
	return "", false
}

// end takes the redirections back, then detaches the pods.
func (d *Decision) end(in Input, cause string) {
	d.Status.Redirected = nil
	message := ends[cause]
	if cause == ReasonDisabled {
		message = in.Disabled
	}
	if cause == ReasonSandboxDeleted {
		message = "SignadotSandbox " + in.Capture.Spec.Sandbox + " was deleted"
	}
	if cause == ReasonDisabled || cause == ReasonSandboxDeleted {
		d.Conditions[crdv1.ConditionAccepted] = condition.False(cause, message+".")
	}
	waits := ""
	if len(d.Status.Pods) > 0 { // What another capture has redirected, that one drains at its end.
		waits = d.drained(in, in.returning(lists.Filter(in.Forks, func(f Fork) bool { return !in.redirectedByOthers(f) })))
	}
	if waits == "" {
		d.Status.Pods = nil
	}
	d.Conditions[crdv1.ConditionReady] = condition.False(cause, message+".")
	if waits != "" {
		d.After = soon
		d.Conditions[crdv1.ConditionEnded] = condition.False(cause, fmt.Sprintf("%s. Requests still pass the containers that record: %s.", message, waits))
		return
	}
	d.Over, d.After = true, 0
	d.Conditions[crdv1.ConditionEnded] = condition.True(cause, message+".")
}

// drained returns the condition to wait for until connections have drained; empty: they have. The drain begins when waits, another
// condition, is empty.
func (d *Decision) drained(in Input, waits string) string {
	switch {
	case waits != "":
		d.Status.Draining = nil
	case d.Status.Draining == nil:
		d.Status.Draining, waits = new(in.Now), "open connections drain"
	case in.Now.Sub(d.Status.Draining.Time) < drain:
		waits = "open connections drain"
	}
	return waits
}

// returning returns the next condition to wait for until no proxy sends requests of these members to a container of the capture;
// empty: nothing.
func (in Input) returning(forks []Fork) string {
	for _, f := range forks {
		if in.Capture.Redirects(f.name()) != nil {
			return "the Services are being changed back"
		}
		for _, m := range f.mapped() {
			if m.second && m.override == in.overrides() {
				return fmt.Sprintf("Service %s is still in the status of %s", m.to, f)
			}
		}
		if c := f.acknowledged(); !c.IsTrue() {
			return trimmed(c.Message)
		}
	}
	return ""
}

// redirectedByOthers reports whether another capture has the requests of the fork redirected to the same second Services.
// Those of captures and of an override differ.
func (in Input) redirectedByOthers(f Fork) bool {
	for _, o := range f.Others {
		if (o.Spec.Override != nil) == in.overrides() && o.Redirects(f.name()) != nil {
			return true
		}
	}
	return false
}

// mapping is a Service in the status of a fork: whether it is a second one, and whether that of an override.
type mapping struct {
	to               string
	second, override bool
}

// mapped returns the Services of the fork, as its status has them for proxies.
func (f Fork) mapped() (out []mapping) {
	info := f.member().RoutingInfo()
	if info == nil {
		return nil
	}
	for _, m := range info.Services {
		one := mapping{to: m.To}
		for _, s := range f.Services {
			one.override = one.override || m.To == services.TrafficName(s, true)
			one.second = one.second || one.override || m.To == services.TrafficName(s, false)
		}
		out = append(out, one)
	}
	return out
}

// acknowledged returns whether every proxy has the Services in the status of the fork.
func (f Fork) acknowledged() condition.Condition {
	for _, r := range f.Routing {
		if r.Config.DeletionTimestamp != nil {
			continue
		}
		if c := r.ProxiesCurrent(); !c.IsTrue() {
			return c
		}
	}
	return condition.Condition{Status: metav1.ConditionTrue}
}
