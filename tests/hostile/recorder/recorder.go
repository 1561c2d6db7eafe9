// Package recorder has a fork with requests that are recorded, of which package listeners attacks the container that records.
package recorder

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/sidecars/traffic/ports"
	"switchyard.dev/tools/wait"
)

// Namespace is that of the fork, and Selector selects its pod.
const (
	Namespace = "hotrod"
	name      = "hostile"
	label     = "tests.switchyard.dev/hostile"
	Selector  = label + "=recorder"
)

// application is the port of the fork's application, and Port the one on which the container listens for it.
const (
	application = 8081
	Port        = ports.First + application%ports.Count
)

// readyWithin is how long the capture can take to be ready.
const readyWithin = 3 * time.Minute

// objects are a sandbox with a fork of HotROD's customer service, and a capture of it.
func objects() (*crdv1.SignadotSandbox, *crdv1.TrafficCapture) {
	s := &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: crdv1.SignadotSandboxSpec{ID: name}}
	s.Spec.Customization = &crdv1.SandboxCustomization{Patches: []crdv1.TargetedPatch{{
		Target: crdv1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Namespace: Namespace, Name: "customer"},
		Patch:  crdv1.Patch{Strategic: &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"labels":{%q:"recorder"}}}}}`, label)}},
	}}}
	c := &crdv1.TrafficCapture{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name}}
	c.Spec.Sandbox, c.Spec.Port = name, application
	return s, c
}

// Create creates the fork, and waits until its requests are recorded. The caller calls remove, also after an error.
func Create(ctx context.Context, config *rest.Config) (remove func() error, err error) {
	scheme := runtime.NewScheme()
	if err := crdv1.AddToScheme(scheme); err != nil {
		return func() error { return nil }, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return func() error { return nil }, err
	}
	remove = func() error { return deleteAll(context.WithoutCancel(ctx), c) }
	sandbox, capture := objects()
	for _, o := range []client.Object{sandbox, capture} {
		if err := client.IgnoreAlreadyExists(c.Create(ctx, o)); err != nil {
			return remove, fmt.Errorf("create a fork that is recorded: %w", err)
		}
	}
	return remove, wait.Until(ctx, readyWithin, "the fork is recorded", func() error {
		err := c.Get(ctx, client.ObjectKeyFromObject(capture), capture)
		if err == nil && !crdv1.IsTrue(capture.Status.Conditions, crdv1.ConditionReady, capture.Generation) {
			err = fmt.Errorf("its capture has the conditions %v", capture.Status.Conditions)
		}
		return err
	})
}

// deleteAll deletes the capture, then the sandbox, and waits until both are deleted: another run creates them again.
func deleteAll(ctx context.Context, c client.Client) error {
	sandbox, capture := objects()
	var errs []error
	for _, o := range []client.Object{capture, sandbox} {
		if err := client.IgnoreNotFound(c.Delete(ctx, o)); err != nil {
			errs = append(errs, fmt.Errorf("delete %s: %w", o.GetName(), err))
			continue
		}
		errs = append(errs, wait.Until(ctx, readyWithin, "the fork that was recorded is deleted", func() error {
			if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
				return errors.Join(fmt.Errorf("%s has the finalizers %v", o.GetName(), o.GetFinalizers()), err)
			}
			return nil
		}))
	}
	return errors.Join(errs...)
}
