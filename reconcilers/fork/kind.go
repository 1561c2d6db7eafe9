package fork

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"

	"switchyard.dev/reconcilers/baseline"
)

// kind has the operations that differ between kinds of workloads.
type kind interface {
	// bare returns the live workload as patches see it.
	bare(live *baseline.Workload) (map[string]any, *Problem)
	// strategic applies a strategic merge patch.
	strategic(document, patch []byte) ([]byte, error)
	// read decodes a document, or returns an error if it is not a workload of this kind. An unknown field
	// of the pod template is an error unless before has it too; before is nil for the first document.
	read(document []byte, before *draft) (*draft, error)
	// check returns a message about a change that is not possible with this kind, compared with the
	// workload before all patches; "" if there is none.
	check(next, first *draft) string
	// finish applies changes that are specific to this kind, so that the clone does not depend on the
	// baseline. open is set if patches do not set the number of replicas.
	finish(fields map[string]any, open bool)
	// object returns the clone to be written, and its pod template.
	object(fields map[string]any) (Object, *corev1.PodTemplateSpec, error)
}

// kindOf returns the kind of a live workload.
func kindOf(live *baseline.Workload) (kind, *Problem) {
	switch live.Ref.Kind {
	case baseline.KindDeployment:
		return deploymentKind{}, nil
	case baseline.KindRollout:
		return rolloutKind{}, nil
	default:
		return nil, problem(baseline.ReasonUnsupportedKind, "%s cannot be forked: only Deployments and Argo Rollouts can", live)
	}
}

// draft is a workload on its way from baseline to fork.
type draft struct {
	// fields is the whole document as decoded JSON.
	fields map[string]any
	// The other fields are decoded from fields.
	apiVersion, kind string
	meta             metav1.ObjectMeta
	replicas         *int32
	selector         *metav1.LabelSelector
	template         corev1.PodTemplateSpec
	// sized is set if a patch has set the number of replicas.
	sized bool
	// written are the keys of the pod labels that patches have written.
	written map[string]bool
	// unknown are fields of the pod template that this program does not know.
	unknown map[string]bool
}

// fieldsOf reads a JSON object with whole numbers kept whole.
func fieldsOf(document []byte) (map[string]any, error) {
	var fields map[string]any
	if err := json.Unmarshal(document, &fields); err != nil {
		return nil, err
	}
	if fields == nil {
		return nil, fmt.Errorf("the result is not an object")
	}
	return fields, nil
}

// at returns the object at a path below fields. It creates the object if it is missing, and replaces
// values of other types.
func at(fields map[string]any, path ...string) map[string]any {
	for _, key := range path {
		next, ok := fields[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			fields[key] = next
		}
		fields = next
	}
	return fields
}

// objects returns those items of a list below fields that are objects.
func objects(fields map[string]any, key string) []map[string]any {
	list, _ := fields[key].([]any)
	out := make([]map[string]any, 0, len(list))
	for _, item := range list {
		if object, ok := item.(map[string]any); ok {
			out = append(out, object)
		}
	}
	return out
}
