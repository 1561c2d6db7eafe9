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
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/member"
)

// ConditionProxiesCurrent is a condition of RoutingConfigs that this operator adds: every proxy that
// can see its key has acknowledged the current rules.
const ConditionProxiesCurrent = "ProxiesCurrent"

// AnnotationAcknowledged, on a RoutingConfig, is the last digest (ToAcknowledge) that every proxy that
// can see its key has acknowledged.
const AnnotationAcknowledged = "signadot.com/acknowledged"

// ReasonNotAwaited is the reason of ProxiesCurrent if the installation does not wait for proxies.
const ReasonNotAwaited = "NotAwaited"

// said is the part of a member's status that its fact has.
type said struct {
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
		s := said{UID: string(have.GetUID()), Available: serves(have)}
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
