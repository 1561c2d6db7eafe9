package manager

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
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
		})
	}
	slices.SortFunc(out, func(a, b *trafficv1.Capture) int { return cmp.Compare(a.Uid, b.Uid) })
	return out
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
