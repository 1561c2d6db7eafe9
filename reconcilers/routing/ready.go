package routing

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/publish"
)

// ReasonNotReady is the reason of an owner's RoutingReady if some requests would be routed wrongly.
const ReasonNotReady = "RoutingNotReady"

// Ready returns the condition RoutingReady of the owner of the RoutingConfig: it is on the routing log,
// requests for the baseline of each member pass a sidecar, and every proxy knows the key.
func (r Routing) Ready() condition.Condition {
	if r.Config == nil {
		return condition.Unknown(crdv1.ReasonPending, "The RoutingConfig is not written yet; retrying.")
	}
	if f := r.published(); !f.IsTrue() {
		return f
	}
	proxies := r.ProxiesCurrent()
	sidecars := r.SidecarsReady(proxies)
	for _, f := range []condition.Condition{sidecars, proxies} {
		if f.IsFalse() {
			return condition.False(ReasonNotReady, f.Message)
		}
		if !f.IsTrue() {
			return f
		}
	}
	if len(r.Named()) == 0 {
		return condition.True("RoutingReady", "The routing key is on the routing log, and has no rules: requests with it reach the baselines.")
	}
	message := "The rules of the routing key are on the routing log. " + sidecars.Message + " " + proxies.Message
	return condition.True("RoutingReady", strings.Replace(message, "log. Every ", "log, and every ", 1))
}

// OnLog reports whether the routing log has the spec of a RoutingConfig, or never will have it; c may
// be nil.
func OnLog(c *crdv1.RoutingConfig) bool {
	if c == nil {
		return true
	}
	p := crdv1.FindCondition(c.Status.Conditions, crdv1.ConditionPublished)
	return p != nil && p.ObservedGeneration >= c.Generation && p.Reason != publish.ReasonLogUnavailable
}

// published returns the condition that the spec was accepted and is on the routing log.
func (r Routing) published() condition.Condition {
	for _, t := range []string{crdv1.ConditionAccepted, crdv1.ConditionPublished} {
		have := crdv1.FindCondition(r.Config.Status.Conditions, t)
		switch {
		case have == nil || have.ObservedGeneration < r.Config.Generation:
			return condition.Unknown(crdv1.ReasonPending, "The declaration is not on the routing log yet.")
		case have.Status != string(metav1.ConditionTrue):
			return condition.False(have.Reason, have.Message)
		}
	}
	return condition.True(crdv1.ConditionPublished, "")
}

// SidecarsReady returns the condition of Sidecars, or True if that does not matter any more: once every
// proxy knows the key (proxies), a sidecar that is not ready changes nothing. Its pod is not ready
// either, so it gets no request before it has all rules, and pods start and stop all the time. It
// counts for Ready, here and at the owner.
func (r Routing) SidecarsReady(proxies condition.Condition) condition.Condition {
	lasting := proxies.IsTrue() && proxies.Reason != ReasonNotAwaited
	return r.overMembers(func(c *crdv1.StatusCondition) bool {
		return lasting && c.Reason == baseline.ReasonSidecarNotReady
	})
}

// Sidecars reports whether requests for every member's baseline meet a ready sidecar in
// every pod, or a mesh that is on.
func (r Routing) Sidecars() condition.Condition {
	return r.overMembers(func(*crdv1.StatusCondition) bool { return false })
}

// overMembers repeats the first SidecarsReady of a member that is not True, unless it
// is passed over.
func (r Routing) overMembers(passed func(*crdv1.StatusCondition) bool) condition.Condition {
	var remarks []string
	led, unled, meshed := 0, 0, 0
	for _, m := range r.Named() {
		have := r.Member(m)
		if have == nil || !TakesRequests(have) {
			continue
		}
		c := crdv1.FindCondition(*have.StatusConditions(), baseline.ConditionSidecarsReady)
		if baseline.NeedsNone(have) {
			unled++
		} else {
			led++
		}
		switch {
		case c == nil:
			return condition.Unknown(crdv1.ReasonPending, fmt.Sprintf("Waiting to know whether the baseline of %s has sidecars.", NameIn(m)))
		case c.Status == string(metav1.ConditionTrue):
			if but := baseline.Caveat(have); but != "" {
				remarks = append(remarks, but)
			}
		case passed(c):
			remarks = append(remarks, "But currently: "+c.Message)
		case c.Reason == baseline.ReasonSidecarAbsent && len(r.Mesh) > 0 && len(meshServices(have)) > 0:
			by, _ := r.ledByMesh(m, r.holders())
			if !by.IsTrue() {
				return by
			}
			led, meshed = led-1, meshed+1
			remarks = append(remarks, by.Message)
		default:
			return condition.Condition{Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message}
		}
	}
	remarks = append(remarks, r.OutsideMesh()...)
	var message string
	switch {
	case meshed > 0 && led > 0:
		message = "Every pod of every other baseline that a Service selects has a ready DevMesh Sidecar."
	case meshed > 0:
	case unled == 0:
		message = "Every pod of every baseline has a ready DevMesh Sidecar."
	case led > 0:
		message = "Every pod of every baseline that a Service selects has a ready DevMesh Sidecar."
	}
	for _, remark := range remarks[:min(len(remarks), shown)] {
		message += " " + remark
	}
	if n := len(remarks) - shown; n > 0 {
		message += fmt.Sprintf(" And %d more of this kind.", n)
	}
	return condition.True("SidecarsReady", strings.TrimSpace(message))
}

