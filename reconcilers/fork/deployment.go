package fork

import (
	"encoding/json"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"

	"switchyard.dev/reconcilers/baseline"
)

// deploymentVersion is the apiVersion of Deployments.
const deploymentVersion = "apps/v1"

// deploymentKind implements kind for Deployments.
type deploymentKind struct{}

// bare returns the baseline as patches see it: the fields that users write, with one replica, which is
// enough for tests unless a patch sets another number, and not paused, because a new paused Deployment has
// no pods.
func (deploymentKind) bare(live *baseline.Workload) (map[string]any, *Problem) {
	have, ok := live.Object.(*appsv1.Deployment)
	if !ok {
		return nil, problem(ReasonPatchFailed, "%s was read as %T, which cannot be forked", live, live.Object)
	}
	d := &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: deploymentVersion, Kind: baseline.KindDeployment},
		ObjectMeta: metav1.ObjectMeta{
			Name:        have.Name,
			Namespace:   have.Namespace,
			Labels:      have.Labels,
			Annotations: maps.Clone(have.Annotations),
		},
		Spec: *have.Spec.DeepCopy(),
	}
	maps.DeleteFunc(d.Annotations, isForeign)
	delete(d.Spec.Template.Annotations, annotationRestarted)
	one := int32(1)
	d.Spec.Replicas, d.Spec.Paused = &one, false
	document, err := json.Marshal(d)
	if err != nil {
		return nil, problem(ReasonPatchFailed, "%s cannot be written as JSON: %v", live, err)
	}
	fields, err := fieldsOf(document)
	if err != nil {
		return nil, problem(ReasonPatchFailed, "%s cannot be read as JSON: %v", live, err)
	}
	return fields, nil
}

// strategic applies a strategic merge patch with the schema of Deployments.
func (deploymentKind) strategic(document, patch []byte) ([]byte, error) {
	return strategicpatch.StrategicMergePatch(document, patch, appsv1.Deployment{})
}

// read decodes a Deployment. An unknown field is an error: it is a typo that the API server would drop
// silently, and the fork would behave like the baseline.
func (deploymentKind) read(document []byte, _ *draft) (*draft, error) {
	d := &appsv1.Deployment{}
	strict, err := kjson.UnmarshalStrict(document, d)
	if err != nil {
		return nil, err
	}
	if len(strict) > 0 {
		return nil, strict[0]
	}
	fields, err := fieldsOf(document)
	if err != nil {
		return nil, err
	}
	return &draft{
		fields: fields, apiVersion: d.APIVersion, kind: d.Kind, meta: d.ObjectMeta,
		replicas: d.Spec.Replicas, selector: d.Spec.Selector, template: d.Spec.Template,
	}, nil
}

// check always returns "": no field of a Deployment affects other workloads.
func (deploymentKind) check(_, _ *draft) string { return "" }

// finish removes the number of replicas if open is set. The API server defaults it to 1, and any client
// can scale the fork.
func (deploymentKind) finish(fields map[string]any, open bool) {
	if open {
		delete(at(fields, "spec"), "replicas")
	}
}

// object returns the Deployment.
func (deploymentKind) object(fields map[string]any) (Object, *corev1.PodTemplateSpec, error) {
	document, err := json.Marshal(fields)
	if err != nil {
		return nil, nil, err
	}
	d := &appsv1.Deployment{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(document, d); err != nil {
		return nil, nil, err
	}
	return d, &d.Spec.Template, nil
}

// WithNotesOf returns clone with the annotations that it copies from its baseline set to their values on
// the existing fork, have. Annotations of the fork itself, or from patches, are as in clone. No argument
// is changed. own are annotations of have that its writer has added.
//
// Annotations of a baseline affect no pod, yet the API server increments the generation of a Deployment
// when one changes, and a fork is not ready until its latest generation is observed. So a fork keeps its
// annotations if nothing else changes.
func WithNotesOf(clone, have *appsv1.Deployment, live *baseline.Workload, own ...string) *appsv1.Deployment {
	out := *clone
	out.Annotations = maps.Clone(have.Annotations)
	maps.DeleteFunc(out.Annotations, isForeign)
	for _, key := range own {
		delete(out.Annotations, key)
	}
	noted := live.Object.GetAnnotations()
	for key, value := range clone.Annotations {
		if was, ok := noted[key]; !ok || was != value {
			if out.Annotations == nil {
				out.Annotations = map[string]string{}
			}
			out.Annotations[key] = value
		}
	}
	return &out
}
