package manager_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/tests/wait"
)

// create makes an object from YAML.
func (c *cluster) create(o client.Object, text string) {
	c.t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), o); err != nil {
		c.t.Fatalf("%v in:\n%s", err, text)
	}
	if err := c.client.Create(c.ctx, o); err != nil {
		c.t.Fatalf("create %T: %v", o, err)
	}
}

// sandbox makes a sandbox with the given spec.
func (c *cluster) sandbox(name, spec string) *crdv1.SignadotSandbox {
	c.t.Helper()
	s := &crdv1.SignadotSandbox{}
	c.create(s, "{apiVersion: signadot.com/v1, kind: SignadotSandbox, metadata: {name: "+name+"}, spec: "+spec+"}")
	return s
}

// baseline makes a Deployment with one Service and one pod that has a ready
// sidecar when the template asks for one.
func (c *cluster) baseline(ns, name string, annotations string) *appsv1.Deployment {
	c.t.Helper()
	d := &appsv1.Deployment{}
	c.create(d, `
metadata: {name: `+name+`, namespace: `+ns+`, labels: {app: `+name+`}}
spec:
  replicas: 2
  selector: {matchLabels: {app: `+name+`}}
  template:
    metadata: {labels: {app: `+name+`}, annotations: {`+annotations+`}}
    spec: {containers: [{name: main, image: "`+name+`:1", ports: [{name: http, containerPort: 8080}]}]}`)
	c.create(&corev1.Service{}, `
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

// eventually waits until check gives nil.
func (c *cluster) eventually(what string, check func() error) {
	c.t.Helper()
	wait.Eventually(c.t, patience, what, check)
}

// condition waits until a condition of an object has a status and a reason, and
// gives its message. Every condition type of the kind has to be there then.
func (c *cluster) condition(o client.Object, conditionType, status, reason string) string {
	c.t.Helper()
	var message string
	c.eventually(fmt.Sprintf("%T %s has %s=%s, %s", o, o.GetName(), conditionType, status, reason), func() error {
		if err := c.client.Get(c.ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		conditioned, ok := o.(crdv1.Conditioned)
		if !ok {
			return errors.New("it has no conditions")
		}
		conds := *conditioned.StatusConditions()
		for _, t := range conditioned.ConditionTypes() {
			if crdv1.FindCondition(conds, t) == nil {
				return fmt.Errorf("condition %s is not there", t)
			}
		}
		have := crdv1.FindCondition(conds, conditionType)
		if have.Status != status || have.Reason != reason || have.ObservedGeneration != o.GetGeneration() {
			return fmt.Errorf("it is %+v", *have)
		}
		message = have.Message
		return nil
	})
	return message
}

// says fails the test when a message lacks one of the parts.
func (c *cluster) says(message string, parts ...string) {
	c.t.Helper()
	for _, p := range parts {
		if !strings.Contains(message, p) {
			c.t.Errorf("message %q does not say %q", message, p)
		}
	}
}

// gone waits until an object does not exist.
func (c *cluster) gone(o client.Object) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("%T %s is gone", o, o.GetName()), func() error {
		err := c.client.Get(c.ctx, client.ObjectKeyFromObject(o), o)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %v %w", o.GetFinalizers(), errors.Join(err))
	})
}

// forks returns the ForkedWorkloads of a namespace, oldest first.
func (c *cluster) forks(ns string) []crdv1.ForkedWorkload {
	c.t.Helper()
	var list crdv1.ForkedWorkloadList
	if err := c.client.List(c.ctx, &list, client.InNamespace(ns)); err != nil {
		c.t.Fatal(err)
	}
	return list.Items
}

// fork waits for the one ForkedWorkload of a namespace and its Deployment.
func (c *cluster) fork(ns string) (*crdv1.ForkedWorkload, *appsv1.Deployment) {
	c.t.Helper()
	var w crdv1.ForkedWorkload
	d := &appsv1.Deployment{}
	c.eventually("a fork is made in "+ns, func() error {
		all := c.forks(ns)
		if len(all) != 1 || all[0].Status.Fork == nil {
			return fmt.Errorf("there are %d ForkedWorkloads, and the first has no fork", len(all))
		}
		w = all[0]
		return c.client.Get(c.ctx, client.ObjectKey{Namespace: ns, Name: w.Status.Fork.ObjectRef.Name}, d)
	})
	return &w, d
}

// available sets the status of a Deployment as if its pods were ready, which no
// controller does here.
func (c *cluster) available(d *appsv1.Deployment) {
	c.t.Helper()
	c.eventually("the status of a Deployment can be set", func() error {
		if err := c.client.Get(c.ctx, client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		n := *d.Spec.Replicas
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
		}
		return c.client.Status().Update(c.ctx, d)
	})
}

// pod makes a pod of a baseline whose containers are in the given state.
func (c *cluster) pod(d *appsv1.Deployment, name string, containers ...corev1.ContainerStatus) *corev1.Pod {
	c.t.Helper()
	return c.podAs(d, name, func(*corev1.Pod) {}, containers...)
}

// podAs makes such a pod with a change.
func (c *cluster) podAs(d *appsv1.Deployment, name string, change func(*corev1.Pod), containers ...corev1.ContainerStatus) *corev1.Pod {
	c.t.Helper()
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
	if err := c.client.Create(c.ctx, p); err != nil {
		c.t.Fatal(err)
	}
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: containers}
	if err := c.client.Status().Update(c.ctx, p); err != nil {
		c.t.Fatal(err)
	}
	c.count(d)
	return p
}

// byEarlierVersion is an annotation of pods that an earlier version injected: they lack the
// label.
const byEarlierVersion = "test/by-earlier-version"

// count lets a baseline say how many pods it has, as its controller would, and some more,
// so that it never says less than what else a test has it say.
func (c *cluster) count(d *appsv1.Deployment) {
	c.t.Helper()
	if d.Labels[crdv1.LabelForkedWorkload] != "" {
		return
	}
	var pods corev1.PodList
	if err := c.client.List(c.ctx, &pods, client.InNamespace(d.Namespace), client.MatchingLabels{"app": d.Name}); err != nil {
		c.t.Fatal(err)
	}
	said := 100 + len(pods.Items)
	for i := range pods.Items {
		said += len(pods.Items[i].Status.PodIPs) // One that has its address is soon ready.
	}
	patch := fmt.Sprintf(`{"status": {"replicas": %d}}`, said)
	if err := c.client.Status().Patch(c.ctx, d.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		c.t.Fatal(err)
	}
}

// quiet waits until the controllers have stopped to write.
func (c *cluster) quiet() {
	c.t.Helper()
	last, since := c.writes.list(), time.Now()
	c.eventually("the controllers come to rest", func() error {
		now := c.writes.list()
		if !slices.Equal(last, now) {
			last, since = now, time.Now()
		}
		if time.Since(since) < 500*time.Millisecond {
			return fmt.Errorf("the last write was %s", last[max(0, len(last)-1):])
		}
		return nil
	})
}

// remove deletes an object.
func (c *cluster) remove(o client.Object) {
	c.t.Helper()
	if err := c.client.Delete(c.ctx, o); err != nil {
		c.t.Fatalf("delete %T: %v", o, err)
	}
	if p, ok := o.(*corev1.Pod); ok && p.Labels["app"] != "" {
		c.count(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Labels["app"]}})
	}
}

// edit changes an object, again when somebody else changed it meanwhile.
func edit[T client.Object](c *cluster, o T, change func(o T)) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("%T can be changed", o), func() error {
		if err := c.client.Get(c.ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		change(o)
		return c.client.Update(c.ctx, o)
	})
}

// named is metadata with a name alone.
func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

// contains reports whether a text has a part.
func contains(text, part string) bool { return strings.Contains(text, part) }
