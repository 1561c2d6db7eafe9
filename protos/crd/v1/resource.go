package v1

import (
	"encoding/hex"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Resource is something that exists for the life of a sandbox, such as a
// database, made and removed by the units of a resource plugin.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=resources,singular=resource,shortName=sdmr,scope=Cluster,categories={signadot,switchyard}
// +kubebuilder:printcolumn:name="Resource",type=string,JSONPath=`.spec.name`,description="Name of the resource in its sandbox."
// +kubebuilder:printcolumn:name="Plugin",type=string,JSONPath=`.spec.pluginName`,description="The resource plugin it comes from."
// +kubebuilder:printcolumn:name="Sandbox",type=string,JSONPath=`.metadata.annotations.signadot\.com/sandbox-name`,description="Name of the sandbox."
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="Its phase."
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.status.conditions[?(@.type=="Ready")].lastTransitionTime`,description="Time since Ready last changed."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
type Resource struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The desired state.
	// +optional
	Spec ResourceSpec `json:"spec,omitzero"`

	// The observed state.
	// +optional
	Status ResourceStatus `json:"status,omitzero"`
}

// ResourceList is a list of Resource objects.
//
// +kubebuilder:object:root=true
type ResourceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// The objects.
	Items []Resource `json:"items"`
}

// ResourceSpec is the desired state.
type ResourceSpec struct {
	// Name of the resource, as its users know it.
	Name string `json:"name"`

	// How it is made (preStart) and removed (postStop).
	OLM OLM `json:"olm"`

	// Namespaces that get the outputs, in a Secret with the name of this
	// object.
	// +optional
	OutputNamespaces []string `json:"outputNamespaces,omitempty"`

	// The resource plugin it comes from.
	PluginName string `json:"pluginName"`
}

// ResourceStatus is how far a resource is.
type ResourceStatus struct {
	// The conditions of the object; each type is always present.
	// +optional
	Conditions []StatusCondition `json:"conditions,omitempty"`

	// The units that make it.
	// +optional
	Create []WorkUnitStatus `json:"create,omitempty"`

	// The units that remove it.
	// +optional
	Delete []WorkUnitStatus `json:"delete,omitempty"`

	// The IO context of its units.
	// +optional
	IOContextName string `json:"ioContextName,omitempty"`

	// The generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// The SignadotObjectLifecycleMethods that runs its units.
	// +optional
	OLMName string `json:"olmName,omitempty"`

	// How far it is, in one word.
	// +optional
	Phase string `json:"phase,omitempty"`

	// The Secrets with its outputs.
	// +optional
	Outputs *ResourceOutputs `json:"outputs,omitempty"`
}

// ReasonResourceFailed is the reason of the condition Ready of a Resource that failed, and of
// its sandbox, for which the published client looks.
const ReasonResourceFailed = "ResourceFailed"

// Condition types of a Resource, beside Ready and Accepted.
const (
	// ConditionProvisioned: every unit that makes it has succeeded.
	ConditionProvisioned = "Provisioned"
	// ConditionOutputsWritten: every namespace that wants the outputs has them.
	ConditionOutputsWritten = "OutputsWritten"
)

// StatusConditions returns the place of the object's conditions, never nil.
func (r *Resource) StatusConditions() *[]StatusCondition { return &r.Status.Conditions }

// ConditionTypes returns the condition types that are always all present, the
// most telling first.
func (*Resource) ConditionTypes() []string {
	return []string{ConditionReady, ConditionAccepted, ConditionProvisioned, ConditionOutputsWritten}
}

// ResourceOutputs records which Secrets have the outputs of a Resource. They are never changed: other
// outputs are in Secrets of another name.
type ResourceOutputs struct {
	// The name of the Secret, the same in each namespace, recorded before the first one is created.
	SecretName string `json:"secretName"`

	// The runs of units that gave the outputs.
	// +optional
	Form string `json:"form,omitempty"`

	// The namespaces in which the Secret was created.
	// +optional
	Namespaces []string `json:"namespaces,omitempty"`

	// Outputs that cannot be environment variables, by their key, and why: those with a NUL
	// byte, or that are not UTF-8.
	// +optional
	NotVariables map[string]string `json:"notVariables,omitempty"`
}

// OutputsSecret returns the name of the Secrets with the outputs of a Resource: the recorded one, if it
// is one that the operator gives, or the name of the Resource, as earlier releases called them. It is
// empty for nil.
func (r *Resource) OutputsSecret() string {
	if r == nil {
		return ""
	}
	if o := r.Status.Outputs; o != nil && isOutputsName(r.Name, o.SecretName) {
		return o.SecretName
	}
	return r.Name
}

// outputsSuffix is how many hexadecimal digits the name of a Secret with outputs ends with.
const outputsSuffix = 16

// OutputsName returns a name for Secrets with outputs; random are eight bytes of a secure random source.
func OutputsName(resource string, random [outputsSuffix / 2]byte) string {
	return outputsPrefix(resource) + hex.EncodeToString(random[:])
}

func outputsPrefix(resource string) string {
	return ObjectName(MaxObjectName-outputsSuffix-1, resource) + "-"
}

// isOutputsName reports whether a name is one of OutputsName. A forged status thus names no other
// Secret.
func isOutputsName(resource, name string) bool {
	suffix, ok := strings.CutPrefix(name, outputsPrefix(resource))
	return ok && len(suffix) == outputsSuffix && strings.Trim(suffix, "0123456789abcdef") == ""
}
