package execunit

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/protos/crd/variable"
	"switchyard.dev/workflows/iocontext"
)

// FitsVariable reports whether a value fits a variable of a program.
func FitsVariable(name, value string) bool {
	return len(name)+1+len(value)+1 <= iocontext.MaxVariable && variable.Describe([]byte(value)) == ""
}

// inputs refuses inputs that cannot be read, or are too large.
func (c checking) inputs() *Problem {
	unit := quoted(c.unit.Name)
	for _, in := range c.unit.Inputs {
		name := quoted(in.Name)
		switch from := in.IOContext; {
		case from != nil && from.Name != "" && from.Name != c.own:
			return problem(ReasonInputRefused, "input %s of step %s is read from the IO context %s; this version reads only the object's own. Remove iocontext.name, or have the value as a constant.", name, unit, quoted(from.Name))
		case len(in.Value) > iocontext.MaxValue:
			return problem(ReasonInputRefused, "input %s of step %s has a value of %d bytes, and at most %d are possible. Put it into a volume of the pod template.", name, unit, len(in.Value), iocontext.MaxValue)
		}
	}
	for _, inject := range c.exec.InputInjects {
		name := quoted(inject.InputName)
		switch {
		case c.input(inject.InputName) == nil:
			return problem(ReasonInputRefused, "inputInjects of step %s names the input %s, which the step does not have. Add it to inputs, or change the name.", unit, name)
		case inject.Dst == (crdv1.InputDestination{}):
			return problem(ReasonInputRefused, "inputInjects of step %s puts the input %s nowhere. Add dst.env or dst.localPath.", unit, name)
		}
	}
	return nil
}

// input returns the input of this name; nil when there is none.
func (c checking) input(name string) *crdv1.WorkUnitInput {
	if i := slices.IndexFunc(c.unit.Inputs, func(in crdv1.WorkUnitInput) bool { return in.Name == name }); i >= 0 {
		return &c.unit.Inputs[i]
	}
	return nil
}

// variables refuses inputs that cannot be variables.
func (c checking) variables() *Problem {
	unit, taken := quoted(c.unit.Name), map[string]bool{}
	for _, inject := range c.exec.InputInjects {
		env, name := inject.Dst.Env, quoted(inject.InputName)
		if env == "" {
			continue
		}
		in := c.input(inject.InputName)
		switch {
		case len(validation.IsEnvVarName(env)) > 0:
			return problem(ReasonInputRefused, "input %s of step %s is to be the variable %s, which is not a valid name. Change dst.env.", name, unit, quoted(env))
		case taken[env]:
			return problem(ReasonInputRefused, "two inputs of step %s are to be the variable %s. Change dst.env of one of them.", unit, quoted(env))
		case in.IOContext == nil && variable.Describe([]byte(in.Value)) != "":
			return problem(ReasonInputRefused, "input %s of step %s %s, so that it cannot be variable %s. Use dst.localPath instead of dst.env.", name, unit, variable.Describe([]byte(in.Value)), quoted(env))
		case in.IOContext == nil && !FitsVariable(env, in.Value):
			return problem(ReasonInputRefused, "input %s of step %s has %d bytes, and a variable at most %d with its name. Use dst.localPath instead of dst.env.", name, unit, len(in.Value), iocontext.MaxVariable)
		}
		taken[env] = true
	}
	return nil
}

// files refuses inputs that cannot be files at their destination.
func (c checking) files() *Problem {
	unit, taken := quoted(c.unit.Name), map[string]bool{}
	main := c.exec.PodTemplate.Spec.Containers[MainIndex(c.exec.PodTemplate.Spec)]
	for _, m := range main.VolumeMounts {
		taken[m.MountPath] = true
	}
	for _, d := range main.VolumeDevices {
		taken[d.DevicePath] = true
	}
	for _, inject := range c.exec.InputInjects {
		at, name := inject.Dst.LocalPath, quoted(inject.InputName)
		if at == "" {
			continue
		}
		if wrong := wrongPath(at); wrong != "" {
			return problem(ReasonInputRefused, "input %s of step %s is to be the file %s, which %s. Change dst.localPath.", name, unit, quoted(at), wrong)
		}
		if len(validation.IsDNS1123Label(strings.ToLower(inject.InputName))) > 0 { // the name of its file
			return problem(ReasonInputRefused, "input %s of step %s is to be a file, and its name is not a valid one. Change it.", name, unit)
		}
		if taken[at] {
			return problem(ReasonInputRefused, "input %s of step %s is to be the file %s, where another input or a volume is. Change dst.localPath.", name, unit, quoted(at))
		}
		taken[at] = true
	}
	return nil
}

// outputs refuses outputs without an export.
func (c checking) outputs() *Problem {
	unit, given, taken := quoted(c.unit.Name), map[string]bool{}, map[string]bool{}
	for _, export := range c.exec.OutputExports {
		name := quoted(export.OutputName)
		switch {
		case !slices.Contains(c.unit.Outputs, crdv1.WorkUnitOutput{Name: export.OutputName}):
			return problem(ReasonOutputRefused, "outputExports of step %s names the output %s, which the step does not have. Add it to outputs, or change the name.", unit, name)
		case given[export.OutputName]:
			return problem(ReasonOutputRefused, "outputExports of step %s gives the output %s twice. Remove one of them.", unit, name)
		case wrongPath(export.FromPath) != "":
			return problem(ReasonOutputRefused, "output %s of step %s is the file %s, which %s. Change fromPath.", name, unit, quoted(export.FromPath), wrongPath(export.FromPath))
		case taken[export.FromPath]:
			return problem(ReasonOutputRefused, "two outputs of step %s are the file %s. Change fromPath of one of them.", unit, quoted(export.FromPath))
		}
		given[export.OutputName], taken[export.FromPath] = true, true
	}
	for _, o := range c.unit.Outputs {
		if !given[o.Name] {
			return problem(ReasonOutputRefused, "output %s of step %s has no outputExports, so it has no value. Add one with fromPath, or remove the output.", quoted(o.Name), unit)
		}
	}
	return nil
}
