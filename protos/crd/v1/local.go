package v1

import corev1 "k8s.io/api/core/v1"

// LocalWorkload is what AnnotationLocal has of one workload. Its texts may have variables as
// patches of forks have them: .baseline.container, .resources.<name>.objectName, and
// .forks.<kind>/<namespace>/<name>.service.host and .port.
//
// +kubebuilder:object:generate=false
type LocalWorkload struct {
	// Containers have variables for containers of the baseline.
	Containers []LocalContainer `json:"containers,omitempty"`
	// Files are put beside those of the baseline's volumes, or in their place.
	Files []LocalFile `json:"files,omitempty"`
}

// LocalContainer has variables for a container of the baseline.
//
// +kubebuilder:object:generate=false
type LocalContainer struct {
	// Name is that of the container.
	Name string `json:"name"`
	// Env is as in a strategic patch of the container.
	Env []map[string]any `json:"env"`
}

// LocalFile is a file for a process on a workstation.
//
// +kubebuilder:object:generate=false
type LocalFile struct {
	// Path is where it is, as the container would see it.
	Path string `json:"path"`
	// Value is the content, unless ValueFrom is set.
	Value string `json:"value,omitempty"`
	// ValueFrom is a key of a ConfigMap or a Secret of the baseline's namespace.
	ValueFrom *corev1.EnvVarSource `json:"valueFrom,omitempty"`
}
