package fork

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"

	"switchyard.dev/reconcilers/baseline"
)

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
