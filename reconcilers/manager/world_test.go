package manager_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/sidecars/devmesh"
)

// sandbox makes a sandbox with the given spec.
func (c *cluster) sandbox(name, spec string) *crdv1.SignadotSandbox {
	c.Helper()
	s := &crdv1.SignadotSandbox{}
	c.Make(s, "{apiVersion: signadot.com/v1, kind: SignadotSandbox, metadata: {name: "+name+"}, spec: "+spec+"}")
	return s
}

// ready makes a sandbox whose fork is the only one of its namespace, and waits until it is
// ready.
func (c *cluster) ready(name, id, ns, baseline string) (*crdv1.SignadotSandbox, *crdv1.ForkedWorkload, *appsv1.Deployment) {
	c.Helper()
	s := c.sandbox(name, forkOf(id, ns, baseline))
	w, fork := c.fork(ns)
	c.Available(fork)
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")
	return s, w, fork
}

// baseline makes a Deployment with one Service and one pod that has a ready
// sidecar when the template asks for one.
func (c *cluster) baseline(ns, name string, annotations string) *appsv1.Deployment {
	c.Helper()
	d := &appsv1.Deployment{}
	c.Make(d, `
metadata: {name: `+name+`, namespace: `+ns+`, labels: {app: `+name+`}}
spec:
  replicas: 2
  selector: {matchLabels: {app: `+name+`}}
  template:
    metadata: {labels: {app: `+name+`}, annotations: {`+annotations+`}}
    spec: {containers: [{name: main, image: "`+name+`:1", ports: [{name: http, containerPort: 8080}]}]}`)
	c.Make(&corev1.Service{}, `
metadata: {name: `+name+`, namespace: `+ns+`}
spec: {selector: {app: `+name+`}, ports: [{name: http, port: 80, targetPort: http}]}`)
	return d
}

const withSidecar = `sidecar.signadot.com/inject: "true"`

// forkOf is the spec of a sandbox that forks one Deployment with another image.
func forkOf(id, ns, name string) string {
	return `{id: ` + id + `, customization: {patches: [{target: {apiVersion: apps/v1, kind: Deployment, namespace: ` + ns + `, name: ` + name + `},
  strategic: {spec: {template: {spec: {containers: [{name: main, image: "` + name + `:fork"}]}}}}}]}}`
}

// forks returns the ForkedWorkloads of a namespace, oldest first.
func (c *cluster) forks(ns string) []crdv1.ForkedWorkload {
	c.Helper()
	var list crdv1.ForkedWorkloadList
	c.List(&list, client.InNamespace(ns))
	return list.Items
}

// fork waits for the one ForkedWorkload of a namespace and its Deployment.
func (c *cluster) fork(ns string) (*crdv1.ForkedWorkload, *appsv1.Deployment) {
	c.Helper()
	var w crdv1.ForkedWorkload
	d := &appsv1.Deployment{}
	c.Eventually("a fork is made in "+ns, func() error {
		all := c.forks(ns)
		if len(all) != 1 || all[0].Status.Fork == nil {
			return fmt.Errorf("there are %d ForkedWorkloads, and the first has no fork", len(all))
		}
		w = all[0]
		return c.Client.Get(c.Context(), client.ObjectKey{Namespace: ns, Name: w.Status.Fork.ObjectRef.Name}, d)
	})
	return &w, d
}

// pod makes a pod of a baseline whose containers are in the given state.
func (c *cluster) pod(d *appsv1.Deployment, name string, containers ...corev1.ContainerStatus) *corev1.Pod {
	c.Helper()
	return c.podAs(d, name, func(*corev1.Pod) {}, containers...)
}

// podAs makes such a pod with a change.
func (c *cluster) podAs(d *appsv1.Deployment, name string, change func(*corev1.Pod), containers ...corev1.ContainerStatus) *corev1.Pod {
	c.Helper()
	yes := true
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: d.Namespace,
			Labels: map[string]string{"app": d.Name, "pod-template-hash": "h"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: d.Name + "-h", UID: "some", Controller: &yes,
			}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "x"}}},
	}
	change(p)
	if slices.ContainsFunc(containers, func(s corev1.ContainerStatus) bool { return s.Name == devmesh.ContainerName }) ||
		slices.ContainsFunc(p.Spec.Containers, func(s corev1.Container) bool { return s.Name == devmesh.ContainerName }) {
		p.Labels[crdv1.LabelInjected] = "true"
	}
	if p.Annotations[byEarlierVersion] != "" {
		delete(p.Labels, crdv1.LabelInjected)
	}
	c.Create(p)
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: containers}
	c.Must(c.Client.Status().Update(c.Context(), p))
	c.count(d)
	return p
}

// byEarlierVersion is an annotation of pods that an earlier version injected: they lack the
// label.
const byEarlierVersion = "test/by-earlier-version"

// count lets a baseline say how many pods it has, as its controller would, and some more,
// so that it never says less than what else a test has it say.
func (c *cluster) count(d *appsv1.Deployment) {
	c.Helper()
	if d.Labels[crdv1.LabelForkedWorkload] != "" {
		return
	}
	var pods corev1.PodList
	c.List(&pods, client.InNamespace(d.Namespace), client.MatchingLabels{"app": d.Name})
	said := 100 + len(pods.Items)
	for i := range pods.Items {
		said += len(pods.Items[i].Status.PodIPs) // One that has its address is soon ready.
	}
	patch := fmt.Sprintf(`{"status": {"replicas": %[1]d, "readyReplicas": %[1]d}}`, said)
	c.Must(c.Client.Status().Patch(c.Context(), d.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch))))
}

// quiet waits until the controllers have stopped to write.
func (c *cluster) quiet() {
	c.Helper()
	last, since, rest := c.wrote(), time.Now(), 500*time.Millisecond
	if c.shares {
		rest = time.Second // The manager is busy with other tests.
	}
	c.Eventually("the controllers come to rest", func() error {
		now := c.wrote()
		if !slices.Equal(last, now) {
			last, since = now, time.Now()
		}
		if time.Since(since) < rest {
			return fmt.Errorf("the last write was %s", last[max(0, len(last)-1):])
		}
		return nil
	})
}

// remove deletes an object.
func (c *cluster) remove(o client.Object) {
	c.Helper()
	c.Remove(o)
	if p, ok := o.(*corev1.Pod); ok && p.Labels["app"] != "" {
		c.count(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Labels["app"]}})
	}
}

// named is metadata with a name alone.
func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

// contains reports whether a text has a part.
func contains(text, part string) bool { return strings.Contains(text, part) }
