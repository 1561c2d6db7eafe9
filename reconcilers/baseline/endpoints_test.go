package baseline

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// A Service without a selector whose endpoints are the workload's pods counts as a Service,
// with the ports that its EndpointSlices give: these are what kube-proxy leads to, while
// targetPort means nothing there. Whether a workload is led to is decided the same for its
// members and for coverage.
func TestAServiceWithoutSelectorCanTargetPods(t *testing.T) {
	labels := map[string]string{"app": "a"}
	w := &Workload{Template: &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}}}
	http, grpc := corev1.ServicePort{Name: "http", Port: 80}, corev1.ServicePort{Name: "grpc", Port: 81, TargetPort: intstr.FromInt32(9)}
	pod := podOf("a", "h", map[string]string{"app": "a"})
	pod.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.7"}, {IP: "fd00::7"}}
	led := discoveryv1.Endpoint{Addresses: []string{"10.0.0.7"}}
	service := func() *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{http, grpc}}}
	}
	for name, tt := range map[string]struct {
		service func(*corev1.Service)
		pod     func(*corev1.Pod)
		end     discoveryv1.Endpoint
		want    []int32
	}{
		"its address":                    {nil, nil, led, []int32{8080}},
		"another of its addresses":       {nil, nil, discoveryv1.Endpoint{Addresses: []string{"fd00::7"}}, []int32{8080}},
		"its name":                       {nil, nil, discoveryv1.Endpoint{TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: pod.Name}}, []int32{8080}},
		"not ready yet":                  {nil, nil, discoveryv1.Endpoint{Addresses: []string{"10.0.0.7"}, Conditions: discoveryv1.EndpointConditions{Ready: new(false)}}, []int32{8080}},
		"somebody else":                  {nil, nil, discoveryv1.Endpoint{Addresses: []string{"192.0.2.1"}}, nil},
		"a node":                         {nil, func(p *corev1.Pod) { p.Spec.HostNetwork = true }, led, nil},
		"a pod that has ended":           {nil, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, led, nil},
		"a pod of a fork":                {nil, func(p *corev1.Pod) { p.Labels = map[string]string{crdv1.LabelForkedWorkload: "f"} }, led, nil},
		"a port that no slice has":       {func(s *corev1.Service) { s.Spec.Ports[0].Name = "web" }, nil, led, nil},
		"a port of another protocol":     {func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP }, nil, led, nil},
		"a Service that is not routed":   {func(s *corev1.Service) { s.Annotations = map[string]string{crdv1.AnnotationIgnore: "true"} }, nil, led, nil},
		"a name for a host elsewhere":    {func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }, nil, led, nil},
		"a Service of a member":          {func(s *corev1.Service) { s.Labels = map[string]string{crdv1.LabelExternalWorkload: "x"} }, nil, led, nil},
		"one with a selector of its own": {func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "b"} }, nil, led, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, p := service(), pod.DeepCopy()
			if tt.service != nil {
				tt.service(s)
			}
			if tt.pod != nil {
				tt.pod(p)
			}
			slice := sliceOf("s", tt.end)
			slice.Ports = []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080))}, {Name: new("admin"), Port: new(int32(9090))}}
			given := []corev1.Service{*s.DeepCopy()}
			out, err := WithEndpoints(t.Context(), members(t, []client.Object{slice}).Client, w, []corev1.Pod{*p}, given)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(*s, given[0]); diff != "" {
				t.Errorf("what the cache shares was changed: %s", diff)
			}
			var got []int32
			live := Forms{Template: w.Template, Pods: []corev1.Pod{*p}}
			for i := range out {
				for _, port := range out[i].Spec.Ports {
					if live.Selected(&out[i]) {
						got = append(got, live.ListenOn(port)...)
					}
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			paths := NewPaths([]corev1.Service{*s}, []discoveryv1.EndpointSlice{*slice})
			if led := paths.LeadTo("ns", labels, []*corev1.Pod{p}); led != (tt.want != nil) {
				t.Errorf("coverage says that it is led to: %t", led)
			}
		})
	}
}

func TestWhetherAServiceSelectsAWorkload(t *testing.T) {
	selecting := func(namespace string, selector map[string]string) corev1.Service {
		return corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s"}, Spec: corev1.ServiceSpec{Selector: selector}}
	}
	old := podOf("a", "old", map[string]string{"app": "a", "version": "v1"})
	template := map[string]string{"app": "a", "version": "v2"}
	for name, tt := range map[string]struct {
		service corev1.Service
		labels  map[string]string
		pods    []*corev1.Pod
		want    bool
	}{
		"to what its pods are made from": {selecting("ns", map[string]string{"version": "v2"}), template, nil, true},
		"to old pods alone":              {selecting("ns", map[string]string{"version": "v1"}), template, []*corev1.Pod{old}, true},
		"to pods of an unknown template": {selecting("ns", map[string]string{"app": "a"}), nil, []*corev1.Pod{old}, true},
		"to another workload":            {selecting("ns", map[string]string{"app": "b"}), template, []*corev1.Pod{old}, false},
		"in another namespace":           {selecting("other", map[string]string{"app": "a"}), template, []*corev1.Pod{old}, false},
		"to nobody":                      {selecting("ns", nil), template, []*corev1.Pod{old}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := NewPaths([]corev1.Service{tt.service}, nil).LeadTo("ns", tt.labels, tt.pods); got != tt.want {
				t.Errorf("it is led to: %t", got)
			}
		})
	}
}
