package baseline

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/sidecars/inject"
)

// podOf returns a pod of the form hash of a workload.
func podOf(workload, hash string, labels map[string]string) *corev1.Pod {
	yes := true
	labels[appsv1.DefaultDeploymentUniqueLabelKey] = hash
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: workload + "-" + hash + "-" + labels["n"], Labels: labels,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: workload + "-" + hash, UID: "rs", Controller: &yes}},
	}}
}

// A Service leads to a baseline by all forms of its pods (Forms), so an event about it has
// to lead there by all of them, too.
func TestWhichMembersAServiceIsAbout(t *testing.T) {
	template := func(name string, labels map[string]string) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		d.Spec.Template.Labels = labels
		return d
	}
	elsewhere := podOf("a", "old", map[string]string{"version": "v1"})
	elsewhere.Namespace = "other"
	objects := []client.Object{
		template("a", map[string]string{"app": "a", "version": "v2"}),
		template("b", map[string]string{"app": "b", "version": "v2"}),
		podOf("a", "old", map[string]string{"app": "a", "version": "v1", "n": "1"}),
		podOf("a", "old", map[string]string{"app": "a", "version": "v1", "n": "2"}),
		podOf("a", "new", map[string]string{"app": "a", "version": "v2"}),
		podOf("b", "fork", map[string]string{"app": "b", "version": "v1", crdv1.LabelForkedWorkload: "of-b"}),
		elsewhere,
	}
	for _, name := range []string{"a", "b"} {
		w := &crdv1.ForkedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "of-" + name}}
		w.Spec.Baseline = crdv1.ObjectRef{APIVersion: "apps/v1", Kind: KindDeployment, Name: name}
		objects = append(objects, w)
	}
	// What a Service without a selector leads to, by an address and by a name.
	byAddress, named := podOf("a", "new", map[string]string{"app": "a", "version": "v3", "n": "3"}), "b-x-"
	byAddress.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.7"}}
	objects = append(objects, byAddress, podOf("b", "x", map[string]string{"version": "v4"}),
		sliceOf("foreign", discoveryv1.Endpoint{Addresses: []string{"192.0.2.1"}}),
		sliceOf("address", discoveryv1.Endpoint{Addresses: []string{"10.0.0.7"}}),
		sliceOf("both", discoveryv1.Endpoint{Addresses: []string{"10.0.0.7"}},
			discoveryv1.Endpoint{Addresses: []string{"10.0.0.8"}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: named}}))
	for name, c := range map[string]struct {
		selector map[string]string
		want     []string
	}{
		"foreign":                               {nil, nil},
		"address":                               {nil, []string{"of-a"}},
		"both":                                  {nil, []string{"of-a", "of-b"}},
		"one that selects pods by the template": {map[string]string{"app": "b"}, []string{"of-b"}},
		"one that selects the old pods of a roll-out":     {map[string]string{"app": "a", "version": "v1"}, []string{"of-a"}},
		"one that selects old and new pods, and the fork": {map[string]string{"app": "a"}, []string{"of-a"}},
		"one that selects pods of several baselines":      {map[string]string{"version": "v2"}, []string{"of-a", "of-b"}},
		"one that selects pods of a fork alone":           {map[string]string{"app": "b", "version": "v1"}, nil},
		"one that selects nobody":                         {map[string]string{"app": "x"}, nil},
		"one without a selector":                          {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, r := range members(t, objects).byService(t.Context(), &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: corev1.ServiceSpec{Selector: c.selector},
			}) {
				got = append(got, r.Name)
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("it leads to %v, not to %v", got, c.want)
			}
		})
	}
}

// A Service that selects pods of two workloads concerns the members of each when the other one is
// created, deleted or scaled.
func TestMembersOfANeighbour(t *testing.T) {
	deployment := func(name string, labels map[string]string) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		d.Spec.Template.Labels = labels
		return d
	}
	w := &crdv1.ForkedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "of-a"}}
	w.Spec.Baseline = crdv1.ObjectRef{APIVersion: "apps/v1", Kind: KindDeployment, Name: "a"}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "a"}}}
	objects := []client.Object{deployment("a", map[string]string{"app": "a", "track": "stable"}), w, service}
	canary := deployment("canary", map[string]string{"app": "a", "track": "canary"})
	fork := deployment("fork", map[string]string{"app": "a"})
	fork.Labels = map[string]string{crdv1.LabelForkedWorkload: "of-a"}
	for name, c := range map[string]struct {
		of   *appsv1.Deployment
		want int
	}{
		"a canary behind the Service": {canary, 1},
		"a fork":                      {fork, 0},
		"a workload of other pods":    {deployment("b", map[string]string{"app": "b"}), 0},
	} {
		if got := members(t, objects).byNeighbour(t.Context(), c.of); len(got) != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	none := int32(0)
	asleep := canary.DeepCopy()
	asleep.Spec.Replicas = &none
	counted := canary.DeepCopy()
	counted.Status.Replicas = 1
	if !selectionChanged(canary, asleep) || selectionChanged(canary, counted) {
		t.Error("a change to 0 replicas does not pass, or a change of the number of pods does")
	}
}

