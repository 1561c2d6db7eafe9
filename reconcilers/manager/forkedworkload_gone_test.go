package manager_test

import (
	"errors"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/tests/world"
)

// forkedWorkload makes a ForkedWorkload of a Deployment that no sandbox made.
func (c *cluster) forkedWorkload(ns, name, baseline string, finalizers ...string) *crdv1.ForkedWorkload {
	c.Helper()
	w := &crdv1.ForkedWorkload{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Finalizers: finalizers},
		Spec:       crdv1.ForkedWorkloadSpec{Baseline: crdv1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: baseline}},
	}
	c.Create(w)
	return w
}

// leftBy makes a Service whose controller is said to be the object of this kind,
// name and UID.
func (c *cluster) leftBy(ns, name, kind, owner string, uid types.UID) *corev1.Service {
	c.Helper()
	yes := true
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: crdv1.APIVersion, Kind: kind, Name: owner, UID: uid, Controller: &yes},
		}},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"nobody": "has"}, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	c.Create(s)
	return s
}

// stated waits until the newest fact about a fork is of the type of want.
func (c *cluster) stated(ns, name string, want any) {
	c.Helper()
	c.Eventually(fmt.Sprintf("%T is stated of %s", want, name), func() error {
		have := c.log.fact(member.Key(crdv1.KindForkedWorkload, ns, name))
		if fmt.Sprintf("%T", have) != fmt.Sprintf("%T", want) {
			return fmt.Errorf("it is %T", have)
		}
		return nil
	})
}

func TestAForkThatIsDeletedDirectlyIsWithdrawnAndLeavesNothing(t *testing.T) {
	const ns = "fw-gone"
	c := shared(t, ns)
	base := c.baseline(ns, "a", withSidecar)
	w := c.forkedWorkload(ns, "mine", "a")
	_, fork := c.fork(ns)
	c.stated(ns, "mine", &factv1.WorkloadObserved{})
	if err := c.Look(w); err != nil || len(w.Finalizers) > 0 {
		t.Errorf("finalizers: %v (%v)", w.Finalizers, err)
	}
	others := []*corev1.Service{
		c.leftBy(ns, "of-another", crdv1.KindForkedWorkload, "another", "u1"),
		c.leftBy(ns, "of-another-kind", "Job", "mine", "u2"),
	}
	c.Gone(others[0]) // There is no ForkedWorkload another: it goes like everything that one has left.

	// While the log cannot be written, what was made stays: requests go there.
	c.log.fail(errors.New("the bus is away"))
	c.remove(w)
	c.Gone(w)
	if err := c.Look(fork); err != nil {
		t.Errorf("the fork went before the log was told: %v", err)
	}
	c.log.fail(nil)
	c.stated(ns, "mine", &factv1.WorkloadWithdrawn{})
	c.Gone(fork)
	c.Eventually("no Service is left", func() error {
		var list corev1.ServiceList
		err := c.Client.List(c.Context(), &list, client.InNamespace(ns), client.HasLabels{crdv1.LabelForkedWorkload})
		if err == nil && len(list.Items) > 0 {
			return fmt.Errorf("Service %s is", list.Items[0].Name)
		}
		return err
	})
	for _, o := range []client.Object{others[1], base, &corev1.Service{ObjectMeta: base.ObjectMeta}} {
		if err := c.Look(o); err != nil || o.GetDeletionTimestamp() != nil {
			t.Errorf("%T %s of somebody else was deleted (%v)", o, o.GetName(), err)
		}
	}
}

func TestLeftoversOfAPreviousForkAreReplaced(t *testing.T) {
	const ns = "fw-former"
	c := newCluster(t, ns)
	stop := c.manage(manager.Config{})
	c.baseline(ns, "a", withSidecar)
	w := c.forkedWorkload(ns, "mine", "a")
	_, fork := c.fork(ns)
	c.stated(ns, "mine", &factv1.WorkloadObserved{})
	service := c.serviceOf(ns, "mine")

	stop() // So that it is the new one that is seen first.
	c.remove(w)
	again := c.forkedWorkload(ns, "mine", "a")
	c.manage(manager.Config{})
	c.Eventually("the fork is that of the new object, with everything new", func() error {
		observed, ok := c.log.fact(member.Key(crdv1.KindForkedWorkload, ns, "mine")).(*factv1.WorkloadObserved)
		if !ok || observed.Workload.Uid != string(again.UID) || len(observed.Services) != 1 || observed.Services[0].ClusterIp == "" {
			return fmt.Errorf("stated: %v", observed)
		}
		now := &appsv1.Deployment{}
		if err := c.Client.Get(c.Context(), client.ObjectKeyFromObject(fork), now); err != nil {
			return err
		}
		if !metav1.IsControlledBy(now, again) || now.UID == fork.UID || c.serviceOf(ns, "mine").UID == service.UID {
			return fmt.Errorf("owner %v", now.OwnerReferences)
		}
		return nil
	})
}

// serviceOf returns the one Service of a fork, empty when there is none.
func (c *cluster) serviceOf(ns, fork string) corev1.Service {
	c.Helper()
	var list corev1.ServiceList
	c.List(&list, client.InNamespace(ns), client.MatchingLabels{crdv1.LabelForkedWorkload: fork})
	if len(list.Items) != 1 {
		return corev1.Service{}
	}
	return list.Items[0]
}

func TestANewForkWithoutBaselineDoesNotKeepTheFactOfTheFormer(t *testing.T) {
	const ns = "fw-nobase"
	c := shared(t, ns)
	base := c.baseline(ns, "a", withSidecar)
	w := c.forkedWorkload(ns, "mine", "a")
	c.stated(ns, "mine", &factv1.WorkloadObserved{})
	c.remove(base)
	c.remove(w)
	again := c.forkedWorkload(ns, "mine", "a")
	c.stated(ns, "mine", &factv1.WorkloadWithdrawn{})
	c.Condition(again, crdv1.ConditionReady, "False", "BaselineNotFound")
}

func TestAFinalizerOfAnOlderVersionIsTakenOff(t *testing.T) {
	const ns = "fw-old"
	c := newCluster(t, ns)
	c.baseline(ns, "a", withSidecar)
	w := c.forkedWorkload(ns, "mine", "a", crdv1.Finalizer, "others.example/too")
	dying := c.forkedWorkload(ns, "dying", "a", crdv1.Finalizer)
	c.remove(dying)
	c.manage(manager.Config{})
	c.Gone(dying)
	c.stated(ns, "mine", &factv1.WorkloadObserved{})
	if err := c.Look(w); err != nil || len(w.Finalizers) != 1 || w.Finalizers[0] == crdv1.Finalizer {
		t.Errorf("finalizers: %v (%v)", w.Finalizers, err)
	}
	// That of others keeps the object; what we made is withdrawn and goes all the same.
	c.remove(w)
	c.stated(ns, "mine", &factv1.WorkloadWithdrawn{})
	c.Eventually("what was made is gone", func() error {
		if s := c.serviceOf(ns, "mine"); s.Name != "" {
			return fmt.Errorf("Service %s is there", s.Name)
		}
		return nil
	})
	world.Edit(c.World, w, func(w *crdv1.ForkedWorkload) { w.Finalizers = nil })
	c.Gone(w)
	if got := c.log.fact(event.Workload(crdv1.KindForkedWorkload, ns, "dying")); got != nil {
		t.Errorf("of one that was never stated the log says %v", got)
	}
}
