package forwarded

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/hostile/listeners"
	"switchyard.dev/tests/hostile/slowbody"
	"switchyard.dev/tools/wait"
	"switchyard.dev/workflows/iocontext"
)

const (
	// unitsNamespace has the pods of units.
	unitsNamespace     = "hostile-units"
	unitName, unitFile = "unit", "/tmp/out"
	unitOutput         = "out"
	// variables of variableSize make the assignment of a slow unit 2 MiB long: more than the kernel
	// buffers for a connection that is not read.
	variables, variableSize = 25, 64 << 10
	// unitsWithin is how long all pods may take to start on a machine with two processors.
	unitsWithin = 10 * time.Minute
)

// running are units that run until remove is called: those that attack, and the others.
type running struct {
	client       client.Client
	slow, honest []slowbody.Unit
}

// startUnits creates units, and returns once the operator has recorded that each runs.
func startUnits(ctx context.Context, w *listeners.World) (r *running, err error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), crdv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	r = &running{}
	if r.client, err = client.New(w.Config(), client.Options{Scheme: scheme}); err != nil {
		return nil, err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: unitsNamespace}}
	if err := r.client.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	if err := r.remove(ctx); err != nil { // units of a run that was interrupted
		return nil, err
	}
	for i := range slowUnits + users {
		if err := r.client.Create(ctx, lifecycle(i)); err != nil {
			return nil, errors.Join(fmt.Errorf("create unit %d: %w", i, err), r.remove(ctx))
		}
	}
	for i := range slowUnits + users {
		u, err := r.await(ctx, w, lifecycle(i).Name)
		if err != nil {
			return nil, errors.Join(err, r.remove(context.WithoutCancel(ctx)))
		}
		if i < slowUnits {
			r.slow = append(r.slow, u)
		} else {
			r.honest = append(r.honest, u)
		}
	}
	return r, nil
}

// lifecycle returns the object of a unit, which runs until its pod is deleted. The first are slow ones.
func lifecycle(i int) *crdv1.SignadotObjectLifecycleMethods {
	template := &crdv1.ExecUnitTemplate{OutputExports: []crdv1.OutputExport{{OutputName: unitOutput, FromPath: unitFile}}}
	template.PodTemplate.Namespace = unitsNamespace
	template.PodTemplate.Spec.Containers = []corev1.Container{{
		Name: "main", Image: "switchyard.dev/hotrod:dev", ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{"/hotrod", "customer"},
		Env: []corev1.EnvVar{{Name: "OTEL_TRACES_SAMPLER", Value: "always_off"}},
	}}
	size, n := 10, 1
	if i < slowUnits {
		size, n = variableSize, variables
	}
	for v := range n {
		template.InputInjects = append(template.InputInjects, crdv1.InputInject{InputName: "in", Dst: crdv1.InputDestination{Env: fmt.Sprint("IN_", v)}})
	}
	o := &crdv1.SignadotObjectLifecycleMethods{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(unitsNamespace, "-", i), Labels: unitLabels}}
	o.Spec.IOContextName = "hostile"
	o.Spec.PreStart = []crdv1.WorkUnit{{
		Name: unitName, Type: "ExecUnit", ExecUnitTemplate: template,
		Inputs: []crdv1.WorkUnitInput{{Name: "in", Value: strings.Repeat("x", size)}}, Outputs: []crdv1.WorkUnitOutput{{Name: unitOutput}},
	}}
	return o
}

var unitLabels = map[string]string{"hostile": "units"}

// await returns a unit once it runs.
func (r *running) await(ctx context.Context, w *listeners.World, name string) (u slowbody.Unit, err error) {
	u = slowbody.Unit{Lifecycle: name, Name: unitName, Output: unitOutput}
	pod := &corev1.Pod{}
	err = wait.Until(ctx, unitsWithin, "unit "+name+" runs", func() error {
		o := &crdv1.SignadotObjectLifecycleMethods{}
		if err := r.client.Get(ctx, client.ObjectKey{Name: name}, o); err != nil {
			return err
		}
		for _, st := range o.Status.PreCreate {
			if st.Phase != crdv1.UnitRunning || st.PodUID == "" {
				continue
			}
			if err := r.client.Get(ctx, client.ObjectKey{Namespace: st.ExecUnit.Namespace, Name: st.ExecUnit.Name}, pod); err != nil {
				return err
			}
			if pod.Status.Phase == corev1.PodRunning {
				return nil
			}
		}
		return fmt.Errorf("its status is %+v, and that of its pod %s", o.Status, pod.Status.Phase)
	})
	if err != nil {
		return u, err
	}
	u.Token, err = apiserver.Token(ctx, w.Client(), pod.Namespace, pod.Spec.ServiceAccountName, iocontext.Audience, pod)
	return u, err
}

// remove deletes all units and waits until none is left.
func (r *running) remove(ctx context.Context) error {
	return wait.Until(ctx, unitsWithin, "no unit is left", func() error {
		err := r.client.DeleteAllOf(ctx, &crdv1.SignadotObjectLifecycleMethods{}, client.MatchingLabels(unitLabels))
		// A unit ends with its pod.
		err = errors.Join(err, r.client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(unitsNamespace), client.GracePeriodSeconds(1)))
		var left crdv1.SignadotObjectLifecycleMethodsList
		err = errors.Join(err, r.client.List(ctx, &left, client.MatchingLabels(unitLabels)))
		if err == nil && len(left.Items) > 0 {
			err = fmt.Errorf("%d are left", len(left.Items))
		}
		if err != nil {
			_ = wait.For(ctx, time.Second) // each attempt deletes all
		}
		return err
	})
}
