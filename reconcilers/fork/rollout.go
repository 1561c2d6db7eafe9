package fork

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"

	"switchyard.dev/reconcilers/baseline"
)

// rolloutKind implements kind for Argo Rollouts. It knows the pod template and the fields named in this
// file; all other fields are copied unchanged.
type rolloutKind struct{}

// bare returns the Rollout as patches see it. If it takes its pod template from a Deployment
// (workloadRef), that template is inlined: a fork that referred to the Deployment would scale it down when
// the fork is ready.
func (rolloutKind) bare(live *baseline.Workload) (map[string]any, *Problem) {
	have, ok := live.Object.(*unstructured.Unstructured)
	if !ok {
		return nil, problem(ReasonPatchFailed, "%s was read as %T, which cannot be forked", live, live.Object)
	}
	content, _ := have.Object["spec"].(map[string]any)
	spec := runtime.DeepCopyJSON(content)
	if spec == nil {
		spec = map[string]any{}
	}
	if _, referred := spec["workloadRef"]; referred {
		if p := inline(spec, live); p != nil {
			return nil, p
		}
	}
	if _, ok := spec["template"].(map[string]any); !ok {
		return nil, problem(ReasonPatchFailed, "%s has no spec.template to be forked: give it one, or a spec.workloadRef", live)
	}
	for _, key := range ofOneRollout() {
		delete(spec, key)
	}
	spec["replicas"] = int64(1)
	if annotations, ok, _ := unstructured.NestedFieldNoCopy(spec, "template", "metadata", "annotations"); ok {
		if annotations, ok := annotations.(map[string]any); ok {
			delete(annotations, annotationRestarted)
		}
	}
	metadata := map[string]any{"name": have.GetName(), "namespace": have.GetNamespace()}
	if labels := have.GetLabels(); len(labels) > 0 {
		metadata["labels"] = ofStrings(labels)
	}
	annotations := have.GetAnnotations()
	maps.DeleteFunc(annotations, isForeign)
	if len(annotations) > 0 {
		metadata["annotations"] = ofStrings(annotations)
	}
	return map[string]any{
		"apiVersion": live.Ref.APIVersion, "kind": live.Ref.Kind, "metadata": metadata, "spec": spec,
	}, nil
}

// inline puts the template that a Rollout refers to into its spec.
func inline(spec map[string]any, live *baseline.Workload) *Problem {
	ref := at(spec, "workloadRef")
	if live.Template == nil || len(live.Template.Spec.Containers) == 0 {
		return problem(ReasonPatchFailed, "%s takes its pod template from %v %v (spec.workloadRef), which is not there: create it, or give the Rollout a spec.template",
			live, ref["kind"], ref["name"])
	}
	template, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live.Template)
	if err != nil {
		return problem(ReasonPatchFailed, "%s: the pod template of %v %v (spec.workloadRef) cannot be read: %v",
			live, ref["kind"], ref["name"], err)
	}
	delete(spec, "workloadRef")
	spec["template"] = template
	return nil
}

// ofOneRollout returns the spec fields that control the progress of one Rollout, as paused does for a
// Deployment. A clone with them would not become ready, would restart, or would roll back when it is slow.
// analysis only sets the number of analysis runs that are kept.
func ofOneRollout() []string {
	return []string{"paused", "restartAt", "progressDeadlineAbort", "analysis", "rollbackWindow"}
}

// strategic applies a strategic merge patch with the schema of core/v1 in the pod template. There is no
// schema for the rest: objects are merged and lists are replaced, as API servers do for custom resources
// in a merge patch.
func (rolloutKind) strategic(document, patch []byte) ([]byte, error) {
	pod, err := strategicpatch.NewPatchMetaFromStruct(corev1.PodTemplateSpec{})
	if err != nil {
		return nil, err
	}
	schema := freeSchema{"spec": freeSchema{"template": pod}}
	return strategicpatch.StrategicMergePatchUsingLookupPatchMeta(document, patch, schema)
}

// freeSchema is the schema of an object of which only some fields have one.
type freeSchema map[string]strategicpatch.LookupPatchMeta

// LookupPatchMetadataForStruct returns the schema of a field that is an object.
func (s freeSchema) LookupPatchMetadataForStruct(key string) (strategicpatch.LookupPatchMeta, strategicpatch.PatchMeta, error) {
	if known, ok := s[key]; ok {
		return known, strategicpatch.PatchMeta{}, nil
	}
	return freeSchema{}, strategicpatch.PatchMeta{}, nil
}

// LookupPatchMetadataForSlice returns the schema of a field that is a list: it is
// replaced.
func (s freeSchema) LookupPatchMetadataForSlice(string) (strategicpatch.LookupPatchMeta, strategicpatch.PatchMeta, error) {
	return freeSchema{}, strategicpatch.PatchMeta{}, nil
}

// Name returns the name of the kind that the schema describes.
func (s freeSchema) Name() string { return "Rollout" }

// rolloutHead has the known fields of a Rollout outside its pod template.
type rolloutHead struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Replicas *int32                `json:"replicas"`
		Selector *metav1.LabelSelector `json:"selector"`
	} `json:"spec"`
}

