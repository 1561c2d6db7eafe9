package manager

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/elide"
)

// Elision names headers that are removed in all captures.
type Elision struct{ RequestHeaders, ResponseHeaders []string }

const defaultBody = 64 << 10

// capturesOf returns the captures of a pod, by UID: those of its namespace, of all for "", that the manager has attached to it.
func capturesOf(namespace string, pod types.UID, all []crdv1.TrafficCapture, always Elision) (out []*trafficv1.Capture) {
	for i := range all {
		c := &all[i]
		at := lists.Filter(c.Status.Pods, func(p crdv1.CapturedPod) bool { return p.UID == pod })
		if namespace != "" && c.Namespace != namespace || pod == "" || len(at) == 0 {
			continue
		}
		body, elide := int32(defaultBody), cmp.Or(c.Spec.Elide, &crdv1.CaptureElision{})
		if c.Spec.Limits.BodyBytes != nil {
			body = *c.Spec.Limits.BodyBytes
		}
		out = append(out, &trafficv1.Capture{
			Uid: string(c.UID), Name: c.Name, Namespace: c.Namespace, RoutingKey: c.Status.RoutingKey,
			BodyBytes: uint32(max(0, body)), Sample: float64(cmp.Or(c.Spec.SamplePercent, 100)) / 100, //nolint:gosec // not negative
			RequestHeadersElided:  slices.Concat(always.RequestHeaders, texts(elide.RequestHeaders)),
			ResponseHeadersElided: slices.Concat(always.ResponseHeaders, texts(elide.ResponseHeaders)),
			JsonPathsElided:       texts(elide.JSONPaths),
			Ports:                 portsOf(c.Namespace, at),
			Traces:                c.Spec.Traces, RoutingKeys: c.Spec.RoutingKeys, ExceptRoutingKeys: c.Spec.ExceptRoutingKeys,
		})
		one := out[len(out)-1]
		if restricted(one) { // Older containers record nothing.
			one.Sample, one.Restricted = 0, one.Sample
		}
		if c.Spec.Override != nil { // Nothing is recorded; older containers pass requests on.
			one.Sample, one.Restricted, one.BodyBytes = 0, 0, 0
		}
	}
	slices.SortFunc(out, func(a, b *trafficv1.Capture) int { return cmp.Compare(a.Uid, b.Uid) })
	return out
}

// overridesOf returns the override of a pod with these captures; nil: it has none. Of several it is the first. Those that are not
// for all requests are some. One that is being deleted has ended, before its requests take another way.
func overridesOf(captures []*trafficv1.Capture, all []crdv1.TrafficCapture) (one *trafficv1.Override, some []*trafficv1.Override) {
	for _, of := range captures {
		c := lists.First(lists.Pointers(all), func(c *crdv1.TrafficCapture) bool {
			return string(c.UID) == of.GetUid() && c.Spec.Override != nil && c.DeletionTimestamp == nil
		})
		if c == nil {
			continue
		}
		o := &trafficv1.Override{
			Uid: of.GetUid(), RoutingKey: of.GetRoutingKey(), OtherKeys: c.Status.OtherRoutingKeys, ByStatus: c.Spec.Override.ByStatus,
			RoutingKeys: c.Spec.RoutingKeys, ExceptRoutingKeys: c.Spec.ExceptRoutingKeys,
			ExceptStatuses: lists.Map(c.Spec.Override.ExceptStatuses, func(status int32) uint32 { return uint32(max(0, status)) }), //nolint:gosec // not negative
			Targets: lists.Map(c.Spec.Override.Targets, func(t crdv1.OverrideTarget) *trafficv1.OverrideTarget {
				return &trafficv1.OverrideTarget{Application: uint32(t.Port), Address: t.Address} //nolint:gosec // a port
			}),
		}
		if restricted(of) {
			some = append(some, o)
		} else if one == nil {
			one = o
		}
	}
	return one, some
}

// restricted reports whether a capture is not for all requests of its members.
func restricted(c *trafficv1.Capture) bool {
	return c.GetTraces() != "" || len(c.GetRoutingKeys())+len(c.GetExceptRoutingKeys()) > 0
}

