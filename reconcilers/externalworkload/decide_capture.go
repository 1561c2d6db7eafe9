package externalworkload

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/fork/services"
	"switchyard.dev/reconcilers/member"
)

// While a TrafficCapture is attached, each Service has a second one, with endpoints in the pods of traffic-manager, which
// record requests and pass them on to the first (decision record 0087). While the requests of the external workload are
// redirected, the second one replaces the Service of the baseline.

// readCaptures reads the captures that are attached for the external workload.
//
// +kubebuilder:rbac:groups=signadot.com,resources=trafficcaptures,verbs=get;list;watch
func (in *Input) readCaptures(ctx context.Context, c client.Reader) error {
	var all crdv1.TrafficCaptureList
	if err := c.List(ctx, &all, client.InNamespace(in.Workload.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list TrafficCaptures of namespace %s: %w", in.Workload.Namespace, err)
	}
	name := crdv1.CapturedName(crdv1.KindExternalWorkload, in.Workload.Name)
	in.Captures = lists.Filter(all.Items, func(t crdv1.TrafficCapture) bool { return t.AttachedTo(name) })
	return nil
}

// byCapture maps a capture to the external workloads that it is attached for.
func byCapture(_ context.Context, o client.Object) (out []reconcile.Request) {
	t, is := o.(*crdv1.TrafficCapture)
	if !is {
		return nil
	}
	for _, name := range lists.Unique(lists.Map(t.Status.Pods, func(p crdv1.CapturedPod) string { return p.Workload })) {
		if kind, name := crdv1.CapturedMember(name); kind == crdv1.KindExternalWorkload {
			out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: t.Namespace, Name: name}})
		}
	}
	return out
}

// captureChanged filters out updates of a capture that no Service and no endpoint depends on.
func captureChanged(before, after client.Object) bool {
	b, okB := before.(*crdv1.TrafficCapture)
	a, okA := after.(*crdv1.TrafficCapture)
	return !okA || !okB || fmt.Sprint(b.Status.Pods, b.Status.Redirected) != fmt.Sprint(a.Status.Pods, a.Status.Redirected)
}

// recorders are what captures attach for an external workload.
type recorders struct {
	// listening are ports of traffic-manager by ports of the application, and addresses those of its pods that listen.
	listening  map[int32]int32
	addresses  []string
	redirected bool
}

func (in Input) recorders() recorders {
	name := crdv1.CapturedName(crdv1.KindExternalWorkload, in.Workload.Name)
	r := recorders{listening: map[int32]int32{}}
	for i := range in.Captures {
		c := &in.Captures[i]
		r.redirected = r.redirected || c.Redirects(name) != nil
		for _, pod := range c.Status.Pods {
			if pod.Workload != name {
				continue
			}
			for _, p := range pod.Ports {
				r.listening[p.Application] = p.Listening
			}
			if pod.Applied {
				r.addresses = append(r.addresses, pod.Addresses...)
			}
		}
	}
	r.addresses = lists.Unique(r.addresses)
	return r
}

// capture adds second Services and their endpoints.
func (d *Decision) capture(in Input) {
	r := in.recorders()
	if len(r.listening) == 0 || d.Standing != nil {
		return
	}
	for i := range d.Services {
		first := d.Services[i].Service
		if first == nil || !slices.ContainsFunc(first.Spec.Ports, r.records) {
			continue
		}
		second := first.DeepCopy()
		second.Name = services.TrafficName(first.Name, false)
		d.Slices = append(d.Slices, r.slices(in, first, second.Name, d.Slices)...)
		if r.redirected {
			d.Services[i].Service, second = second, first
		}
		d.Beside = append(d.Beside, member.Mapping{From: second.Name, Service: second})
	}
}

func (r recorders) records(p corev1.ServicePort) bool { return r.listening[p.TargetPort.IntVal] != 0 }

// slices returns the endpoints of a second Service: those ports that are recorded are traffic-manager's, and the others
// have the endpoints of the first Service, which are among have.
func (r recorders) slices(in Input, first *corev1.Service, second string, have []*discoveryv1.EndpointSlice) (out []*discoveryv1.EndpointSlice) {
	recorded := lists.Filter(first.Spec.Ports, r.records)
	for _, s := range have {
		if s.Labels[discoveryv1.LabelServiceName] != first.Name {
			continue
		}
		rest := s.DeepCopy()
		rest.Ports = slices.DeleteFunc(rest.Ports, func(p discoveryv1.EndpointPort) bool {
			return slices.ContainsFunc(recorded, func(of corev1.ServicePort) bool { return *p.Name == of.Name })
		})
		if len(rest.Ports) > 0 {
			rest.Name = crdv1.ObjectName(crdv1.MaxServiceName, second, string(rest.AddressType))
			rest.Labels[discoveryv1.LabelServiceName] = second
			out = append(out, rest)
		}
	}
	ready, terminating := true, false
	byFamily := map[discoveryv1.AddressType][]discoveryv1.Endpoint{}
	for _, text := range r.addresses {
		family := discoveryv1.AddressTypeIPv4
		if address, err := netip.ParseAddr(text); err != nil {
			continue
		} else if address.Is6() {
			family = discoveryv1.AddressTypeIPv6
		}
		byFamily[family] = append(byFamily[family], discoveryv1.Endpoint{
			Addresses: []string{text}, Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &ready, Terminating: &terminating},
		})
	}
	for _, family := range []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6} {
		if len(byFamily[family]) == 0 {
			continue
		}
		s := &discoveryv1.EndpointSlice{
			TypeMeta:   metav1.TypeMeta{APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice"},
			ObjectMeta: partOf(in.Workload, second), AddressType: family, Endpoints: byFamily[family],
		}
		s.Name = crdv1.ObjectName(crdv1.MaxServiceName, second, "recorders", string(family))
		s.Labels[discoveryv1.LabelServiceName], s.Labels[discoveryv1.LabelManagedBy] = second, managedBy
		for _, p := range recorded {
			port := r.listening[p.TargetPort.IntVal]
			s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: &p.Name, Protocol: &p.Protocol, Port: &port, AppProtocol: p.AppProtocol})
		}
		out = append(out, s)
	}
	return out
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
		if s.Name == services.TrafficName(first, false) && have != nil {
			standing[m.From] = have
		}
	}
}
