package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OLM (object lifecycle methods) are units that run before an object starts and after it stops.
// Both lists are graphs: a unit runs when the units that provide its inputs have run.
type OLM struct {
	// The units that run after the object stops.
	// +optional
	PostStop []WorkUnit `json:"postStop,omitempty"`

	// The units that run before the object starts.
	// +optional
	PreStart []WorkUnit `json:"preStart,omitempty"`
}

// WorkUnit is one pod that is run to its end, with named inputs and outputs.
type WorkUnit struct {
	// The pod and how inputs and outputs get in and out of it.
	// +optional
	ExecUnitTemplate *ExecUnitTemplate `json:"execUnitTemplate,omitempty"`

	// Inputs, each a constant or read from an IO context.
	// +optional
	Inputs []WorkUnitInput `json:"inputs,omitempty"`

	// Name of the unit, unique inside its lifecycle.
	// +kubebuilder:validation:Pattern=`^$|^[a-zA-Z]([a-zA-Z0-9-]*[a-zA-Z0-9])?$`
	// +kubebuilder:validation:MaxLength=30
	Name string `json:"name"`

	// Outputs that the unit publishes.
	// +optional
	Outputs []WorkUnitOutput `json:"outputs,omitempty"`

	// What the unit is. There is one type.
	// +kubebuilder:validation:Enum=ExecUnit
	Type string `json:"type"`
}

// WorkUnitInput is one input of a unit.
type WorkUnitInput struct {
	// Where the value is read, when it is not constant.
	// +optional
	IOContext *IOContextRef `json:"iocontext,omitempty"`

	// Name of the input.
	// +kubebuilder:validation:Pattern=`^$|^[a-zA-Z]([a-zA-Z0-9-]*[a-zA-Z0-9])?$`
	// +kubebuilder:validation:MaxLength=30
	Name string `json:"name"`

	// The constant value.
	// +optional
	Value string `json:"value,omitempty"`
}

// IOContextRef names a value of an IO context.
type IOContextRef struct {
	// Key of the value.
	// +kubebuilder:validation:MaxLength=60
	Key string `json:"key"`

	// Name of the IO context; absent means that of the object itself.
	// +optional
	// +kubebuilder:validation:Pattern=`^$|^[a-zA-Z]([a-zA-Z0-9-]*[a-zA-Z0-9])?$`
	// +kubebuilder:validation:MaxLength=60
	Name string `json:"name,omitempty"`
}

// WorkUnitOutput is one output of a unit.
type WorkUnitOutput struct {
	// Name of the output.
	// +kubebuilder:validation:Pattern=`^$|^[a-zA-Z]([a-zA-Z0-9-]*[a-zA-Z0-9])?$`
	// +kubebuilder:validation:MaxLength=30
	Name string `json:"name"`
}

// ExecUnitTemplate is the pod of a unit.
type ExecUnitTemplate struct {
	// How inputs get into the pod.
	// +optional
	InputInjects []InputInject `json:"inputInjects,omitempty"`

	// How outputs get out of the pod.
	// +optional
	OutputExports []OutputExport `json:"outputExports,omitempty"`

	// The pod. It has no name, its restart policy is empty or Never, it has a
	// container, and it leaves the names signadot-execunit-io (a volume),
	// signadot-execunit-input-manager and signadot-execunit-output-manager
	// (containers) alone.
	PodTemplate corev1.PodTemplateSpec `json:"podTemplate"`

	// The script of the main container. Its first line names the interpreter.
	// +optional
	Script string `json:"script,omitempty"`
}

// InputInject puts an input into the main container.
type InputInject struct {
	// Where to: an environment variable, a file, or both.
	Dst InputDestination `json:"dst"`

	// Name of the input.
	InputName string `json:"inputName"`
}

// InputDestination is the place of an input.
type InputDestination struct {
	// Name of an environment variable.
	// +optional
	Env string `json:"env,omitempty"`

	// Path of a file.
	// +optional
	LocalPath string `json:"localPath,omitempty"`
}

// OutputExport takes an output from the main container.
type OutputExport struct {
	// Path of the file that holds the value.
	FromPath string `json:"fromPath"`

	// Name of the output.
	OutputName string `json:"outputName"`
}

// WorkUnitStatus is how far a unit is.
type WorkUnitStatus struct {
	// How often the unit was begun, counted from 1.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`

	// The pod that runs the unit, or will: its name is recorded before it is created.
	// +optional
	ExecUnit *NamespacedName `json:"execUnit,omitempty"`

	// When it ended, in whatever way.
	// +optional
	Finished *metav1.Time `json:"finished,omitempty"`

	// A hash of the form in which the unit was begun.
	// +optional
	Form string `json:"form,omitempty"`

	// The operator's signature on the pod, while the unit runs: no other pod gets its inputs.
	// +optional
	Grant string `json:"grant,omitempty"`

	// The problem and its remedy.
	// +optional
	Message string `json:"message,omitempty"`

	// Name of the unit.
	Name string `json:"name"`

	// Names of the outputs that it has given.
	// +optional
	Outputs []string `json:"outputs,omitempty"`

	// How far it is, in one word.
	// +optional
	Phase string `json:"phase,omitempty"`

	// The UID of the pod: only that pod may run the unit.
	// +optional
	PodUID string `json:"podUID,omitempty"`

	// Why it is not further, in one word.
	// +optional
	Reason string `json:"reason,omitempty"`

	// The last request to retry that was processed.
	// +optional
	Retried string `json:"retried,omitempty"`

	// When its attempt began.
	// +optional
	Started *metav1.Time `json:"started,omitempty"`
}

// Phases of a unit.
const (
	// UnitPending: units that provide its inputs have not succeeded, or others run.
	UnitPending = "Pending"
	// UnitStarting: its pod is being made.
	UnitStarting = "Starting"
	// UnitRunning: its pod is there.
	UnitRunning = "Running"
	// UnitSucceeded: its script ended with 0, and its outputs are kept.
	UnitSucceeded = "Succeeded"
	// UnitFailed: it ended otherwise.
	UnitFailed = "Failed"
	// UnitLost: it is unknown whether its script ended.
	UnitLost = "Lost"
	// UnitSkipped: there is nothing for it to do.
	UnitSkipped = "Skipped"
)

// NamespacedName identifies an object of a known kind.
type NamespacedName struct {
	// Name of the object.
	Name string `json:"name"`

	// Namespace of the object.
	Namespace string `json:"namespace"`
}
