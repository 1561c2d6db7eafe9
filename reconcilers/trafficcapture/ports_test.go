package trafficcapture

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/fork/services"
	"switchyard.dev/reconcilers/member/recorders"
	"switchyard.dev/reconcilers/routing"
)

// The cache lists Services in any order, and the first of several with a port of the application is the one that
// traffic-manager passes its requests on to.
func TestTheOrderOfServicesDoesNotCount(t *testing.T) {
	all := lists.Map([]string{"b", services.TrafficName("a", false), "c", "a", services.TrafficName("b", true)}, func(name string) (s corev1.Service) {
		s.Name = name
		return s
	})
	for range all {
		all = append(all[1:], all[0])
		before := slices.Clone(all)
		got := lists.Map(firstOf(all), func(s corev1.Service) string { return s.Name })
		if !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("they are %v", got)
		}
		if !slices.EqualFunc(all, before, func(a, b corev1.Service) bool { return a.Name == b.Name }) {
			t.Error("the list of the cache is changed")
		}
	}
}

func TestEachPortOfAMemberHasAListeningPortOfItsOwn(t *testing.T) {
	var book portBook
	now := time.Unix(0, 0)
	a, b := claim{"shop", "X/a", 80}, claim{"shop", "X/b", 80}
	attached := func(by claim, listening int32) crdv1.TrafficCapture {
		c := crdv1.TrafficCapture{}
		c.Namespace = by.namespace
		c.Status.Pods = []crdv1.CapturedPod{{Workload: by.member, Ports: []crdv1.CapturedPort{{Application: by.application, Listening: listening}}}, {Workload: "fork", Ports: []crdv1.CapturedPort{{Listening: FirstPort + 1}}}}
		return c
	}
	book.take([]crdv1.TrafficCapture{attached(b, FirstPort)}, nil, now) // of the former leader
	if got := book.of(a, now); got != FirstPort+1 {
		t.Errorf("a has %d", got)
	}
	if got := book.of(b, now); got != FirstPort {
		t.Errorf("b has %d", got)
	}
	book.take([]crdv1.TrafficCapture{attached(claim{"other", "X/a", 80}, FirstPort)}, nil, now)
	if got := book.of(b, now); got != FirstPort {
		t.Errorf("b has %d after another claim of its port", got)
	}
	later := now.Add(forgotten + time.Second)
	book.take([]crdv1.TrafficCapture{attached(a, FirstPort+1)}, nil, later)
	if got := book.of(claim{"shop", "X/c", 80}, later); got != FirstPort {
		t.Errorf("c has %d, and not the port that is free again", got)
	}
	for p := range int32(PortCount) {
		book.of(claim{"full", "X/a", p}, later)
	}
	if got := book.of(claim{"shop", "X/d", 80}, later); got != 0 {
		t.Errorf("d has %d, and none is free", got)
	}
}

// A capture that attaches no pod any more, as while traffic-manager has no ready one, leaves endpoints until proxies send no requests there.
// A manager that starts then gives their ports to no other member.
func TestAPortThatEndpointsHaveIsNotGivenToAnother(t *testing.T) {
	now := time.Unix(0, 0)
	first := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}}
	first.Spec.Ports = []corev1.ServicePort{{Name: "http", TargetPort: intstr.FromInt32(80)}}
	meta := func() metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "shop", Labels: map[string]string{}, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: crdv1.APIVersion, Kind: crdv1.KindVirtualWorkload, Name: "a", Controller: new(true)},
		}}
	}
	served := recorders.Recorders{Listening: map[int32]int32{80: FirstPort}, Addresses: []string{"10.0.0.1", "fd00::1"}}.Slices(first, meta, nil)
	tunnel := served[0].DeepCopy() // of the first Service
	tunnel.Name, tunnel.Ports[0].Port = "tunnel", new(int32(FirstPort+1))
	a, b := claim{"shop", "VirtualWorkload/a", 80}, claim{"shop", "VirtualWorkload/b", 80}
	var book portBook
	take := func(all []crdv1.TrafficCapture, now time.Time) {
		book.take(all, []discoveryv1.EndpointSlice{*served[0], *tunnel, *served[1]}, now)
	}
	take(nil, now)
	if got := book.of(b, now); got != FirstPort+1 {
		t.Errorf("b has %d", got)
	}
	take(nil, now.Add(forgotten))
	later := now.Add(2 * forgotten)
	if got := book.of(claim{"shop", "VirtualWorkload/c", 80}, later); got != FirstPort+1 { // which b does not have any more
		t.Errorf("c has %d, while the endpoints are there", got)
	}
	take([]crdv1.TrafficCapture{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Status: crdv1.TrafficCaptureStatus{
		Pods: []crdv1.CapturedPod{{Workload: "VirtualWorkload/a", Ports: []crdv1.CapturedPort{{Application: 80, Listening: FirstPort}}}},
	}}}, later)
	if got := book.of(a, later); got != FirstPort {
		t.Errorf("a has %d", got)
	}
}

