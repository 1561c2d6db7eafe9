package spec

// Plugin is the file of a resource plugin.
type Plugin struct {
	// Name is that of the plugin, with its version after @ unless that is 0.0.0.
	Name string `json:"name"`
	// Spec has the steps.
	Spec PluginSpec `json:"spec"`
}

// PluginSpec is the specification of a resource plugin.
type PluginSpec struct {
	// Description is for people.
	Description string `json:"description,omitempty"`
	// Runner configures the pods of its steps.
	Runner Runner `json:"runner"`
	// Create are the steps that create a resource, in any order.
	Create []Step `json:"create,omitempty"`
	// Delete are the steps that delete it, in any order.
	Delete []Step `json:"delete,omitempty"`
}

// Runner configures the pods of steps: a new pod for each.
type Runner struct {
	// Image is that of the container main.
	Image string `json:"image"`
	// Namespace is that of the pod; empty: that of the operator.
	Namespace string `json:"namespace,omitempty"`
	// PodTemplateOverlay is a strategic patch of the pod's template, in YAML.
	PodTemplateOverlay string `json:"podTemplateOverlay,omitempty"`
}

// Step is a script that runs to completion.
type Step struct {
	// Name is unique in the plugin.
	Name string `json:"name"`
	// Inputs are the values that it reads.
	Inputs []Input `json:"inputs,omitempty"`
	// Script is run by the interpreter that its first line names.
	Script string `json:"script"`
	// Outputs are the files that it writes.
	Outputs []Output `json:"outputs,omitempty"`
	// Retry: its script may run again when it is unknown whether it completed. An extension of
	// Switchyard; without it such a step waits for a person.
	Retry bool `json:"retry,omitempty"`
}

// Input is an input of a step.
type Input struct {
	// Name is unique in the step.
	Name string `json:"name"`
	// Type is for people.
	Type string `json:"type,omitempty"`
	// ValueFromSandbox: the value is a parameter of the sandbox's resource.
	ValueFromSandbox bool `json:"valueFromSandbox,omitempty"`
	// ValueFromStep: the value is an output of another step.
	ValueFromStep *StepOutput `json:"valueFromStep,omitempty"`
	// As is the destination of the value.
	As *InputTo `json:"as,omitempty"`
}

// StepOutput names an output of a step.
type StepOutput struct {
	// Name is that of the step.
	Name string `json:"name"`
	// Output is that of the output.
	Output string `json:"output"`
}

// InputTo is the destination of an input.
type InputTo struct {
	// Env is a variable of its environment.
	Env string `json:"env,omitempty"`
	// Path is a file.
	Path string `json:"path,omitempty"`
}

// Output is an output of a step.
type Output struct {
	// Name is unique in the step.
	Name string `json:"name"`
	// Type is for people.
	Type string `json:"type,omitempty"`
	// Description is for people.
	Description string `json:"description,omitempty"`
	// ValueFromPath is the file with the value after the script has ended.
	ValueFromPath string `json:"valueFromPath"`
}