// read reads a Rollout. The pod template has no fields but those of core/v1 and
// those that the baseline has, which may be newer than this program.
func (rolloutKind) read(document []byte, before *draft) (*draft, error) {
	fields, err := fieldsOf(document)
	if err != nil {
		return nil, err
	}
	var head rolloutHead
	if err := kjson.UnmarshalCaseSensitivePreserveInts(document, &head); err != nil {
		return nil, err
	}
	d := &draft{
		fields: fields, apiVersion: head.APIVersion, kind: head.Kind, meta: head.ObjectMeta,
		replicas: head.Spec.Replicas, selector: head.Spec.Selector, unknown: map[string]bool{},
	}
	template, strict, err := podTemplate(fields)
	if err != nil {
		return nil, err
	}
	d.template = *template
	for _, e := range strict {
		// Without the path: a patch may have moved the field.
		name := e.Error()[strings.LastIndexByte(e.Error(), '.')+1:]
		if before != nil && !before.unknown[name] {
			return nil, fmt.Errorf("spec.template: %w", e)
		}
		d.unknown[name] = true
	}
	return d, nil
}

// podTemplate reads the pod template of a Rollout; the second are its fields that
// this program does not know.
func podTemplate(fields map[string]any) (*corev1.PodTemplateSpec, []error, error) {
	spec, _ := fields["spec"].(map[string]any)
	document, err := json.Marshal(spec["template"])
	if err != nil {
		return nil, nil, err
	}
	template := &corev1.PodTemplateSpec{}
	strict, err := kjson.UnmarshalStrict(document, template)
	if err != nil {
		return nil, nil, fmt.Errorf("spec.template: %w", err)
	}
	return template, strict, nil
}

// check refuses fields that would make the fork act on the baseline.
func (rolloutKind) check(next, first *draft) string {
	spec := at(next.fields, "spec")
	if spec["workloadRef"] != nil {
		return "gives spec.workloadRef, with which the fork would take its template from another workload and scale that down: patch spec.template instead"
	}
	for _, key := range ofOneRollout() {
		if spec[key] != nil && spec[key] != false {
			return fmt.Sprintf("gives spec.%s, which a fork does not have: it goes up at once, and stays: leave it out of the patch", key)
		}
	}
	// finish sets the strategy. The strategy of the baseline is dropped without a message; changes that a
	// patch requests must not be.
	wants := runtime.DeepCopyJSONValue(spec["strategy"])
	if strategy, ok := wants.(map[string]any); ok {
		canary, _ := strategy["canary"].(map[string]any)
		for _, key := range ownStrategy() {
			delete(canary, key)
		}
	}
	if added := firstAdded(wants, at(first.fields, "spec")["strategy"], "spec.strategy"); added != "" {
		return fmt.Sprintf("gives %s: a fork has no part in the Services, traffic, analyses and steps of its baseline and goes up at once; "+
			"leave spec.strategy out of the patch, but for canary.maxSurge and canary.maxUnavailable", added)
	}
	return ""
}

// ownStrategy returns the fields of spec.strategy.canary that a fork keeps: the limits on the number of
// pods during a rollout.
func ownStrategy() []string { return []string{"maxSurge", "maxUnavailable"} }

// firstAdded returns the path of something in wants that is not the same in has; empty
// when there is nothing.
func firstAdded(wants, has any, path string) string {
	object, ok := wants.(map[string]any)
	if !ok {
		if wants == nil || reflect.DeepEqual(wants, has) {
			return ""
		}
		return path
	}
	had, _ := has.(map[string]any)
	found := ""
	for key, value := range object {
		if added := firstAdded(value, had[key], path+"."+key); added != "" && (found == "" || added < found) {
			found = added
		}
	}
	return found
}

// finish replaces the strategy of the Rollout: a canary without steps is promoted at once, like a
// Deployment. If open is set, the number of replicas is initially one: the API server sets no default, and
// autoscalers ignore a Rollout without a number.
func (rolloutKind) finish(fields map[string]any, open bool) {
	spec := at(fields, "spec")
	if open {
		spec["replicas"] = int64(1)
	}
	canary := map[string]any{}
	if old, ok := at(spec, "strategy")["canary"].(map[string]any); ok {
		for _, key := range ownStrategy() {
			if old[key] != nil {
				canary[key] = old[key]
			}
		}
	}
	if len(canary) == 0 { // An object without fields might be taken for nothing.
		canary["maxSurge"] = "25%"
	}
	spec["strategy"] = map[string]any{"canary": canary}
	for _, key := range ofOneRollout() {
		delete(spec, key)
	}
}

// object returns the Rollout.
func (rolloutKind) object(fields map[string]any) (Object, *corev1.PodTemplateSpec, error) {
	template, _, err := podTemplate(fields)
	if err != nil {
		return nil, nil, err
	}
	return &unstructured.Unstructured{Object: fields}, template, nil
}

// ofStrings converts a map of strings to the type of decoded JSON.
func ofStrings(in map[string]string) map[string]any {
	out := make(map[string]any, len(in))
	for key, value := range in {
		out[key] = value
	}
	return out
}
