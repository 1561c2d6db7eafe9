package inject

import corev1 "k8s.io/api/core/v1"

// isEdge reports whether a pod is an edge. A value that is neither "true" nor "false" counts:
// the intention was to remove keys.
func isEdge(pod *corev1.Pod) bool {
	value, said := pod.Annotations[AnnotationEdge]
	return said && value != "false"
}

// EdgeOf reports whether the sidecars of pods of this template take routing keys out of
// requests.
func EdgeOf(template *corev1.PodTemplateSpec) bool {
	return isEdge(&corev1.Pod{ObjectMeta: template.ObjectMeta})
}
