package fork

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
)

// Identity identifies the ForkedWorkload, the sandbox and the baseline of a fork. It is recorded on all
// objects created for the fork.
type Identity struct {
	// ForkedWorkload is the name of the ForkedWorkload.
	ForkedWorkload string
	// Namespace is the namespace of the ForkedWorkload and of all objects created for it.
	Namespace string
	// Owner refers to the ForkedWorkload as the controller of the created objects.
	Owner metav1.OwnerReference
	// Baseline is the forked workload, with its namespace.
	Baseline crdv1.ObjectRef
	// SandboxName is the sandbox as its users know it.
	SandboxName string
	// SandboxLabel is the value of the sandbox's label; may be empty.
	SandboxLabel string
	// RoutingKey is empty for a ForkedWorkload that no sandbox created.
	RoutingKey string
}

// Selector returns the labels by which the fork's pods are found.
func (id Identity) Selector() map[string]string {
	return map[string]string{crdv1.LabelForkedWorkload: id.selectorValue()}
}

// DeploymentName names the clone, whatever its kind.
func (id Identity) DeploymentName(workload string) string { return id.name(workload) }

// ServiceName returns the name of the fork's Service for a baseline Service.
func (id Identity) ServiceName(baselineService string) string { return id.name(baselineService) }

// name returns a name that contains the sandbox and the part, and a hash of their owner: two sandboxes can
// have the same display name, and two ForkedWorkloads can share a Service.
func (id Identity) name(part string) string {
	shown := crdv1.ObjectName(crdv1.MaxServiceName, id.SandboxName, part)
	unique := crdv1.ObjectName(crdv1.MaxServiceName, id.SandboxName, part, id.Namespace, id.ForkedWorkload)
	return shown[:strings.LastIndexByte(shown, '-')] + unique[strings.LastIndexByte(unique, '-'):]
}

func (id Identity) selectorValue() string { return crdv1.LabelValue(id.ForkedWorkload) }

// Mark writes the identity on an object.
func (id Identity) Mark(o *metav1.ObjectMeta) {
	if o.Labels == nil {
		o.Labels = map[string]string{}
	}
	if o.Annotations == nil {
		o.Annotations = map[string]string{}
	}
	o.Labels[crdv1.LabelForkedWorkload] = id.selectorValue()
	if id.SandboxLabel != "" {
		o.Labels[crdv1.LabelSandbox] = id.SandboxLabel
	}
	o.Annotations[crdv1.AnnotationBaseline] = baseline.NameOf(id.Baseline)
	o.Annotations[crdv1.AnnotationSandboxName] = id.SandboxName
	if id.RoutingKey != "" {
		o.Annotations[crdv1.AnnotationRoutingKey] = id.RoutingKey
	}
}
