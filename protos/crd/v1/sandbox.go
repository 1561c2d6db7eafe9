package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SignadotSandbox asks for a sandbox: which workloads are forked and how, which
// workloads outside the cluster take part, which resources come with it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=signadotsandboxes,singular=signadotsandbox,shortName=sds,scope=Cluster,categories={signadot,switchyard}
// +kubebuilder:printcolumn:name="Routing-Key",type=string,JSONPath=`.spec.id`,description="Requests that carry this key reach the sandbox."
// +kubebuilder:printcolumn:name="Baseline",type=string,JSONPath=`..['status','spec']['forkedWorkloads','externalWorkloads','virtualWorkloads'][0]['forkTarget','baseline'].name`,description="The first workload that is forked; where none is, that of the first external or virtual one."
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.status.conditions[?(@.type=="Ready")].lastTransitionTime`,description="Time since Ready last changed."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Sandbox",type=string,JSONPath=`.spec.name`,description="Name of the sandbox for users, if it differs from the object's name.",priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Forks",type=integer,JSONPath=`.status.customizedDeployments`,description="Workloads that were cloned.",priority=1
// +kubebuilder:printcolumn:name="Forks-Ready",type=integer,JSONPath=`.status.readyDeployments`,description="Clones that are complete.",priority=1
type SignadotSandbox struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The desired state.
	// +optional
	Spec SignadotSandboxSpec `json:"spec,omitzero"`

	// The observed state.
	// +optional
	Status SignadotSandboxStatus `json:"status,omitzero"`
}

// SignadotSandboxList is a list of SignadotSandbox objects.
//
// +kubebuilder:object:root=true
type SignadotSandboxList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// The objects.
	Items []SignadotSandbox `json:"items"`
}

// SignadotSandboxSpec is the desired state.
type SignadotSandboxSpec struct {
	// Name of the cluster, as the control plane knows it.
	// +optional
	ClusterName string `json:"clusterName,omitempty"`

	// Which workloads are forked, and what their clones look like.
	// +optional
	Customization *SandboxCustomization `json:"customization,omitempty"`

	// Deprecated: not needed any more, accepted and ignored.
	// +optional
	DisableSandboxTrafficManager bool `json:"disableSandboxTrafficManager,omitempty"`

	// Members that run outside the cluster.
	// +optional
	ExternalWorkloads []SandboxExternalWorkload `json:"externalWorkloads,omitempty"`

	// Unique slug of the sandbox. It is also its routing key.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	ID string `json:"id"`

	// Resources that are made before the forks start and removed with the
	// sandbox.
	// +optional
	ManagedResources []SandboxResource `json:"managedResources,omitempty"`

	// What users call the sandbox; absent means the name of the object.
	// +optional
	// +kubebuilder:validation:Pattern=`^$|^[a-zA-Z]([a-zA-Z0-9-]*[a-zA-Z0-9])?$`
	// +kubebuilder:validation:MaxLength=30
	Name string `json:"name,omitempty"`

	// Middlewares that requests to members pass, in order.
	// +optional
	RequestMiddlewares []MiddlewareMatch `json:"requestMiddlewares,omitempty"`

	// The control plane's count of changes to the sandbox.
	// +optional
	SDRevision int64 `json:"sdRevision,omitempty"`

	// Members without pods of their own: middlewares on a baseline.
	// +optional
	VirtualWorkloads []SandboxVirtualWorkload `json:"virtualWorkloads,omitempty"`
}

// SandboxCustomization lists the workloads that are forked, with their patches.
type SandboxCustomization struct {
	// Deprecated: accepted and ignored; write a patch.
	// +optional
	Images []ImageOverride `json:"images,omitempty"`

	// Patches. Each picks a workload; the workload is cloned once and all its
	// patches are applied to the clone, in order.
	// +optional
	Patches []TargetedPatch `json:"patches,omitempty"`

	// RE2 expressions, not anchored, for the keys of those labels of the
	// baseline's pods that a clone keeps. All others are removed, so that no
	// Service of the baseline selects a clone. The Services of a clone keep
	// such labels of the baseline's Services, and no annotations.
	// +optional
	PreservedLabels []string `json:"preservedLabels,omitempty"`
}

// ImageOverride was a change of an image.
//
// Deprecated: accepted and ignored.
type ImageOverride struct {
	// Name of the image.
	Name string `json:"name"`

	// Namespace of the workloads.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// New name of the image.
	// +optional
	NewName string `json:"newName,omitempty"`

	// New tag of the image.
	// +optional
	NewTag string `json:"newTag,omitempty"`
}

// SandboxExternalWorkload is a member that runs outside the cluster.
type SandboxExternalWorkload struct {
	// The workload that it receives the traffic of; absent means a reverse tunnel of its own.
	// +optional
	Baseline *ExternalBaseline `json:"baseline,omitempty"`

	// Name of the member, unique in the sandbox.
	// +kubebuilder:validation:Pattern=`^$|^[a-z]([a-z0-9-]*[a-zA-Z0-9])?$`
	// +kubebuilder:validation:MaxLength=30
	Name string `json:"name"`

	// The ports that are forwarded to the workstation.
	// +optional
	Tunnel *TunnelSpec `json:"tunnel,omitempty"`
}

// SandboxResource is a resource of the sandbox.
type SandboxResource struct {
	// Name of the resource, unique in the sandbox.
	Name string `json:"name"`

	// How it is made and removed.
	OLM OLM `json:"olm"`

	// The resource plugin it comes from.
	PluginName string `json:"pluginName"`
}

// SandboxVirtualWorkload is a member without pods of its own.
type SandboxVirtualWorkload struct {
	// The workload that it stands before.
	Baseline ObjectRef `json:"baseline"`

	// Name of the member, unique in the sandbox.
	// +kubebuilder:validation:Pattern=`^$|^[a-z]([a-z0-9-]*[a-zA-Z0-9])?$`
	// +kubebuilder:validation:MaxLength=30
	Name string `json:"name"`
}
