package spec

// Plugin is the file of a resource plugin.
type Plugin struct {
	// Name is that of the plugin, with its version after @ unless that is 0.0.0.
	Name string `json:"name"`
	// Spec has the steps.
	Spec PluginSpec `json:"spec"`
}

// PluginSpec is what a resource plugin does.
type PluginSpec struct {
	// Description is for people.
	Description string `json:"description,omitempty"`
	// Runner is what its steps run in.
	Runner Runner `json:"runner"`
	// Create are the steps that make a resource, in any order.
	Create []Step `json:"create,omitempty"`
	// Delete are the steps that remove it, in any order.
	Delete []Step `json:"delete,omitempty"`
}

// Runner is what steps run in: a new pod each.
type Runner struct {
	// Image is that of the container main.
	Image string `json:"image"`
	// Namespace is that of the pod; empty: that of the operator.
	Namespace string `json:"namespace,omitempty"`
	// PodTemplateOverlay is a strategic patch of the pod's template, in YAML.
	PodTemplateOverlay string `json:"podTemplateOverlay,omitempty"`
}

// Step is a script that runs to its end.
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

// Input is what a step reads.
type Input struct {
	// Name is unique in the step.
	Name string `json:"name"`
	// Type is for people.
	Type string `json:"type,omitempty"`
	// ValueFromSandbox: the value is a parameter of the sandbox's resource.
	ValueFromSandbox bool `json:"valueFromSandbox,omitempty"`
	// ValueFromStep: the value is an output of another step.
	ValueFromStep *StepOutput `json:"valueFromStep,omitempty"`
	// As is how the script finds it.
	As *InputTo `json:"as,omitempty"`
}

// StepOutput names an output of a step.
type StepOutput struct {
	// Name is that of the step.
	Name string `json:"name"`
	// Output is that of the output.
	Output string `json:"output"`
}

// InputTo is how a script finds an input.
type InputTo struct {
	// Env is a variable of its environment.
	Env string `json:"env,omitempty"`
	// Path is a file.
	Path string `json:"path,omitempty"`
}

// Output is what a step leaves.
type Output struct {
	// Name is unique in the step.
	Name string `json:"name"`
	// Type is for people.
	Type string `json:"type,omitempty"`
	// Description is for people.
	Description string `json:"description,omitempty"`
	// ValueFromPath is the file that holds the value when the script has ended.
	ValueFromPath string `json:"valueFromPath"`
}
