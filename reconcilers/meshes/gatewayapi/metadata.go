package gatewayapi

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// Labels and annotations of derived routes, besides crdv1.LabelSandbox and crdv1.AnnotationRoutingKey.
const (
	// LabelManagedBy has crdv1.FieldManager as its value.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// LabelRoutingKey is the routing key, encoded with crdv1.LabelValue. Different keys have
	// different values unless they are chosen to collide.
	LabelRoutingKey = "signadot.com/routing-key"
	// AnnotationDerivedFrom is the original route, as kind/namespace/name.
	AnnotationDerivedFrom = "signadot.com/derived-from"
)

// IsDerived reports whether a route was created by the operator, by its labels or, if these were
// changed, by its owners. All other routes are the users'.
func IsDerived(meta *metav1.ObjectMeta) bool {
	_, keyed := meta.Labels[LabelRoutingKey]
	return keyed && meta.Labels[LabelManagedBy] == crdv1.FieldManager || slices.ContainsFunc(meta.OwnerReferences, owns)
}

// owns reports whether an owner is a GatewayAPIRoute.
func owns(o metav1.OwnerReference) bool {
	return o.APIVersion == crdv1.APIVersion && o.Kind == crdv1.KindGatewayAPIRoute
}

// neverPreserved are annotations by which other programs identify the objects that they manage. With a
// copy, they would change or delete the derived route.
var neverPreserved = []string{
	"kubectl.kubernetes.io/last-applied-configuration",
	"argocd.argoproj.io/tracking-id",
	"config.kubernetes.io/owning-inventory",
}

// nameOf returns the name of a derived route. The names for the same route and key sort by index, which
// decides precedence between routes with the same age.
func nameOf(route, key string, index int) string {
	suffix := fmt.Sprintf("-%02d", index)
	return crdv1.ObjectName(crdv1.MaxObjectName-len(suffix), route, key) + suffix
}

// metadata returns the metadata of the routes derived from an original, without a name.
func (g *group) metadata(of *metav1.ObjectMeta, kind string, asking []*Managed) metav1.ObjectMeta {
	out := metav1.ObjectMeta{Namespace: of.Namespace, Labels: preserved(of.Labels, g.in.PreservedLabels), Annotations: preserved(of.Annotations, g.in.PreservedAnnotations)}
	for _, s := range g.in.Releases { // Labels by which a release controller selects routes are not copied.
		if s.Selects(kind, of.Namespace, of.Labels) {
			maps.DeleteFunc(out.Labels, func(key, _ string) bool { return slices.Contains(s.Keys(), key) })
		}
	}
	out.Labels[LabelManagedBy] = crdv1.FieldManager
	out.Labels[LabelRoutingKey] = crdv1.LabelValue(g.key)
	out.Labels[crdv1.LabelSandbox] = crdv1.LabelValue(asking[0].Sandbox)
	out.Annotations[crdv1.AnnotationRoutingKey] = g.key
	out.Annotations[AnnotationDerivedFrom] = kind + "/" + of.Namespace + "/" + of.Name
	for _, m := range asking {
		if m.UID != "" {
			out.OwnerReferences = append(out.OwnerReferences, metav1.OwnerReference{
				APIVersion: crdv1.APIVersion, Kind: crdv1.KindGatewayAPIRoute, Name: m.Name, UID: m.UID,
			})
		}
	}
	return out
}

// preserved returns the entries with a key that matches a glob, except neverPreserved.
func preserved(all map[string]string, globs []string) map[string]string {
	out := map[string]string{}
	for key, value := range all {
		if !slices.Contains(neverPreserved, key) && slices.ContainsFunc(globs, func(glob string) bool { return matchesGlob(glob, key) }) {
			out[key] = value
		}
	}
	return out
}

// matchesGlob reports whether a glob matches a text. * matches any characters including slashes, ?
// matches one character.
func matchesGlob(glob, text string) bool {
	expression := strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(regexp.QuoteMeta(glob))
	matches, err := regexp.MatchString(`^(?s:`+expression+`)$`, text)
	return err == nil && matches
}
