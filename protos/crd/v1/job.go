package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Job is one run of a script or command in a runner, in the context of a
// sandbox, of a route group, or of the baseline.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=jobs,singular=job,shortName=sdjb,scope=Cluster,categories={signadot,switchyard}
// +kubebuilder:printcolumn:name="Group",type=string,JSONPath=`.spec.runnerGroup.name`,description="Its runner group."
// +kubebuilder:printcolumn:name="Sandbox",type=string,JSONPath=`.spec.routingContext.sandboxName`,description="The sandbox that it runs against."
// +kubebuilder:printcolumn:name="Route-Group",type=string,JSONPath=`.spec.routingContext.routegroupName`,description="The route group that it runs against."
// +kubebuilder:printcolumn:name="Succeeded",type=string,JSONPath=`.status.conditions[?(@.type=="Succeeded")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Succeeded")].reason`
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.status.conditions[?(@.type=="Succeeded")].lastTransitionTime`,description="Time since Succeeded last changed."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Succeeded")].message`,priority=1
// +kubebuilder:printcolumn:name="Runner",type=string,JSONPath=`.status.runner.runnerPod.name`,description="The pod that runs it.",priority=1
type Job struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The desired state.
	// +optional
	Spec JobSpec `json:"spec,omitzero"`

	// The observed state.
	// +optional
	Status JobStatus `json:"status,omitzero"`
}

// JobList is a list of Job objects.
//
// +kubebuilder:object:root=true
type JobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// The objects.
	Items []Job `json:"items"`
}

// JobSpec is the desired state. Everything but canceled is immutable.
type JobSpec struct {
	// Files that are kept when the job ends.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="Artifacts is immutable"
	Artifacts []JobArtifact `json:"artifacts,omitempty"`

	// Whether the job is to be stopped.
	// +kubebuilder:default=false
	Canceled bool `json:"canceled"`

	// The command or script of the job.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="Content is immutable"
	Content JobContent `json:"content"`

	// Environment of the script or command.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="Env is immutable"
	Env []JobEnv `json:"env,omitempty"`

	// The context that it runs in; absent means the baseline.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="RoutingContext is immutable"
	RoutingContext *JobRoutingContext `json:"routingContext,omitempty"`

	// The runner group that runs it.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="RunnerGroup is immutable"
	RunnerGroup NamespacedName `json:"runnerGroup"`

	// How long the script or command may run, as a Go duration.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="Timeout is immutable"
	Timeout string `json:"timeout,omitempty"`

	// How requests of the job are treated. (The text of its rule is the
	// published one.)
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="Timeout is immutable"
	TrafficManager *JobTrafficManager `json:"trafficManager,omitempty"`
}

// JobArtifact is a file that is kept.
type JobArtifact struct {
	// Its metadata.
	// +optional
	Meta map[string]string `json:"meta,omitempty"`

	// Its path.
	Path string `json:"path"`
}

// JobContent is a command or a script.
type JobContent struct {
	// A command and its arguments.
	// +optional
	Command []string `json:"command,omitempty"`

	// A script; its first line names the interpreter.
	// +optional
	Script string `json:"script,omitempty"`
}

// JobEnv is a variable of the environment.
type JobEnv struct {
	// Name of the variable.
	Name string `json:"name"`

	// Its value.
	// +optional
	Value string `json:"value,omitempty"`
}

// JobRoutingContext is what a job runs against. Empty means the baseline.
type JobRoutingContext struct {
	// Name of a SignadotRouteGroup object.
	// +optional
	RouteGroupName string `json:"routegroupName,omitempty"`

	// Name of a SignadotSandbox object.
	// +optional
	SandboxName string `json:"sandboxName,omitempty"`
}

// JobTrafficManager configures the handling of requests of a job.
type JobTrafficManager struct {
	// Whether they pass the traffic manager.
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// Whether they get the routing key. Auto also means enabled.
	// +optional
	// +kubebuilder:validation:Enum=Disabled;Auto
	// +kubebuilder:default=Disabled
	InjectRoutingKey string `json:"injectRoutingKey,omitempty"`
}
