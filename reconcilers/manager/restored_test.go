package manager_test

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// backup is a copy of what the operator created for a sandbox.
type backup struct {
	sandbox, spec string
	config        *crdv1.RoutingConfig
	member        *crdv1.ForkedWorkload
	fork          *appsv1.Deployment
	service       *corev1.Service
}

// backUp creates a sandbox of a baseline, copies what the operator created, and deletes it all.
func (c *cluster) backUp(ns string) backup {
	c.Helper()
	c.baseline(ns, "a", withSidecar)
	b := backup{sandbox: ns, spec: forkOf(ns+"-key", ns, "a"), config: &crdv1.RoutingConfig{}, service: &corev1.Service{}}
	s, w, fork := c.ready(ns, ns+"-key", ns, "a")
	b.member, b.fork = w, fork
	b.config.Name, b.service.Namespace, b.service.Name = ns+"-key", ns, w.Status.RoutingConfig.Services[0].To
	c.Get(b.config)
	c.Get(b.service)
	c.remove(s)
	c.Gone(s)
	return b
}

// objects returns the copies.
func (b backup) objects() []client.Object {
	return []client.Object{b.service, b.fork, b.member, b.config}
}

// restore creates the copies as a backup tool does: with other UIDs and without owners.
func (c *cluster) restore(b backup) {
	c.Helper()
	b.service.Spec.ClusterIP, b.service.Spec.ClusterIPs = "", nil
	for _, o := range b.objects() {
		c.Gone(o)
		annotations := o.GetAnnotations()
		delete(annotations, crdv1.AnnotationOnBehalf)
		annotations[crdv1.AnnotationAuthor] = crdv1.Author{User: "backup"}.String()
		o.SetAnnotations(annotations)
		o.SetLabels(with(o.GetLabels(), "velero.io/restore-name", "r"))
		o.SetOwnerReferences(nil)
		o.SetManagedFields(nil)
		o.SetUID("")
		o.SetResourceVersion("")
		o.SetFinalizers(nil)
		c.Must(c.Client.Create(c.Context(), o, client.FieldOwner("velero-server")))
	}
}

func with(labels map[string]string, name, value string) map[string]string {
	labels[name] = value
	return labels
}

// A backup tool restores objects with other UIDs and without owners.
func TestRestoredObjectsAreAdopted(t *testing.T) {
	const ns = "restored"
	c := shared(t, ns)
	b := c.backUp(ns)
	c.restore(b)
	restored := b.objects()
	uids := map[string]string{}
	for _, o := range restored {
		uids[fmt.Sprintf("%T", o)] = string(o.GetUID())
	}
	s := c.sandbox(b.sandbox, b.spec)
	c.Eventually("all are adopted", func() error {
		for _, o := range restored {
			if err := c.Look(o); err != nil {
				return err
			}
			if string(o.GetUID()) != uids[fmt.Sprintf("%T", o)] || metav1.GetControllerOf(o) == nil {
				return fmt.Errorf("%T is %s, of %v", o, o.GetUID(), o.GetOwnerReferences())
			}
			for _, m := range o.GetManagedFields() {
				if m.Manager == "velero-server" {
					return fmt.Errorf("%T is managed by %s too", o, m.Manager)
				}
			}
			if o.GetAnnotations()[crdv1.AnnotationAuthor] != "" {
				return fmt.Errorf("the author of %T is %s", o, o.GetAnnotations()[crdv1.AnnotationAuthor])
			}
		}
		return nil
	})
	if metav1.GetControllerOf(b.member).UID != s.UID || metav1.GetControllerOf(b.config).UID != s.UID || metav1.GetControllerOf(b.fork).UID != b.member.UID {
		t.Errorf("owners are %v, %v, %v", b.member.OwnerReferences, b.config.OwnerReferences, b.fork.OwnerReferences)
	}
	c.Available(b.fork)
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")

	// No field is in conflict with a later change.
	c.Read(s, "spec: "+strings.ReplaceAll(b.spec, "a:fork", "a:later"))
	c.Must(c.Client.Update(c.Context(), s))
	c.Eventually("the adopted fork changes", func() error {
		if err := c.Look(b.fork); err != nil || b.fork.Spec.Template.Spec.Containers[0].Image != "a:later" {
			return fmt.Errorf("its image is %s (%w)", b.fork.Spec.Template.Spec.Containers[0].Image, err)
		}
		return nil
	})
	c.remove(s)
	for _, o := range append(restored, s) {
		c.Gone(o)
	}
}

// What differs from what the operator would create stays as it is, and one message names all of it.
func TestObjectsThatDifferAreNotAdopted(t *testing.T) {
	const ns = "different"
	c := shared(t, ns)
	b := c.backUp(ns)
	b.fork.Spec.Template.Spec.Containers = append(b.fork.Spec.Template.Spec.Containers, corev1.Container{Name: "another", Image: "another"})
	b.service.Spec.ExternalIPs = []string{"192.0.2.1"}
	b.config.Spec.SandboxedWorkloads = append(b.config.Spec.SandboxedWorkloads, crdv1.SandboxedWorkload{
		SandboxedWorkloadRef: crdv1.SandboxedWorkloadRef{Kind: "ForkedWorkload", Namespace: ns, Name: "another", SandboxName: "another"},
	})
	c.restore(b)
	s := c.sandbox(b.sandbox, b.spec)
	c.Eventually("the RoutingConfig is adopted, and its only list replaced", func() error {
		c.Get(b.config)
		if metav1.GetControllerOf(b.config) == nil || len(b.config.Spec.SandboxedWorkloads) != 1 {
			return fmt.Errorf("it is %+v", b.config)
		}
		return nil
	})
	said := c.Condition(s, crdv1.ConditionReady, "False", "NameTaken")
	c.Says(said, "Deployment different/"+b.fork.Name+" (has no owner)", "Service different/"+b.service.Name+" (has no owner)",
		"kubectl delete -n different deployment.apps/"+b.fork.Name+" service/"+b.service.Name)
	for _, o := range []client.Object{b.fork, b.service} {
		c.Get(o)
		if metav1.GetControllerOf(o) != nil || len(o.GetManagedFields()) == 0 || o.GetManagedFields()[0].Manager != "velero-server" {
			t.Errorf("%T was changed: %v, %v", o, o.GetOwnerReferences(), o.GetManagedFields())
		}
	}
	for _, o := range []client.Object{b.fork, b.service} {
		c.remove(o)
	}
	c.Eventually("the sandbox continues", func() error {
		var all appsv1.DeploymentList
		c.List(&all, client.InNamespace(ns), client.MatchingLabels{crdv1.LabelSandbox: ns})
		if len(all.Items) != 1 || metav1.GetControllerOf(&all.Items[0]) == nil {
			return fmt.Errorf("there are %d", len(all.Items))
		}
		c.Available(&all.Items[0])
		return nil
	})
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")
	c.remove(s)
	c.Gone(s)
}
