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

// ConditionProxiesCurrent is a condition that we add to those of a RoutingConfig:
// every proxy that can see its key has acknowledged what the key means.
const ConditionProxiesCurrent = "ProxiesCurrent"

// AnnotationAcknowledged on a RoutingConfig is what every proxy that can see its key has
// acknowledged last, as ToAcknowledge returns it.
const AnnotationAcknowledged = "signadot.com/acknowledged"

// ReasonNotAwaited is the reason of ProxiesCurrent where nobody asks, because the
// installation says so.
const ReasonNotAwaited = "NotAwaited"

// said is what the status of a member says about its fact.
type said struct {
	UID       string
	Baseline  crdv1.ObjectRef
	Identity  string
	Services  []crdv1.ServiceMapping
	Available bool
}

// ToAcknowledge returns the digest of all that has to be acknowledged: of what the
// RoutingConfig declares, and of what the status of its members says that the log says of
// them; and behind a slash that of the headers that carry keys, if there are any. It
// does not change with the pods of baselines, nor with those of forks as long as the
// fork is available. Of two Services of one name the addresses are not told apart.
func (r Routing) ToAcknowledge() string {
	sum := sha256.New()
	// Neither can fail: the messages hold valid text only, as the API server gives it.
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

// serves reports whether requests that are led to a member are answered by it now. What
// is led to a virtual workload reaches its baseline at all times.
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

// Acknowledged reports whether every proxy that can see the key has acknowledged what is
// there now.
func (r Routing) Acknowledged() bool {
	return r.Config.Annotations[AnnotationAcknowledged] == r.ToAcknowledge()
}

// Recorded reports whether the log holds what the status of every member says. Without
// that, proxies would acknowledge what was before, and it be taken for what is now.
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

// ProxiesCurrent reports whether every proxy that can see the key knows what it means now.
// The condition of the RoutingConfig alone does not tell: it may be from before a member
// changed.
func (r Routing) ProxiesCurrent() condition.Condition {
	have := crdv1.FindCondition(r.Config.Status.Conditions, ConditionProxiesCurrent)
	switch {
	case have == nil:
		return r.Getting()
	case have.Reason == ReasonNotAwaited, r.Idle(), r.Acknowledged():
		return condition.True(have.Reason, have.Message)
	case have.Status == string(metav1.ConditionTrue): // of what it meant before
		return r.Getting()
	}
	return condition.Condition{Status: metav1.ConditionStatus(have.Status), Reason: have.Reason, Message: have.Message}
}

// Getting returns the condition that proxies get to know the rules just now.
func (r Routing) Getting() condition.Condition {
	return condition.Unknown(crdv1.ReasonPending, fmt.Sprintf("The proxies that can see routing key %q are getting its rules.", r.Config.RoutingKey()))
}
