package routingconfig

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/receipt"
	"switchyard.dev/sidecars/devmesh"
)

// ConditionProxiesCurrent is a condition that we add to those of a RoutingConfig:
// every proxy that can see its key has acknowledged what the key means.
const ConditionProxiesCurrent = "ProxiesCurrent"

// AnnotationAcknowledged on a RoutingConfig is the digest of what every
// proxy that can see its key has acknowledged last: that of its rules and, behind a
// slash, that of the custom headers that carry keys, if there are any.
const AnnotationAcknowledged = "signadot.com/acknowledged"

// Reasons of the condition ProxiesCurrent, beside Pending.
const (
	// ReasonNotAwaited: nobody asks, because the installation says so.
	ReasonNotAwaited = "NotAwaited"
	// ReasonProxiesBehind: some have not acknowledged.
	ReasonProxiesBehind = "ProxiesBehind"
	// ReasonRouteServerUnavailable: not all route servers can be asked.
	ReasonRouteServerUnavailable = "RouteServerUnavailable"
)

// shownProxies is how many proxies a message names.
const shownProxies = 3

// Receipt is what is known of who has acknowledged the declaration.
type Receipt struct {
	// Waived: nobody asks.
	Waived bool
	// Answer is what is known of it; zero when nothing is, or
	// nothing was asked.
	Answer receipt.Answer
}

// inputOf is the Input of a RoutingConfig whose members are all given.
func inputOf(c *crdv1.RoutingConfig, all []crdv1.Member) Input {
	in := Input{Config: c, Members: map[MemberName]crdv1.Member{}}
	for _, m := range all {
		if m != nil {
			in.Members[NameOf(m)] = m
		}
	}
	return in
}

// said is what the status of a member says about its fact.
type said struct {
	UID       string
	Baseline  crdv1.ObjectRef
	Identity  string
	Services  []crdv1.ServiceMapping
	Available bool
}

