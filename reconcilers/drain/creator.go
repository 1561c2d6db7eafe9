package drain

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/wake"
)

const (
	annotationHook = "helm.sh/hook"
	hookPreDelete  = "pre-delete"
)

// readJob is how often the Job is read at most, before its drain fails.
const readJob = 20

// appliers are the annotations and labels with which a program marks objects that it applies.
// Helm sets none of them.
var appliers = map[string]string{
	"kubectl.kubernetes.io/last-applied-configuration": "kubectl apply",
	"argocd.argoproj.io/tracking-id":                   "Argo CD",
	"kustomize.toolkit.fluxcd.io/name":                 "Flux (kustomize-controller)",
	"config.k8s.io/owning-inventory":                   "an inventory of applied objects",
}

// NotByHelm returns why an object is not a hook that helm uninstall created; empty if it is one.
// helm template prints hooks among the other objects, so that they are also applied, with their
// annotations, by programs that do not know what a hook is.
func NotByHelm(o metav1.Object) string {
	if hook := o.GetAnnotations()[annotationHook]; hook != hookPreDelete {
		return fmt.Sprintf("its annotation %s is %q, not %s", annotationHook, hook, hookPreDelete)
	}
	for _, marks := range []map[string]string{o.GetAnnotations(), o.GetLabels()} {
		for mark := range marks {
			if by, is := appliers[mark]; is {
				return fmt.Sprintf("%s applied it (%s)", by, mark)
			}
		}
	}
	managers := hookManagers(o.GetManagedFields())
	for _, name := range managers {
		if !helmClient(name) {
			return fmt.Sprintf("field manager %s set its annotation %s", name, annotationHook)
		}
	}
	if len(managers) == 0 {
		return "no field manager of its annotation " + annotationHook + " is known"
	}
	return ""
}

// hookManagers returns the field managers of annotation helm.sh/hook.
func hookManagers(entries []metav1.ManagedFieldsEntry) (names []string) {
	for _, e := range entries {
		var fields struct {
			Metadata struct {
				Annotations map[string]any `json:"f:annotations"`
			} `json:"f:metadata"`
		}
		if e.FieldsV1 == nil || json.Unmarshal(e.FieldsV1.Raw, &fields) != nil {
			continue
		}
		if _, is := fields.Metadata.Annotations["f:"+annotationHook]; is {
			names = append(names, e.Manager)
		}
	}
	return names
}

// helmClient reports whether a field manager is a Helm client. Helm takes the name of its program:
// helm, helm-controller (Flux), terraform-provider-helm_v3.1.
func helmClient(manager string) bool {
	return strings.Contains(strings.ToLower(manager), "helm")
}

// notByHelm reads a Job and returns NotByHelm of it. The Job's right to read itself is as old as
// the Job, so that errors are retried for a while.
func notByHelm(ctx context.Context, c client.Client, namespace, name string) (why string, err error) {
	for range readJob {
		job := &metav1.PartialObjectMetadata{}
		job.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("Job"))
		if err = c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, job); err == nil {
			return NotByHelm(job), nil
		}
		if !wake.Sleep(ctx, pause) {
			return "", ctx.Err()
		}
	}
	return "", fmt.Errorf("drain: nothing is drained, since Job %s/%s, which runs this program, cannot be read: %w", namespace, name, err)
}