// Anyone who can write EndpointSlices can use the operator's names and labels.
func TestPortsOfForeignEndpointsAreFree(t *testing.T) {
	slice := func(change func(s *discoveryv1.EndpointSlice)) discoveryv1.EndpointSlice {
		first := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}}
		first.Spec.Ports = []corev1.ServicePort{{Name: "http", TargetPort: intstr.FromInt32(80)}}
		meta := func() metav1.ObjectMeta {
			return metav1.ObjectMeta{Namespace: "shop", Labels: map[string]string{}, OwnerReferences: []metav1.OwnerReference{
				{APIVersion: crdv1.APIVersion, Kind: crdv1.KindExternalWorkload, Name: "a", Controller: new(true)},
			}}
		}
		s := recorders.Recorders{Listening: map[int32]int32{80: FirstPort}, Addresses: []string{"10.0.0.1"}}.Slices(first, meta, nil)[0]
		change(s)
		return *s
	}
	for name, c := range map[string]struct {
		change func(s *discoveryv1.EndpointSlice)
		want   int32
	}{
		"the operator's":     {func(*discoveryv1.EndpointSlice) {}, FirstPort + 1},
		"of another kind":    {func(s *discoveryv1.EndpointSlice) { s.OwnerReferences[0].Kind = crdv1.KindForkedWorkload }, FirstPort},
		"of another group":   {func(s *discoveryv1.EndpointSlice) { s.OwnerReferences[0].APIVersion = "apps/v1" }, FirstPort},
		"without controller": {func(s *discoveryv1.EndpointSlice) { s.OwnerReferences[0].Controller = nil }, FirstPort},
		"of another manager": {func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelManagedBy] = "other" }, FirstPort},
		"of another name":    {func(s *discoveryv1.EndpointSlice) { s.Name = "other" }, FirstPort},
	} {
		var book portBook
		book.take(nil, []discoveryv1.EndpointSlice{slice(c.change)}, time.Unix(0, 0))
		if got := book.of(claim{"shop", "SignadotExternalWorkload/b", 80}, time.Unix(0, 0)); got != c.want {
			t.Errorf("%s: b has %d, not %d", name, got, c.want)
		}
	}
}

