package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// StatusCondition is one observation about an object, in the form that kubectl wait
// understands. It is the published shape: unlike metav1.Condition it requires only type and
// status, so that existing objects stay valid. The operator always writes every field; see
// SetCondition.
type StatusCondition struct {
	// The last time that status changed.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitzero"`

	// What happened, for people, with what to do about it.
	// +optional
	Message string `json:"message,omitempty"`

	// The generation of the object that this was found out about. When it is
	// older than metadata.generation, the condition describes an earlier spec.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Why, in one CamelCase word, for programs.
	// +optional
	Reason string `json:"reason,omitempty"`

	// True, False or Unknown.
	Status string `json:"status"`

	// The name of the condition. Every type that this version knows is always
	// present, so an absent type means that the operator does not know it.
	Type string `json:"type"`
}

// ObjectRef identifies a workload.
type ObjectRef struct {
	// API version of the workload, such as apps/v1.
	APIVersion string `json:"apiVersion"`

	// Kind of the workload, such as Deployment.
	Kind string `json:"kind"`

	// Name of the workload.
	Name string `json:"name"`

	// Namespace of the workload.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// ExternalBaseline identifies the baseline of a workload outside the cluster.
type ExternalBaseline struct {
	ObjectRef `json:",inline"`

	// Whether the baseline is a placeholder for which no object exists.
	// +optional
	Fake bool `json:"fake,omitempty"`
}

// WorkloadBaseline is the last observed state of a baseline.
type WorkloadBaseline struct {
	// The last generation that was observed.
	// +optional
	Generation int64 `json:"generation,omitempty"`

	// The UID of the baseline workload.
	WorkloadID string `json:"workloadID"`
}

// MiddlewareInstance is one use of a request middleware.
type MiddlewareInstance struct {
	// Arguments of the middleware.
	// +optional
	Args []MiddlewareArg `json:"args,omitempty"`

	// Kubernetes name of the middleware.
	Middleware string `json:"middleware"`
}

// MiddlewareArg is one argument of a middleware.
type MiddlewareArg struct {
	// Name of the argument.
	Name string `json:"name"`

	// Value of the argument. Required even when valueFrom is given.
	Value string `json:"value"`

	// Where the value comes from, when it is not constant.
	// +optional
	ValueFrom *MiddlewareArgSource `json:"valueFrom,omitempty"`
}

// MiddlewareArgSource is the source of the value of an argument.
type MiddlewareArgSource struct {
	// Name of the forward (a reverse tunnel) with the address that is the value.
	Forward string `json:"forward"`
}

// MiddlewareMatch attaches a middleware to a baseline workload.
type MiddlewareMatch struct {
	// The middleware and its arguments.
	Instance MiddlewareInstance `json:"instance"`

	// The baseline workload; absent means all workloads of the sandbox.
	// +optional
	Workload *WorkloadRef `json:"workload,omitempty"`
}

// WorkloadRef identifies a baseline workload inside the cluster.
type WorkloadRef struct {
	// Kind of the workload.
	Kind string `json:"kind"`

	// Name of the workload.
	Name string `json:"name"`

	// Namespace of the workload.
	Namespace string `json:"namespace"`
}

// SandboxedWorkloadRef refers to a member of a sandbox: the ForkedWorkload,
// SignadotExternalWorkload or VirtualWorkload object, not the objects created for it.
type SandboxedWorkloadRef struct {
	// Kind of the member.
	// +kubebuilder:validation:Enum=ForkedWorkload;SignadotExternalWorkload;VirtualWorkload
	Kind string `json:"kind"`

	// Name of the member object.
	Name string `json:"name"`

	// Namespace of the member object.
	Namespace string `json:"namespace"`

	// Name of the sandbox that the member belongs to, as its users know it.
	// +optional
	SandboxName string `json:"sandboxName,omitempty"`
}
