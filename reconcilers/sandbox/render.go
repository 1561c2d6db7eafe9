package sandbox

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/reconcilers/routingkey"
)

// forkFor makes the ForkedWorkload of a target.
func forkFor(in Input, t target) *crdv1.ForkedWorkload {
	w := &crdv1.ForkedWorkload{
		TypeMeta:   typeOf(crdv1.KindForkedWorkload),
		ObjectMeta: partOf(in, forkName(in.Sandbox, t.ref)),
	}
	w.Namespace = t.ref.Namespace
	w.Annotations[crdv1.AnnotationBaseline] = strings.Join([]string{t.ref.Kind, t.ref.Namespace, t.ref.Name}, "/")
	w.Spec.Baseline = t.ref
	for _, p := range t.patches {
		w.Spec.Patches = append(w.Spec.Patches, *p.DeepCopy())
	}
	if c := in.Sandbox.Spec.Customization; c != nil {
		w.Spec.PreservedLabels = append([]string(nil), c.PreservedLabels...)
	}
	return w
}

// configFor makes the RoutingConfig of the sandbox, with these members.
func configFor(in Input, forks []*crdv1.ForkedWorkload) *crdv1.RoutingConfig {
	c := &crdv1.RoutingConfig{
		TypeMeta:   typeOf(crdv1.KindRoutingConfig),
		ObjectMeta: partOf(in, routingkey.ConfigName(in.routingKey())),
		// Never null, which the API server refuses.
		Spec: crdv1.RoutingConfigSpec{SandboxedWorkloads: []crdv1.SandboxedWorkload{}},
	}
	for _, w := range forks {
		c.Spec.SandboxedWorkloads = append(c.Spec.SandboxedWorkloads, crdv1.SandboxedWorkload{
			SandboxedWorkloadRef: crdv1.SandboxedWorkloadRef{
				Kind: crdv1.KindForkedWorkload, Namespace: w.Namespace, Name: w.Name, SandboxName: in.Sandbox.DisplayName(),
			},
			Middlewares: MiddlewaresFor(in.Sandbox.Spec.RequestMiddlewares, w.Spec.Baseline),
		})
	}
	return c
}

// partOf is the metadata of a part of the sandbox.
func partOf(in Input, name string) metav1.ObjectMeta {
	s := in.Sandbox
	return metav1.ObjectMeta{
		Name:   name,
		Labels: map[string]string{crdv1.LabelSandbox: crdv1.LabelValue(s.Name)},
		Annotations: map[string]string{
			crdv1.AnnotationRoutingKey:  in.routingKey(),
			crdv1.AnnotationSandboxName: s.DisplayName(),
			crdv1.AnnotationOnBehalf:    publish.OnBehalf(publish.CauseOf(crdv1.KindSandbox, s)),
		},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s, kind(crdv1.KindSandbox))},
	}
}

// typeOf is the type of an object of our group.
func typeOf(name string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: crdv1.APIVersion, Kind: name}
}

// kind names a kind of our group.
func kind(name string) schema.GroupVersionKind { return crdv1.GroupVersion().WithKind(name) }
