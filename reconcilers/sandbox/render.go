package sandbox

import (
	"cmp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/routingkey"
)

// forkFor returns the ForkedWorkload for a target, without its patches.
func forkFor(in Input, ref crdv1.ObjectRef) *crdv1.ForkedWorkload {
	w := &crdv1.ForkedWorkload{
		TypeMeta:   typeOf(crdv1.KindForkedWorkload),
		ObjectMeta: memberOf(in, member.ForkName(in.Sandbox.Name, ref), ref.Namespace, ref),
	}
	w.Spec.Baseline = ref
	w.Spec.PreservedLabels = append([]string(nil), in.Sandbox.Spec.Customization.PreservedLabels...)
	w.Spec.ResourceTemplateData = templateData(in)
	return w
}

// externalFor returns the SignadotExternalWorkload for a member outside the cluster, in the namespace of
// its baseline.
func externalFor(in Input, x crdv1.SandboxExternalWorkload) *crdv1.SignadotExternalWorkload {
	ref, namespace := crdv1.ObjectRef{}, in.OperatorNamespace
	if b := x.Baseline; b != nil {
		if b.Namespace != "" {
			namespace = b.Namespace
		}
		if !b.Fake {
			ref = b.ObjectRef
		}
	}
	name := crdv1.ObjectName(crdv1.MaxServiceName, in.Sandbox.Name, x.Name)
	w := &crdv1.SignadotExternalWorkload{
		TypeMeta:   typeOf(crdv1.KindExternalWorkload),
		ObjectMeta: memberOf(in, name, namespace, ref),
	}
	w.Spec = crdv1.SignadotExternalWorkloadSpec{
		Baseline: x.Baseline.DeepCopy(), Name: x.Name, Tunnel: x.Tunnel.DeepCopy(),
		RoutingKey: in.routingKey(), WorkloadID: name, // required fields that are not read
	}
	return w
}

// virtualFor returns the VirtualWorkload for a member without pods, in the namespace of its baseline.
func virtualFor(in Input, v crdv1.SandboxVirtualWorkload) *crdv1.VirtualWorkload {
	return &crdv1.VirtualWorkload{
		TypeMeta: typeOf(crdv1.KindVirtualWorkload),
		ObjectMeta: memberOf(in, crdv1.ObjectName(crdv1.MaxServiceName, in.Sandbox.Name, v.Name),
			v.Baseline.Namespace, v.Baseline),
		Spec: crdv1.VirtualWorkloadSpec{Baseline: v.Baseline, Name: v.Name},
	}
}

// memberOf is the metadata of a member; ref is its baseline, which may be none.
func memberOf(in Input, name, namespace string, ref crdv1.ObjectRef) metav1.ObjectMeta {
	m := partOf(in, name)
	m.Namespace = namespace
	if ref.Name != "" {
		m.Annotations[crdv1.AnnotationBaseline] = strings.Join([]string{ref.Kind, ref.Namespace, ref.Name}, "/")
	}
	return m
}

// configFor returns the RoutingConfig of the sandbox, with these members.
func configFor(in Input, members []Wanted) *crdv1.RoutingConfig {
	c := &crdv1.RoutingConfig{
		TypeMeta:   typeOf(crdv1.KindRoutingConfig),
		ObjectMeta: partOf(in, routingkey.ConfigName(in.routingKey())),
		// Never null, which the API server refuses.
		Spec: crdv1.RoutingConfigSpec{SandboxedWorkloads: []crdv1.SandboxedWorkload{}},
	}
	for _, w := range members {
		m := w.Object
		ref, _ := m.BaselineRef() // Matches cannot name an empty reference.
		c.Spec.SandboxedWorkloads = append(c.Spec.SandboxedWorkloads, crdv1.SandboxedWorkload{
			SandboxedWorkloadRef: routing.Ref(m, in.Sandbox.DisplayName()),
			Middlewares:          routing.MiddlewaresFor(in.Sandbox.Spec.RequestMiddlewares, ref),
		})
	}
	return c
}

// resourceFor returns the Resource object for a resource, with outputs in these namespaces.
func resourceFor(in Input, r crdv1.SandboxResource, namespaces []string) *crdv1.Resource {
	return &crdv1.Resource{
		TypeMeta:   typeOf(crdv1.KindResource),
		ObjectMeta: partOf(in, ResourceName(in.Sandbox, r.Name)),
		Spec:       crdv1.ResourceSpec{Name: r.Name, PluginName: r.PluginName, OLM: *r.OLM.DeepCopy(), OutputNamespaces: namespaces},
	}
}

// ResourceName returns the name of the Resource of a sandbox's resource.
func ResourceName(s *crdv1.SignadotSandbox, resource string) string {
	return crdv1.ObjectName(crdv1.MaxServiceName, s.Name, resource)
}

// templateData returns the values of the resources for patches of forks.
func templateData(in Input) map[string]crdv1.ResourceTemplateData {
	var out map[string]crdv1.ResourceTemplateData
	for _, r := range in.Sandbox.Spec.ManagedResources {
		if r.Name == "" {
			continue
		}
		if out == nil {
			out = map[string]crdv1.ResourceTemplateData{}
		}
		resource := ResourceName(in.Sandbox, r.Name)
		data := crdv1.ResourceTemplateData{Name: r.Name, ObjectName: cmp.Or(in.resource(resource).OutputsSecret(), resource), OutputKind: outputKind}
		if have := in.resource(resource); have != nil && have.Status.Outputs != nil {
			data.NotVariables = have.Status.Outputs.NotVariables
		}
		out[r.Name] = data
	}
	return out
}

// outputKind is the kind of the objects that hold the outputs of a resource.
const outputKind = "Secret"

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

// typeOf returns the type metadata of a kind of the operator's API group.
func typeOf(name string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: crdv1.APIVersion, Kind: name}
}

// kind returns the GroupVersionKind of a kind of the operator's API group.
func kind(name string) schema.GroupVersionKind { return crdv1.GroupVersion().WithKind(name) }
