package policies

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"switchyard.dev/eventbus/lists"
)

// podSelector selects pods by their labels.
type podSelector struct {
	labels.Selector
	// keys are those of the labels that it asks about, sorted.
	keys []string
	// within is the namespace that it names; empty for none.
	within string
	// settings is equal for selectors of policies that do the same to the pods that they select.
	settings string
}

// readSelector reads a LabelSelector in the forms that known kinds have.
func readSelector(of map[string]any) (podSelector, bool) {
	if plain, is := of["labels"].(map[string]any); is { // of an EnvoyFilter, of a Sidecar
		of = map[string]any{"matchLabels": plain}
	}
	s := &metav1.LabelSelector{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(only(of, "matchLabels", "matchExpressions"), s); err != nil {
		return podSelector{}, false
	}
	return newPodSelector(s)
}

// newPodSelector returns the selector, which it may change; false for one that cannot be read.
func newPodSelector(s *metav1.LabelSelector) (out podSelector, ok bool) {
	wanted := map[string]string{}
	for key, value := range s.MatchLabels {
		switch key, own := ciliumKey(key); {
		case key == ciliumNamespace:
			out.within = value
		case !own:
			wanted[key] = value
		}
	}
	s.MatchLabels = wanted
	var expressions []metav1.LabelSelectorRequirement
	for _, e := range s.MatchExpressions {
		key, own := ciliumKey(e.Key)
		if e.Key = key; !own {
			expressions = append(expressions, e)
			out.keys = append(out.keys, key)
		}
	}
	s.MatchExpressions = expressions
	out.keys = append(out.keys, slices.Collect(maps.Keys(wanted))...)
	out.keys = lists.Unique(out.keys)
	var err error
	out.Selector, err = metav1.LabelSelectorAsSelector(s)
	return out, err == nil
}

// ciliumNamespace is the key of a pod's namespace in Cilium's selectors.
const ciliumNamespace = "io.kubernetes.pod.namespace"

// ciliumKey returns the key of a label without Cilium's source prefix, and reports whether Cilium
// itself sets the label on pods. A fork has the same ones as its baseline.
func ciliumKey(key string) (of string, own bool) {
	for _, source := range []string{"k8s:", "k8s.", "any:", "any."} {
		if rest, has := strings.CutPrefix(key, source); has && (source[3] == ':' || strings.HasPrefix(rest, "io.")) {
			key = rest
			break
		}
	}
	return key, key == ciliumNamespace || strings.HasPrefix(key, "io.cilium.")
}
