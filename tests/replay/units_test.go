package replay

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/kinds"
	"switchyard.dev/workflows/execunit"
	"switchyard.dev/workflows/iocontext"
	"switchyard.dev/workflows/iocontext/store"
)

// unitPods are the pods of units. Nobody is woken by them: everything is looked at anyway.
type unitPods struct{ client.Reader }

// Source implements controller.Pods.
func (unitPods) Source(handler.EventHandler) source.Source { return nil }

// workflows say how units run.
func (o *operator) workflows() *kinds.Workflows {
	return &kinds.Workflows{Pods: unitPods{o.cluster.Client}, Sign: func([]byte) ([]byte, error) { return nil, nil }, Random: func() string { return "random" }, Rand: zeros{}, Settings: execunit.Settings{
		InitImage: "io-init", SidecarImage: "io-sidecar", Address: "https://io-context-server:8443", OperatorNamespace: operatorNamespace, AuthorAsked: true,
	}}
}

// unit ends the pod of a unit's newest attempt, as its node and the IO context server do: with
// outputs that are kept, or with a script that has failed.
func (o *operator) unit(ctx context.Context, d *datadriven.TestData) error {
	lifecycle, name, _ := strings.Cut(d.CmdArgs[0].Key, "/")
	m := &crdv1.SignadotObjectLifecycleMethods{}
	if err := o.cluster.Client.Get(ctx, client.ObjectKey{Name: lifecycle}, m); err != nil {
		return err
	}
	all := map[string]crdv1.WorkUnitStatus{}
	for _, st := range append(m.Status.PreCreate, m.Status.PostStop...) {
		all[st.Name] = st
	}
	st := all[name]
	if st.Phase != crdv1.UnitRunning {
		return fmt.Errorf("unit %s does not run: it is %+v", name, st)
	}
	pod := &corev1.Pod{}
	if err := o.cluster.Client.Get(ctx, client.ObjectKey{Namespace: st.ExecUnit.Namespace, Name: st.ExecUnit.Name}, pod); err != nil {
		return err
	}
	before, code, said := pod.DeepCopy(), int32(0), []byte(nil)
	pod.Status.Phase = corev1.PodSucceeded
	if d.CmdArgs[1].Key == "fails" {
		pod.Status.Phase, code = corev1.PodFailed, 3
		said = iocontext.Ending{Reason: iocontext.ScriptFailed, ExitCode: 3, Message: "the script ended with exit code 3", Tail: d.Input}.Encode()
	} else if err := o.give(ctx, m, name, st.PodUID); err != nil {
		return err
	}
	for _, c := range pod.Spec.Containers {
		t := &corev1.ContainerStateTerminated{ExitCode: code, Message: string(said)}
		if c.Name == execunit.OutputManager {
			t = &corev1.ContainerStateTerminated{}
		}
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, State: corev1.ContainerState{Terminated: t}})
	}
	return o.cluster.Client.Status().Patch(ctx, pod, client.MergeFrom(before), apply.FieldOwner)
}

// give keeps each output of a unit, with its key as the value.
func (o *operator) give(ctx context.Context, m *crdv1.SignadotObjectLifecycleMethods, unit, pod string) (err error) {
	values := store.Store{Client: o.cluster.Client, Namespace: operatorNamespace}
	for _, u := range append(m.Spec.PreStart, m.Spec.PostStop...) {
		for _, out := range u.Outputs {
			if key := iocontext.OutputKey(unit, out.Name); u.Name == unit {
				err = errors.Join(err, values.Put(ctx, m, key, []byte(key), store.Giver{Pod: pod}, func(context.Context) error { return nil }))
			}
		}
	}
	return err
}

// zeros is a source of randomness without any, so that names are the same in each run.
type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
