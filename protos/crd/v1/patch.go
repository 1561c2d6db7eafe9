package v1

import "k8s.io/apimachinery/pkg/runtime"

// Patch changes the clone of a workload. At most one of strategic, merge and json may
// be set; a condition reports a patch that sets more. A patch that sets none leaves the
// clone a copy of its baseline.
type Patch struct {
	// Operations of a JSON patch (RFC 6902).
	// +optional
	// +kubebuilder:validation:items:XPreserveUnknownFields
	JSON []runtime.RawExtension `json:"json,omitempty"`

	// A JSON merge patch (RFC 7396).
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Merge *runtime.RawExtension `json:"merge,omitempty"`

	// A strategic merge patch, as kubectl patch applies it.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Strategic *runtime.RawExtension `json:"strategic,omitempty"`

	// Whether variables in the patch are substituted, such as the names of the
	// objects that hold a resource's outputs.
	// +optional
	Template bool `json:"template,omitempty"`
}

// TargetedPatch is a patch together with the workload that it is for.
type TargetedPatch struct {
	Patch `json:",inline"`

	// The baseline workload that is cloned and patched. The workload itself is never changed.
	Target ObjectRef `json:"target"`
}