// holding is a cache that has only those pods that carry the injector's label.
type holding struct{ client.Client }

// PodsOf implements PodSource; nobody asks here.
func (h holding) PodsOf(context.Context, *Workload, labels.Selector) ([]corev1.Pod, error) {
	return nil, errors.New("the pods of one workload are not asked for")
}

// PodsHeld implements PodSource.
func (h holding) PodsHeld(ctx context.Context, namespace string) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := h.List(ctx, &pods, client.InNamespace(namespace))
	return pods.Items, err
}

// PodEvents implements PodSource; there are none here.
func (h holding) PodEvents(handler.EventHandler, ...predicate.Predicate) source.Source { return nil }

// An endpoint that is no pod in memory may be of any baseline that has pods which are not,
// and it is about no other: those that have all their pods in memory are not roused by
// every address that somebody writes.
func TestWhichMembersAnEndpointIsAboutThatIsNotInMemory(t *testing.T) {
	var objects []client.Object
	baseline := func(name string, counted int32) {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		d.Status.Replicas = counted
		w := &crdv1.ForkedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "of-" + name}}
		w.Spec.Baseline = crdv1.ObjectRef{APIVersion: "apps/v1", Kind: KindDeployment, Name: name}
		objects = append(objects, d, w)
	}
	held := func(workload, n, ip string) *corev1.Pod {
		p := podOf(workload, "h", map[string]string{"n": n, crdv1.LabelInjected: "true"})
		p.Status.PodIPs = []corev1.PodIP{{IP: ip}}
		objects = append(objects, p)
		return p
	}
	baseline("all", 2)
	held("all", "1", "10.0.0.1")
	held("all", "2", "10.0.0.2")
	baseline("some", 2)
	held("some", "1", "10.0.0.3")
	baseline("none", 1)
	baseline("empty", 0)
	baseline("ending", 1)
	ending := held("ending", "1", "10.0.0.4")
	ending.Finalizers, ending.DeletionTimestamp = []string{"example.com/held"}, &metav1.Time{Time: time.Unix(1, 0)}
	baseline("failed", 1)
	held("failed", "1", "10.0.0.5").Status.Phase = corev1.PodFailed
	baseline("twin", 1) // A Rollout of its name has a pod in memory.
	twin := held("twin", "1", "10.0.0.6")
	delete(twin.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	twin.Labels[inject.RolloutHash] = "h"
	baseline("asked", 1) // Its pod was asked about before it had its address.
	asked := held("asked", "1", "")
	asked.Status.PodIPs = nil
	delete(asked.Labels, crdv1.LabelInjected)
	baseline("stale", 1) // Its pod had this address when it was asked about.
	delete(held("stale", "1", "10.0.0.7").Labels, crdv1.LabelInjected)
	unwatched := []string{"of-asked", "of-ending", "of-failed", "of-none", "of-some", "of-stale", "of-twin"}
	unknown := discoveryv1.Endpoint{Addresses: []string{"192.0.2.1"}}
	for name, c := range map[string]struct {
		slice *discoveryv1.EndpointSlice
		want  []string
	}{
		"a pod in memory":          {sliceOf("s", discoveryv1.Endpoint{Addresses: []string{"10.0.0.1"}}), []string{"of-all"}},
		"one that is not":          {sliceOf("s", unknown), unwatched},
		"one that is, and one not": {sliceOf("s", discoveryv1.Endpoint{Addresses: []string{"10.0.0.2"}}, unknown), append([]string{"of-all"}, unwatched...)},
		"one that was asked about": {sliceOf("s", discoveryv1.Endpoint{Addresses: []string{"10.0.0.7"}}), unwatched},
		"none":                     {sliceOf("s"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := members(t, objects)
			m.Client = holding{m.Client.(client.Client)}
			var got []string
			for _, r := range m.bySlice(t.Context(), c.slice) {
				got = append(got, r.Name)
			}
			slices.Sort(got)
			if got = slices.Compact(got); !slices.Equal(got, c.want) {
				t.Errorf("it is about %v, not about %v", got, c.want)
			}
		})
	}
}

// sliceOf is an EndpointSlice of a Service.
func sliceOf(service string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: service + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		Endpoints:  endpoints,
	}
}

// members returns the ForkedWorkloads among the objects, as a cache with indexes has them.
func members(t *testing.T, objects []client.Object) Members {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := crdv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&appsv1.Deployment{}, indexNotOfMember, func(client.Object) []string { return []string{"true"} }).
		WithIndex(&corev1.Service{}, indexNotOfMember, func(o client.Object) []string { return []string{strconv.FormatBool(!madeForMember(o))} }).
		WithIndex(&discoveryv1.EndpointSlice{}, indexService, byServiceName).
		WithIndex(&crdv1.ForkedWorkload{}, indexBaseline, byBaseline(func(ref crdv1.ObjectRef) string { return ref.Name })).Build()
	return Members{Client: c, List: func() client.ObjectList { return &crdv1.ForkedWorkloadList{} }}
}
