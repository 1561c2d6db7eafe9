package manager_test

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tests/world"
	"switchyard.dev/workflows/iocontext"
)

// forgedPod creates a pod with a forged owner reference and the operator's labels, for the first attempt of
// unit seed.
func (c *cluster) forgedPod(of *crdv1.SignadotObjectLifecycleMethods, name string) *corev1.Pod {
	c.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: c.operator(), Name: name,
		Labels: map[string]string{crdv1.LabelLifecycle: of.Name, crdv1.LabelUnit: "seed"}, Annotations: map[string]string{crdv1.AnnotationAttempt: "1"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: crdv1.APIVersion, Kind: crdv1.KindLifecycleMethods, Name: of.Name, UID: of.UID, Controller: new(true)}},
	}}
	pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "attacker"}}
	c.Create(pod)
	return pod
}

// A user who can create pods in the unit's namespace creates one before the unit begins, under the
// name that the unit's pod once had and with a forged owner reference.
func TestAPodThatWasCreatedInAdvanceIsNotAdopted(t *testing.T) {
	const ns = "units-forged"
	c := shared(t, ns)
	r := c.resourceOf("units-forged-db", twoSteps)
	first := c.unitPod(r.Name, "provision", 1)
	m := &crdv1.SignadotObjectLifecycleMethods{ObjectMeta: metav1.ObjectMeta{Name: r.Name}}
	c.Get(m)
	forged := c.forgedPod(m, crdv1.ObjectName(crdv1.MaxServiceName, m.Name, "seed", "1", string(m.UID)[:8]))
	c.gives(r.Name, "provision.host", "db.example")
	c.ends(first, iocontext.Ending{})
	if pod := c.unitPod(r.Name, "seed", 1); pod.UID == forged.UID || pod.Spec.Containers[0].Image == "attacker" {
		t.Errorf("the unit runs in pod %s, which another user has created", pod.Name)
	}
}

// The same user reads the name in the status before the pod is there, and is faster. The manager that
// crashed after it had created the pod leaves the same: none of the two pods is adopted.
func TestAPodThatTakesTheRecordedNameIsNotAdopted(t *testing.T) {
	const ns = "units-raced"
	c := newCluster(t, ns)
	c.Accounts(c.operator(), "default")
	access := c.As("")
	var once sync.Once
	var forged *corev1.Pod
	access.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return world.RoundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/pods") {
				once.Do(func() {
					m := &crdv1.SignadotObjectLifecycleMethods{ObjectMeta: metav1.ObjectMeta{Name: "units-raced-db"}}
					c.Get(m)
					for _, st := range m.Status.PreCreate {
						if st.ExecUnit != nil {
							forged = c.forgedPod(m, st.ExecUnit.Name)
						}
					}
				})
			}
			return next.RoundTrip(r)
		})
	})
	c.manage(manager.Config{REST: access, Workflows: units})
	r := c.resourceOf("units-raced-db", twoSteps)
	pod := c.unitPod(r.Name, "provision", 1)
	if forged == nil {
		t.Fatal("no name is recorded before the pod is created")
	}
	if pod.UID == forged.UID || pod.Name == forged.Name {
		t.Errorf("the unit runs in pod %s, which another user has created", pod.Name)
	}
	c.Eventually("the other pod is deleted", func() error {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(forged), &corev1.Pod{}); client.IgnoreNotFound(err) != nil || err == nil {
			return errors.Join(errors.New("it is there"), err)
		}
		return nil
	})
	m := &crdv1.SignadotObjectLifecycleMethods{ObjectMeta: metav1.ObjectMeta{Name: r.Name}}
	c.Get(m)
	if st := m.Status.PreCreate[0]; st.Attempt != 1 || st.Grant == "" {
		t.Errorf("%+v", st)
	}
}
