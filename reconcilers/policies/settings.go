package policies

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// keptSettings is the field of a cached specification, and the annotation of a cached NetworkPolicy,
// with the result of settingsOf for the whole one.
const keptSettings = "switchyard.dev/settings"

// settingsOf returns a digest of the effects of a specification on the pods that it selects.
func settingsOf(spec map[string]any) string {
	if kept := text(spec, keptSettings); kept != "" {
		return kept
	}
	rest := maps.Clone(spec)
	maps.DeleteFunc(rest, func(field string, _ any) bool { return slices.Contains(podFields, field) })
	return digest(rest)
}

// settingsOfNetwork is settingsOf for a NetworkPolicy.
func settingsOfNetwork(n *networkingv1.NetworkPolicy) string {
	if kept := n.Annotations[keptSettings]; kept != "" {
		return kept
	}
	rest := n.Spec
	rest.PodSelector = metav1.LabelSelector{}
	return digest(rest)
}

func digest(of any) string {
	text, err := json.Marshal(of)
	if err != nil {
		return "" // What the API server returned is JSON.
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// ofAllPods returns the selector of a specification without one, if that applies to all pods of its
// namespace.
func (k Kind) ofAllPods(spec map[string]any) (podSelector, bool) {
	if !strings.HasSuffix(k.Group, ".istio.io") {
		return podSelector{}, false
	}
	for _, field := range append([]string{"targetRef", "targetRefs"}, podFields...) {
		if _, has := spec[field]; has {
			return podSelector{}, false
		}
	}
	return podSelector{Selector: labels.Everything(), settings: settingsOf(spec)}, true
}

// replaced reports whether a policy of a kind that does the same as that with the selector applies to
// the fork.
func (s podSelector) replaced(kind Kind, all []Policy, w Workload) bool {
	return slices.ContainsFunc(all, func(other Policy) bool {
		return other.Kind.GroupKind() == kind.GroupKind() && slices.ContainsFunc(other.pods, func(of podSelector) bool {
			return of.settings == s.settings && other.reaches(w.Namespace, of) && of.Matches(labels.Set(w.Fork))
		})
	})
}