// ConditionProxiesCurrent is a condition of RoutingConfigs that this operator adds: every proxy that
// can see its key has acknowledged the current rules.
const ConditionProxiesCurrent = "ProxiesCurrent"

// AnnotationAcknowledged, on a RoutingConfig, is the last digest (ToAcknowledge) that every proxy that
// can see its key has acknowledged.
const AnnotationAcknowledged = "signadot.com/acknowledged"

// ReasonNotAwaited is the reason of ProxiesCurrent if the installation does not wait for proxies.
const ReasonNotAwaited = "NotAwaited"

// recorded is the part of a member's status that its fact has.
type recorded struct {
	UID       string
	Baseline  crdv1.ObjectRef
	Identity  string
	Services  []crdv1.ServiceMapping
	Available bool
}

// ToAcknowledge returns the digest of the content that proxies have to acknowledge: the declaration of
// the RoutingConfig and the facts of its members, according to their status; followed by a slash and
// the digest of the custom headers that carry keys, if there are any. It does not change with the pods
// of baselines, nor with those of forks while the fork is available. It ignores the addresses of
// Services.
func (r Routing) ToAcknowledge() string {
	sum := sha256.New()
	// Neither can fail: the messages have valid text only, as the API server returns it.
	declared, _ := proto.MarshalOptions{Deterministic: true}.Marshal(r.named())
	sum.Write(declared)
	for _, m := range r.Named() {
		have := r.Member(m)
		if have == nil {
			continue
		}
		s := recorded{UID: string(have.GetUID()), Available: serves(have)}
		s.Baseline, _ = have.BaselineRef()
		if b := have.ObservedBaseline(); b != nil {
			s.Identity = b.WorkloadID
		}
		if r := have.RoutingInfo(); r != nil {
			s.Services = r.Services
		}
		text, _ := json.Marshal(s)
		sum.Write(text)
	}
	rules := hex.EncodeToString(sum.Sum(nil)[:12])
	if len(r.KeyHeaders) == 0 {
		return rules
	}
	headers := sha256.Sum256([]byte(strings.Join(r.KeyHeaders, ",")))
	return rules + "/" + hex.EncodeToString(headers[:6])
}

// serves reports whether a member can answer requests now. A virtual workload always can, since its
// requests reach the baseline.
func serves(m crdv1.Member) bool {
	t, ok := map[string]string{
		crdv1.KindForkedWorkload:   crdv1.ConditionForkAvailable,
		crdv1.KindExternalWorkload: crdv1.ConditionTunnelConnected,
	}[m.MemberKind()]
	if !ok {
		return true
	}
	c := crdv1.FindCondition(*m.StatusConditions(), t)
	return c != nil && c.Status == string(metav1.ConditionTrue)
}

// Acknowledged reports whether every proxy that can see the key has acknowledged the current digest.
func (r Routing) Acknowledged() bool {
	return r.Config.Annotations[AnnotationAcknowledged] == r.ToAcknowledge()
}

// Recorded reports whether the log has the facts of the status of every member. Before that, an
// acknowledgement would be of earlier facts.
func (r Routing) Recorded() bool {
	for _, m := range r.Members {
		if !member.Recorded(m) {
			return false
		}
	}
	return true
}

// Idle reports whether no member could ever get requests under the key, so that no proxy
// will have anything to acknowledge.
func (r Routing) Idle() bool {
	for _, m := range r.Named() {
		if have := r.Member(m); have == nil || TakesRequests(have) {
			return false
		}
	}
	return true
}

// ProxiesCurrent returns the condition that every proxy that can see the key has its current rules. It
// does not simply copy the condition of the RoutingConfig, which may be older than the last change of a
// member.
func (r Routing) ProxiesCurrent() condition.Condition {
	have := crdv1.FindCondition(r.Config.Status.Conditions, ConditionProxiesCurrent)
	switch {
	case have == nil:
		return r.Getting()
	case have.Reason == ReasonNotAwaited, r.Idle(), r.Acknowledged():
		return condition.True(have.Reason, have.Message)
	case have.Status == string(metav1.ConditionTrue): // stale
		return r.Getting()
	}
	return condition.Condition{Status: metav1.ConditionStatus(have.Status), Reason: have.Reason, Message: have.Message}
}

// Getting returns the condition that proxies get to know the rules just now.
func (r Routing) Getting() condition.Condition {
	return condition.Unknown(crdv1.ReasonPending, fmt.Sprintf("The proxies that can see routing key %q are getting its rules.", r.Config.RoutingKey()))
}
