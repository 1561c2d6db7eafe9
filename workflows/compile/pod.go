package compile

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"switchyard.dev/protos/crd/variable"
	"switchyard.dev/workflows/spec"
)

// runnerContainer is the container that runs a step's script.
const runnerContainer = "main"

// envResourceName is a variable that every step has, beside those of its sandbox.
const envResourceName = "SIGNADOT_RESOURCE_NAME"

// podTemplate returns the pod of every step: the default one with the plugin's overlay. The
// text of the error is the end of a sentence about the overlay.
func podTemplate(r spec.Runner, who identity) (template corev1.PodTemplateSpec, err error) {
	template.Namespace = r.Namespace
	template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{
		Name: runnerContainer, Image: r.Image, Env: []corev1.EnvVar{
			{Name: variable.EnvSandboxName, Value: who.sandbox}, {Name: variable.EnvRoutingKey, Value: who.key}, {Name: envResourceName, Value: who.resource},
		},
	}}}
	if strings.TrimSpace(r.PodTemplateOverlay) == "" {
		return template, nil
	}
	overlay, err := overlayOf(r)
	if err != nil {
		return template, err
	}
	defer func() {
		if p := recover(); p != nil { // the library assumes input that an API server has validated
			err = fmt.Errorf("cannot be merged into the pod: %v", p)
		}
	}()
	base, err := json.Marshal(template)
	if err != nil {
		return template, fmt.Errorf("cannot be merged into the pod: %w", err)
	}
	merged, err := strategicpatch.StrategicMergePatch(base, overlay, corev1.PodTemplateSpec{})
	if err != nil {
		return template, fmt.Errorf("cannot be merged into the pod: %w", err)
	}
	template = corev1.PodTemplateSpec{}
	if err := json.Unmarshal(merged, &template); err != nil {
		return template, fmt.Errorf("gives no pod: %w", err)
	}
	if err := acceptPod(template); err != nil {
		return template, err
	}
	return template, acceptLists(template)
}

// Names of the operator's own parts of a step's pod.
var reserved = []string{"signadot-execunit-io", "signadot-execunit-input-manager", "signadot-execunit-output-manager"}

// acceptPod refuses a pod that cannot run a step.
func acceptPod(t corev1.PodTemplateSpec) error {
	main := false
	names := map[string]bool{}
	for _, c := range append(append([]corev1.Container{}, t.Spec.InitContainers...), t.Spec.Containers...) {
		switch {
		case c.Image == "":
			return fmt.Errorf("adds a container %q without an image; the script runs in the container %s", c.Name, runnerContainer)
		case names[c.Name]:
			return fmt.Errorf("has two containers named %q", c.Name)
		}
		main, names[c.Name] = main || c.Name == runnerContainer, true
	}
	for _, v := range t.Spec.Volumes {
		names[v.Name] = true
	}
	for _, name := range reserved {
		if names[name] {
			return fmt.Errorf("uses the name %s, which is the operator's own", name)
		}
	}
	m := t.ObjectMeta
	switch {
	case !main:
		return fmt.Errorf("takes away the container %s, in which the script runs", runnerContainer)
	case t.Spec.RestartPolicy != "" && t.Spec.RestartPolicy != corev1.RestartPolicyNever:
		return fmt.Errorf("sets restartPolicy %s; remove it, since a step runs once", t.Spec.RestartPolicy)
	case m.Name != "" || m.GenerateName != "":
		return errors.New("names the pod; remove the name, since every step gets a new pod")
	case len(t.Spec.EphemeralContainers) > 0 || len(t.Spec.EvictionResponders) > 0:
		return errors.New("sets ephemeralContainers or evictionResponders; remove them, since the pod of a step has none")
	case len(m.OwnerReferences) > 0 || m.UID != "" || m.ResourceVersion != "" || m.DeletionTimestamp != nil || m.Generation != 0 || m.SelfLink != "":
		return errors.New("sets metadata other than labels, annotations and finalizers; remove it")
	}
	return nil
}

// unique are the lists of a pod in which items are identified by these fields.
var unique = map[string][]string{
	"claims": {"name"}, "containers": {"name"}, "env": {"name"}, "hostAliases": {"ip"}, "imagePullSecrets": {"name"},
	"initContainers": {"name"}, "ports": {"containerPort", "protocol"}, "resourceClaims": {"name"}, "schedulingGates": {"name"},
	"topologySpreadConstraints": {"topologyKey", "whenUnsatisfiable"}, "volumeDevices": {"devicePath"}, "volumeMounts": {"mountPath"}, "volumes": {"name"},
}

// sets are lists of a pod with unique values, by their parent field and their own.
var sets = []string{"exitCodes.values", "bindMountOptions"}

// acceptLists refuses a pod with lists that the API server would refuse: those with a duplicate
// item, and required ones that are missing.
func acceptLists(t corev1.PodTemplateSpec) error {
	text, err := json.Marshal(t)
	var fields map[string]any
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		return fmt.Errorf("gives no pod: %w", err)
	}
	return acceptFields("", "", fields)
}

// acceptFields checks a value of a pod, which is the field name of the value at path.
func acceptFields(path, name string, value any) error {
	at := strings.TrimPrefix(path+"."+name, ".")
	switch v := value.(type) {
	case nil:
		return fmt.Errorf("leaves %s without a value", at)
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if err := acceptFields(at, key, v[key]); err != nil {
				return err
			}
		}
	case []any:
		seen := map[string]bool{}
		isSet := slices.ContainsFunc(sets, func(s string) bool { return at == s || strings.HasSuffix(at, "."+s) })
		for i, item := range v {
			id, told := identified(item, unique[name])
			if told = told || isSet; told && seen[id] {
				return fmt.Errorf("has %s twice in %s", id, at)
			}
			seen[id] = told
			if err := acceptFields(fmt.Sprintf("%s[%d]", at, i), "", item); err != nil {
				return err
			}
		}
	}
	return nil
}

// identified returns the identity of an item of a list; false when it has none.
func identified(item any, by []string) (string, bool) {
	fields, ok := item.(map[string]any)
	if !ok || len(by) == 0 {
		return fmt.Sprint(item), false
	}
	var out []string
	for _, key := range by {
		value := fields[key]
		if key == "protocol" && value == nil {
			value = "TCP"
		}
		if value == nil {
			value = ""
		}
		out = append(out, fmt.Sprintf("%s %v", key, value))
	}
	return strings.Join(out, ", "), true
}
