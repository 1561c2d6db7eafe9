package execunit

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// Reasons for which a unit is not run.
const (
	ReasonNoTemplate      = "NoTemplate"
	ReasonNoInterpreter   = "NoInterpreter"
	ReasonNothingToRun    = "NothingToRun"
	ReasonTemplateRefused = "PodTemplateRefused"
	ReasonNotAllowed      = "PodNotAllowed"
	ReasonNamespace       = "NamespaceNotAllowed"
	ReasonInputRefused    = "InputRefused"
	ReasonOutputRefused   = "OutputRefused"
)

// problem returns a Problem.
func problem(reason, format string, args ...any) *Problem {
	return &Problem{Reason: reason, Message: cut(fmt.Sprintf(format, args...), maxMessage)}
}

// checking is one check of a unit before it runs.
type checking struct {
	unit crdv1.WorkUnit
	exec crdv1.ExecUnitTemplate
	own  string
	Settings
}

// Accept returns the problem of a unit of an object that has the IO context own; nil when its pod
// can be created.
func Accept(u crdv1.WorkUnit, own string, s Settings) *Problem {
	if u.ExecUnitTemplate == nil {
		return problem(ReasonNoTemplate, "step %s has no execUnitTemplate, so there is nothing to run. Add one with a podTemplate and a script.", quoted(u.Name))
	}
	c := checking{unit: u, exec: *u.ExecUnitTemplate, own: own, Settings: s}
	t := c.template()
	return first(c.container, c.script, c.restarts, t.Form, c.inputs, c.variables, c.files, c.outputs, c.namespace, t.Bounds)
}

// template returns the pod template of the unit.
func (c checking) template() Template {
	return Template{
		Owner: OwnerOf(c.unit.Name), Pod: c.exec.PodTemplate, Namespace: Namespace(c.unit, c.Settings), Elsewhere: "run the unit in another one: podTemplate.metadata.namespace",
		Volumes: []string{VolumeIO, VolumeToken}, Allow: c.Allow, Setting: Setting, OperatorNamespace: c.OperatorNamespace, AuthorAsked: c.AuthorAsked,
	}
}

// container refuses a unit without a container.
func (c checking) container() *Problem {
	if len(c.exec.PodTemplate.Spec.Containers) > 0 {
		return nil
	}
	return problem(ReasonTemplateRefused, "the pod template of step %s has no container. Add one, named %s, with an image.", quoted(c.unit.Name), mainName)
}

// script refuses a unit that has nothing to run, or a script without an interpreter.
func (c checking) script() *Problem {
	main := c.exec.PodTemplate.Spec.Containers[MainIndex(c.exec.PodTemplate.Spec)]
	switch script := c.exec.Script; {
	case script == "" && len(main.Command) == 0:
		return problem(ReasonNothingToRun, "step %s has neither a script nor a command in the container %s. Add one of them.", quoted(c.unit.Name), quoted(main.Name))
	case script != "" && !strings.HasPrefix(script, "#!"):
		return problem(ReasonNoInterpreter, "the script of step %s names no interpreter. Begin it with #! and an interpreter, such as #!/bin/sh.", quoted(c.unit.Name))
	}
	return nil
}

// restarts refuses fields that could start the script a second time.
func (c checking) restarts() *Problem {
	pod, unit := c.exec.PodTemplate.Spec, quoted(c.unit.Name)
	if pod.RestartPolicy != "" && pod.RestartPolicy != corev1.RestartPolicyNever {
		return problem(ReasonTemplateRefused, "the pod template of step %s sets restartPolicy %s. Remove it, since a step runs once.", unit, quoted(string(pod.RestartPolicy)))
	}
	main := pod.Containers[MainIndex(pod)].Name
	for _, container := range containersOf(pod) {
		policy := container.RestartPolicy
		switch {
		case len(container.RestartPolicyRules) > 0:
			return problem(ReasonTemplateRefused, "the container %s of step %s has restartPolicyRules. Remove them, since a step runs once.", quoted(container.Name), unit)
		case container.Name == main && policy != nil && *policy != corev1.ContainerRestartPolicyNever:
			return problem(ReasonTemplateRefused, "the container %s of step %s sets restartPolicy %s. Remove it, since a step runs once.", quoted(main), unit, quoted(string(*policy)))
		}
	}
	return nil
}

// namespace refuses a namespace that the operator does not manage.
func (c checking) namespace() *Problem {
	namespace := Namespace(c.unit, c.Settings)
	switch {
	case namespace != "" && len(validation.IsDNS1123Label(namespace)) > 0:
		return problem(ReasonNamespace, "step %s would run in the namespace %s, which is not a valid name. Change podTemplate.metadata.namespace.", quoted(c.unit.Name), quoted(namespace))
	case len(c.Namespaces) > 0 && !slices.Contains(c.Namespaces, namespace):
		return problem(ReasonNamespace, "step %s would run in the namespace %s, where the operator may do nothing. Name one of its allowedNamespaces in podTemplate.metadata.namespace: %s.",
			quoted(c.unit.Name), quoted(namespace), list(c.Namespaces))
	}
	return nil
}

// shown is the maximum length of quoted text in a message.
const shown = 80

// quoted returns the beginning of a text from a user or another program, quoted for a message.
func quoted(text string) string { return fmt.Sprintf("%q", cut(text, shown)) }

// list returns names for a message.
func list(names []string) string {
	const most = 10
	if len(names) > most {
		return cut(strings.Join(names[:most], ", "), 10*shown) + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return cut(strings.Join(names, ", "), 10*shown)
}

// cut returns at most limit bytes of a text, whole characters.
func cut(text string, limit int) string {
	if len(text) > limit {
		text = text[:limit]
	}
	return strings.ToValidUTF8(text, "")
}
