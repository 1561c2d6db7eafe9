package externalworkload

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/member/recorders"
)

// While a TrafficCapture is attached, each Service has a second one, with endpoints in the pods of traffic-manager, which
// record requests and pass them on to the first (decision record 0087). While the requests of the external workload are
// redirected, the second one replaces the Service of the baseline.

// capture adds second Services and their endpoints.
func (d *Decision) capture(in Input) {
	r := recorders.Of(in.Captures, crdv1.CapturedName(crdv1.KindExternalWorkload, in.Workload.Name))
	if len(r.Listening) == 0 || d.Standing != nil {
		return
	}
	for i := range d.Services {
		first := d.Services[i].Service
		if first == nil || !slices.ContainsFunc(first.Spec.Ports, r.Records) {
			continue
		}
		second := first.DeepCopy()
		second.Name = recorders.SecondName(first.Name)
		meta := func() metav1.ObjectMeta { return partOf(in.Workload, second.Name) }
		d.Slices = append(d.Slices, r.Slices(first, meta, d.Slices)...)
		if r.Redirected {
			d.Services[i].Service, second = second, first
		}
		d.Beside = append(d.Beside, member.Mapping{From: second.Name, Service: second})
	}
}

// firsts replaces second Services among those to keep while the baseline is not known: without it no capture is attached.
func firsts(in Input, all []member.Mapping, standing map[string]*corev1.Service) {
	for _, m := range all {
		s := standing[m.From]
		if s == nil {
			continue
		}
		first := partOf(in.Workload, m.From).Name
		have := lists.First(lists.Pointers(in.Services), func(o *corev1.Service) bool { return o.Name == first })
		if s.Name == recorders.SecondName(first) && have != nil {
			standing[m.From] = have
		}
	}
}