// digest returns a digest of what has to be acknowledged: what the RoutingConfig
// declares, and what the status of its members says that the log says of them. It
// does not change with the pods of baselines, nor with those of forks as long as the
// fork is available. Of two Services of one name the addresses are not told apart.
func digest(in Input) string {
	sum := sha256.New()
	// Neither can fail: the messages hold valid text only, as the API server gives it.
	declared, _ := proto.MarshalOptions{Deterministic: true}.Marshal(declaration(in))
	sum.Write(declared)
	for _, m := range members(in) {
		have := in.member(m)
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
	return hex.EncodeToString(sum.Sum(nil)[:12])
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

// idle says that the key leads nowhere for good: no member is named that could ever have
// requests. Nobody will have anything to acknowledge then.
func idle(in Input) bool {
	for _, m := range members(in) {
		if have := in.member(m); have == nil || takesRequests(have) {
			return false
		}
	}
	return true
}

// toAsk reports whether it is time to ask: the declaration is on the log, and so is
// what there is to know of every member. False also where there is nobody to ask.
func toAsk(in Input, d Decision, p Published) bool {
	return d.Declaration != nil && p.Err == nil && !idle(in) &&
		d.Conditions[crdv1.ConditionWorkloadsFound].IsTrue() && recorded(in)
}

// recorded reports whether the log holds what the status of every member says. Without
// that, proxies would acknowledge what was before, and it be taken for what is now.
func recorded(in Input) bool {
	for _, m := range in.Members {
		if !member.Recorded(m) {
			return false
		}
	}
	return true
}

// toAcknowledge returns the digest of all that has to be acknowledged: the rules
// and the headers that carry keys.
func toAcknowledge(in Input) string {
	if len(in.KeyHeaders) == 0 {
		return digest(in)
	}
	sum := sha256.Sum256([]byte(strings.Join(in.KeyHeaders, ",")))
	return digest(in) + "/" + hex.EncodeToString(sum[:6])
}

// acknowledged reports whether what is there now has been acknowledged.
func acknowledged(in Input) bool {
	return in.Config.Annotations[AnnotationAcknowledged] == toAcknowledge(in)
}

// rulesAcknowledged reports whether the rules that are there now have been
// acknowledged, with whichever headers. It is what an owner can tell: when the
// headers change, the RoutingConfig's own controller takes the note away.
func rulesAcknowledged(in Input) bool {
	rules, _, _ := strings.Cut(in.Config.Annotations[AnnotationAcknowledged], "/")
	return rules == digest(in)
}

// ProxiesCurrent says, for whoever owns a RoutingConfig, whether every proxy that can see its
// key knows what it means with these members, which are all that it has. The
// RoutingConfig itself may not have been looked at since one of them changed, so its
// condition alone does not tell.
func ProxiesCurrent(c *crdv1.RoutingConfig, members []crdv1.Member) condition.Condition {
	return proxiesCurrent(inputOf(c, members))
}

// proxiesCurrent is Known of a RoutingConfig whose members are all given.
func proxiesCurrent(in Input) condition.Condition {
	c := in.Config
	have := crdv1.FindCondition(c.Status.Conditions, ConditionProxiesCurrent)
	switch {
	case have == nil:
		return getting(in)
	case have.Reason == ReasonNotAwaited, idle(in), rulesAcknowledged(in):
		return condition.True(have.Reason, have.Message)
	case have.Status == string(metav1.ConditionTrue): // of what it meant before
		return getting(in)
	}
	return condition.Condition{Status: metav1.ConditionStatus(have.Status), Reason: have.Reason, Message: have.Message}
}

// getting says that proxies get to know the rules just now.
func getting(in Input) condition.Condition {
	return condition.Unknown(crdv1.ReasonPending, fmt.Sprintf("The proxies that can see routing key %q are getting its rules.", in.Config.RoutingKey()))
}

// proxies reports whether every proxy that can see the key knows it.
func proxies(in Input, d Decision, p Published, r Receipt) condition.Condition {
	key := in.Config.RoutingKey()
	a := r.Answer
	switch {
	case r.Waived:
		return condition.True(ReasonNotAwaited, "Proxies are not waited for: routing.waitForProxies is false.")
	case d.Declaration != nil && idle(in):
		return condition.True(ConditionProxiesCurrent, fmt.Sprintf("Routing key %q reaches no workload, so no proxy has to know it.", key))
	case a.Had:
		return condition.True(ConditionProxiesCurrent, fmt.Sprintf("Every proxy that can see routing key %q has acknowledged its rules.", key))
	case !toAsk(in, d, p):
		return condition.Unknown(crdv1.ReasonPending, "Proxies are asked once the rules are on the routing log and the Services of every workload are known.")
	case a.Trouble != "":
		return condition.Unknown(ReasonRouteServerUnavailable, fmt.Sprintf(
			"Cannot ask the route servers which proxies have routing key %q: %s. Check that Deployment signadot/routeserver is up; retrying.", key, a.Trouble))
	case len(a.Behind) > 0, len(a.Missing) > 0 && len(a.Silent) == 0: // who is silent may have those that are missing
		return condition.False(ReasonProxiesBehind, behind(key, a))
	case len(a.Silent) > 0:
		return condition.Unknown(ReasonRouteServerUnavailable, fmt.Sprintf(
			"It is not known which proxies have routing key %q: these route servers do not answer: %s. Retrying.", key, strings.Join(a.Silent, ", ")))
	}
	return getting(in)
}

// behind names the proxies that are behind.
func behind(key string, a receipt.Answer) string {
	var names []string
	for _, p := range a.Behind {
		name := p.Pod + " (behind)"
		if p.Rejected != "" {
			name = fmt.Sprintf("%s (it refused: %s)", p.Pod, p.Rejected)
		}
		names = append(names, name)
	}
	where := " (not connected to a route server)"
	if len(a.Silent) > 0 {
		where = " (not connected to a route server that answers)"
	}
	for _, pod := range a.Missing {
		names = append(names, pod+where)
	}
	slices.Sort(names)
	n, more := len(names), ""
	if n > shownProxies {
		more = fmt.Sprintf(" and %d more", n-shownProxies)
		names = names[:shownProxies]
	}
	pod := strings.Fields(names[0])[0]
	namespace, name, _ := strings.Cut(pod, "/")
	return fmt.Sprintf("%d of %d proxies that can see routing key %q have not acknowledged its rules: %s%s. If that lasts: kubectl logs -n %s %s -c %s",
		n, a.Proxies+len(a.Missing), key, strings.Join(names, ", "), more, namespace, name, devmesh.ContainerName)
}