// clearUnfit clears those of these captures that a container cannot apply, and returns why, by UID: they record nothing, and their
// ports pass requests on. As they were, the container would report a problem of all its captures, which can be of other namespaces.
func clearUnfit(all []*trafficv1.Capture) (unfit map[string]string) {
	unfit = map[string]string{}
	for _, c := range all {
		if _, err := elide.New(c); err != nil {
			unfit[c.GetUid()] = err.Error()
			c.JsonPathsElided, c.Sample, c.Restricted, c.Traces = nil, 0, 0, ""
		}
	}
	return unfit
}

// stateOf returns what a container has reported of these captures, which it has got last, except those that are unfit.
func stateOf(report *trafficv1.Applied, captures []*trafficv1.Capture, last *trafficv1.Attachments, unfit map[string]string, of source) state {
	s := state{source: of, problem: clip(report.GetProblem())}
	s.applied, s.unknown = appliedBy(report, unchanged(captures, last.GetCaptures()), last)
	s.applied, s.problems = withoutProblems(report, s.applied, last.GetCaptures(), unfit)
	return s
}

// unchanged returns the UIDs of captures, without those that have other ports or destinations in the newest ones.
func unchanged(captures, newest []*trafficv1.Capture) []string {
	same := func(c *trafficv1.Capture) bool {
		return !slices.ContainsFunc(newest, func(n *trafficv1.Capture) bool {
			return n.GetUid() == c.GetUid() && !slices.EqualFunc(n.GetPorts(), c.GetPorts(), func(a, b *trafficv1.Port) bool { return proto.Equal(a, b) })
		})
	}
	return lists.Map(lists.Filter(captures, same), (*trafficv1.Capture).GetUid)
}

// appliedBy returns which of these captures a container has applied by its report, and which it does not know: one of an earlier
// release does not override, or records no captures of some requests.
func appliedBy(report *trafficv1.Applied, captures []string, last *trafficv1.Attachments) (applied []string, unknown map[string]bool) {
	unknown = map[string]bool{}
	for _, c := range last.GetCaptures() {
		if restricted(c) && !report.GetRestricts() || c.GetUid() == last.GetOverride().GetUid() && !report.GetOverrides() {
			unknown[c.GetUid()] = true
		}
	}
	return lists.Filter(captures, func(uid string) bool { return !unknown[uid] }), unknown
}

// withoutProblems returns those of these captures that are fit and have no port of which a pod got no answer, and the problems of the
// others.
func withoutProblems(report *trafficv1.Applied, applied []string, all []*trafficv1.Capture, unfit map[string]string) (rest []string, problems map[string]string) {
	problems = map[string]string{}
	maps.Copy(problems, unfit)
	for _, c := range all {
		for _, p := range c.GetPorts() {
			if why := report.GetUnanswered()[p.GetListening()]; why != "" {
				problems[c.GetUid()] = why
			}
		}
	}
	return lists.Filter(applied, func(uid string) bool { return problems[uid] == "" }), problems
}

// portsOf returns the ports of a capture in a pod. A pod of traffic-manager records several members.
func portsOf(namespace string, pods []crdv1.CapturedPod) (out []*trafficv1.Port) {
	for _, pod := range pods {
		for _, p := range pod.Ports {
			port := &trafficv1.Port{Application: uint32(p.Application), Listening: uint32(p.Listening), To: p.To} //nolint:gosec // ports
			if kind, name := crdv1.CapturedMember(pod.Workload); kind != crdv1.KindForkedWorkload {
				port.Member = kind + "/" + namespace + "/" + name
			}
			out = append(out, port)
		}
	}
	return out
}

func texts[T ~string](all []T) []string {
	return lists.Map(all, func(one T) string { return string(one) })
}

// ended reports whether a capture has ended and is attached to no pod.
func ended(c *crdv1.TrafficCapture) bool {
	return len(c.Status.Pods) == 0 && slices.ContainsFunc(c.Status.Conditions, func(s crdv1.StatusCondition) bool {
		return s.Type == crdv1.ConditionEnded && s.Status == "True"
	})
}
