package virtualworkload

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/member/recorders"
)

// While a TrafficCapture is attached, each Service of the baseline has a second one, with endpoints in the pods of traffic-manager,
// which record requests and pass them on to the pod that they were sent to (decision record 0092). While requests are redirected, the
// status and the fact have the second one.

// readOwn reads the captures that are attached, and the objects that were created for them.
//
// +kubebuilder:rbac:groups=signadot.com,resources=trafficcaptures,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=get;list;watch
func (in *Input) readOwn(ctx context.Context, c client.Reader) (err error) {
	w := in.Workload
	var services corev1.ServiceList
	var endpoints discoveryv1.EndpointSliceList
	for _, list := range []client.ObjectList{&services, &endpoints} {
		err = c.List(ctx, list, client.InNamespace(w.Namespace), client.MatchingFields{apply.IndexOwner: string(w.UID)}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return fmt.Errorf("list the objects of VirtualWorkload %s/%s: %w", w.Namespace, w.Name, err)
		}
	}
	in.Own, in.Slices = services.Items, endpoints.Items
	in.Captures, err = recorders.AttachedTo(ctx, c, w)
	return err
}

// capture adds second Services and their endpoints.
func (d *Decision) capture(in Input) {
	r := recorders.Of(in.Captures, crdv1.CapturedName(crdv1.KindVirtualWorkload, in.Workload.Name))
	if len(r.Listening) > 0 && in.Known() {
		d.Returning = recorders.SidecarsOf(in.Pods).With > 0
		// What sidecars send elsewhere than back to them is sent to traffic-manager again, so no request is until it has the other destination.
		d.Redirected = r.Redirected && r.Returning == d.Returning
		v := recorders.VirtualOf(in.Workload, d.Services, in.Services)
		for i := range v.Firsts {
			d.second(in, r, &v.Firsts[i], v.Baselines[i])
		}
	}
	d.Surplus = member.SurplusServices(in.Own, in.Workload.UID, d.Seconds)
	d.SurplusSlices = member.Surplus(in.Slices, in.Workload.UID, d.Slices)
}

// second adds the second Service of one of the baseline's.
func (d *Decision) second(in Input, r recorders.Recorders, first *corev1.Service, of string) {
	s := first.DeepCopy()
	s.Name, s.Spec.ClusterIP = recorders.SecondName(first.Name), ""
	if s.Spec.Ports = lists.Filter(s.Spec.Ports, r.Records); len(s.Spec.Ports) == 0 {
		return
	}
	mapped := func(p corev1.ServicePort) crdv1.MappedPort {
		return crdv1.MappedPort{Port: p.Port, TargetPort: p.TargetPort.IntVal}
	}
	d.Seconds = append(d.Seconds, member.Mapping{From: of, Service: s, Ports: lists.Map(s.Spec.Ports, mapped)})
	d.Slices = append(d.Slices, r.Slices(first, func() metav1.ObjectMeta { return recorders.MetaOf(in.Workload, of) }, nil)...)
}

// surplus returns what no capture needs, for after the fact was stated: until then proxies route requests there.
func (d *Decision) surplus() []client.Object {
	return append(apply.Objects(d.Surplus), apply.Objects(d.SurplusSlices)...)
}

// act writes the second Services and their endpoints. It returns the ones that exist, by the baseline's, and refusals, also with an
// error.
//
// +kubebuilder:rbac:groups="",resources=services,verbs=create;patch;delete
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=create;patch;delete
// +kubebuilder:rbac:groups=signadot.com,resources=virtualworkloads/finalizers,verbs=update
func act(ctx context.Context, w apply.Writer, in Input, d Decision) (member.Made, error) {
	made, err := member.ApplyServices(ctx, w, in.Workload.UID, d.Seconds, in.Own, nil)
	made.CaptureRefusals = made.ServiceRefusals
	return made, errors.Join(err, member.ApplyAll(ctx, w, d.Slices, in.Slices, made.RefuseCapture))
}

// Redirect has the status and the fact name the second Services that have an address. made are those that exist, by the
// baseline's.
func (d *Decision) Redirect(made map[string]*corev1.Service) {
	for _, m := range d.Seconds {
		s, i := made[m.From], slices.IndexFunc(d.Services, func(of crdv1.ServiceMapping) bool { return of.From == m.From })
		if !d.Redirected || i < 0 || !member.Reachable(s) {
			continue
		}
		d.Services[i].To = s.Name
		for j, p := range d.Services[i].Ports {
			d.Services[i].Ports[j].KeptAtBaseline = !slices.Contains(m.Ports, p)
		}
		from := m.From
		if d.Returning {
			from = "" // Its sidecars alone send requests there: no mesh.
		}
		d.Pairs = append(d.Pairs, member.Pair(from, m.Ports, s))
	}
}

// pairs returns the Services for the fact: those of the baseline, with all their ports, and the second ones.
func pairs(services []crdv1.ServiceMapping, seconds []*factv1.ServicePair) []*factv1.ServicePair {
	first := func(s crdv1.ServiceMapping) *factv1.ServicePair { return member.Pair(s.From, s.Ports, nil) }
	return append(lists.Map(services, first), seconds...)
}