// Without sidecars, traffic-manager passes requests on to a Service of the baseline that has an address.
func TestAHeadlessServiceIsNoDestination(t *testing.T) {
	f := memberOf(&crdv1.VirtualWorkload{})
	f.Routing = []routing.Routing{{Mesh: routing.MeshRoutes{crdv1.KindIstioRoute: nil}}}
	of := func(addresses ...string) (v recorders.Virtual) {
		for _, address := range addresses {
			v.Firsts = append(v.Firsts, corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: address}})
		}
		return v
	}
	none, all := recorders.Sidecars{Without: 1}, recorders.Sidecars{With: 1}
	for _, fits := range []*condition.Condition{f.trouble(none, of("10.0.0.9")), f.trouble(none, of("None", "10.0.0.9")), f.trouble(all, of("None"))} {
		if fits != nil {
			t.Errorf("%+v", *fits)
		}
	}
	if c := f.trouble(none, of("None")); c == nil || c.Reason != ReasonNoPorts {
		t.Errorf("a headless Service: %+v", c)
	}
	service := func(name, address string, ports ...int32) corev1.Service {
		return corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
			ClusterIP: address, Ports: lists.Map(ports, func(p int32) corev1.ServicePort { return corev1.ServicePort{Port: p, TargetPort: intstr.FromInt32(p)} }),
		}}
	}
	both := []corev1.Service{service("admin", "None", 9090), service("all", "None", 80, 9090), service("cart", "10.0.0.9", 80)}
	for _, c := range []struct {
		only     int32
		sidecars recorders.Sidecars
		to       []string
		services []string
	}{
		{0, none, []string{"10.0.0.9:80"}, []string{"all", "cart"}},
		{9090, none, nil, nil},
		{0, all, []string{"caller:80", "caller:9090"}, []string{"admin", "all", "cart"}},
		{80, all, []string{"caller:80"}, []string{"all", "cart"}},
	} {
		f.Ports, f.Services = nil, nil
		f.readPorts(both, c.only, c.sidecars, func(application int32) int32 { return application + 1 })
		to := lists.Map(f.Ports, func(p crdv1.CapturedPort) string { return p.To })
		if !slices.Equal(to, c.to) || !slices.Equal(f.Services, c.services) || len(f.Full) > 0 {
			t.Errorf("port %d, sidecars %+v: the ports are %+v, of Services %q; %v are full", c.only, c.sidecars, f.Ports, f.Services, f.Full)
		}
	}
	// No second Service is waited for that has no listening port.
	f.Ports, f.Services = nil, nil
	f.readPorts(both, 0, all, func(application int32) int32 { return application % 9090 })
	if len(f.Ports) != 1 || !slices.Equal(f.Full, []int32{9090}) || !slices.Equal(f.Services, []string{"all", "cart"}) {
		t.Errorf("the ports are %+v, of Services %q; %v are full", f.Ports, f.Services, f.Full)
	}
}

func TestHeadlessServicesBesideOthers(t *testing.T) {
	service := func(name, address string) corev1.Service {
		return corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{ClusterIP: address}}
	}
	all := []corev1.Service{service("all", "None"), service("cart", "10.0.0.9"), service("other", "None")}
	info := &crdv1.WorkloadRoutingInfo{Services: []crdv1.ServiceMapping{{From: "all"}, {From: "cart"}}}
	if got := headless(info, all); !slices.Equal(got, []string{"all"}) {
		t.Errorf("they are %q", got)
	}
	if got := headless(&crdv1.WorkloadRoutingInfo{Services: info.Services[:1]}, all); got != nil || headless(nil, all) != nil {
		t.Errorf("alone they are %q", got)
	}
}

// While requests of a fork are redirected, its Services have the ports of the container: a port that is added is among those of the
// application nonetheless.
func TestPortsOfAForkThatIsRecorded(t *testing.T) {
	f := memberOf(&crdv1.ForkedWorkload{ObjectMeta: metav1.ObjectMeta{Name: "cart"}})
	own := lists.Map([]string{"cart", services.TrafficName("cart", false)}, func(name string) corev1.Service {
		return corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
			Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(25800)}, {Port: 90, TargetPort: intstr.FromInt32(9090)}},
		}}
	})
	c := &crdv1.TrafficCapture{}
	c.Status.Pods = []crdv1.CapturedPod{{Workload: "cart", Ports: []crdv1.CapturedPort{{Application: 8080, Listening: 25800}}}}
	f.readServices(c, own, corev1.PodSpec{})
	if want := []crdv1.CapturedPort{{Application: 8080, Listening: 25800}, {Application: 9090, Listening: 25786}}; !slices.Equal(f.Ports, want) {
		t.Errorf("they are %+v", f.Ports)
	}
}
