package inject

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// AnnotationResources sets the resources of the injected containers of one workload, as
// "limits.memory=256Mi,requests.cpu=50m": cpu and memory, of limits and requests.
const AnnotationResources = "sidecar.signadot.com/resources"

// boundsValue is the chart's value of Bounds, for messages.
const boundsValue = "routeSidecar.resourceBounds"

// Bounds are what AnnotationResources can set: no quantity less than that of Min, none more than
// that of Max. A resource without a bound there has none.
type Bounds struct {
	Min corev1.ResourceList `json:"min,omitempty"`
	Max corev1.ResourceList `json:"max,omitempty"`
}

// DefaultBounds are those of the chart. With 64Mi the sidecar has the least heap that Envoy
// starts with.
func DefaultBounds() Bounds {
	return Bounds{
		Min: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
		Max: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("4Gi")},
	}
}

// validate returns an error when bounds contradict each other.
func (b Bounds) validate() error {
	for name, least := range b.Min {
		if most, has := b.Max[name]; has && least.Cmp(most) > 0 {
			return fmt.Errorf("%s: min.%s is %s, more than max.%s, %s", boundsValue, name, least.String(), name, most.String())
		}
	}
	return nil
}

// text returns bounds in words such as min.cpu=10m, sorted.
func (b Bounds) text() string {
	return wordsOf(map[string]corev1.ResourceList{"min": b.Min, "max": b.Max})
}

// injectedResources are the resources of the two injected containers.
type injectedResources struct{ sidecar, redirect corev1.ResourceRequirements }

// sized returns the resources of the injected containers of a pod with this value of
// AnnotationResources, or, for people, why there are none: the value is malformed, out of
// bounds, or a request exceeds its limit. A quantity that the annotation does not set is the
// chart's; a request of the chart is lowered to a limit that the annotation sets. The init
// container gets no more than the annotation sets for the sidecar.
func sized(chart injectedResources, annotation string, within Bounds) (injectedResources, string) {
	asked, bad := askedResources(annotation, within)
	if bad != "" || len(asked) == 0 {
		return chart, bad
	}
	out := injectedResources{overlaid(chart.sidecar, asked), lowered(chart.redirect, asked)}
	for _, name := range askable {
		request, limit := out.sidecar.Requests[name], out.sidecar.Limits[name]
		if _, limited := out.sidecar.Limits[name]; !limited || request.Cmp(limit) <= 0 {
			continue
		}
		if _, set := asked["requests"][name]; set {
			return chart, fmt.Sprintf("annotation %s: requests.%s is %s, more than limits.%s, %s: set both", AnnotationResources, name, request.String(), name, limit.String())
		}
		out.sidecar.Requests[name] = limit
	}
	return out, ""
}

// askable are the resources that AnnotationResources can set.
var askable = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// askedResources reads a value of AnnotationResources, or returns the fault in it, for people.
func askedResources(annotation string, within Bounds) (map[string]corev1.ResourceList, string) {
	asked, wrong := listsOf(annotation)
	if wrong != "" {
		return nil, fmt.Sprintf("annotation %s: %s: write it as limits.memory=256Mi,requests.cpu=50m", AnnotationResources, wrong)
	}
	for _, list := range slices.Sorted(maps.Keys(asked)) {
		if list != "limits" && list != "requests" {
			return nil, fmt.Sprintf("annotation %s: %s is neither limits nor requests", AnnotationResources, list)
		}
		for _, name := range slices.Sorted(maps.Keys(asked[list])) {
			if bad := outOf(within, list, name, asked[list][name]); bad != "" {
				return nil, fmt.Sprintf("annotation %s: %s", AnnotationResources, bad)
			}
		}
	}
	return asked, ""
}

// outOf returns how a quantity is out of bounds.
func outOf(within Bounds, list string, name corev1.ResourceName, q resource.Quantity) string {
	least, from := within.Min[name]
	most, to := within.Max[name]
	switch {
	case !slices.Contains(askable, name):
		return fmt.Sprintf("%s.%s: only cpu and memory can be set", list, name)
	case q.Sign() <= 0:
		return fmt.Sprintf("%s.%s is %s: it has to be more than 0", list, name, q.String())
	case from && q.Cmp(least) < 0:
		return fmt.Sprintf("%s.%s is %s, less than %s (%s.min.%s of the chart)", list, name, q.String(), least.String(), boundsValue, name)
	case to && q.Cmp(most) > 0:
		return fmt.Sprintf("%s.%s is %s, more than %s (%s.max.%s of the chart)", list, name, q.String(), most.String(), boundsValue, name)
	}
	return ""
}

// overlaid returns resources with those that are asked for.
func overlaid(r corev1.ResourceRequirements, asked map[string]corev1.ResourceList) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Limits: with(r.Limits, asked["limits"]), Requests: with(r.Requests, asked["requests"])}
}

func with(all, more corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	maps.Copy(out, all)
	maps.Copy(out, more)
	return out
}

// lowered returns resources without any quantity above those that are asked for.
func lowered(r corev1.ResourceRequirements, asked map[string]corev1.ResourceList) corev1.ResourceRequirements {
	out := corev1.ResourceRequirements{Limits: noMore(r.Limits, asked["limits"]), Requests: noMore(r.Requests, asked["requests"])}
	for name, request := range out.Requests {
		if limit, has := out.Limits[name]; has && request.Cmp(limit) > 0 {
			out.Requests[name] = limit
		}
	}
	return out
}

func noMore(all, most corev1.ResourceList) corev1.ResourceList {
	out := with(all, nil)
	for name, q := range most {
		if have, has := out[name]; !has || have.Cmp(q) > 0 {
			out[name] = q
		}
	}
	return out
}

// listsOf reads words such as limits.memory=256Mi, between commas or spaces, or returns the
// first word that cannot be read.
func listsOf(text string) (out map[string]corev1.ResourceList, wrong string) {
	out = map[string]corev1.ResourceList{}
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\t' }) {
		key, value, _ := strings.Cut(word, "=")
		list, name, named := strings.Cut(key, ".")
		q, err := resource.ParseQuantity(value)
		if err != nil || !named || name == "" {
			return nil, fmt.Sprintf("%q cannot be read", word)
		}
		if _, twice := out[list][corev1.ResourceName(name)]; twice {
			return nil, fmt.Sprintf("%s is set twice", key)
		}
		if out[list] == nil {
			out[list] = corev1.ResourceList{}
		}
		out[list][corev1.ResourceName(name)] = q
	}
	return out, ""
}

// wordsOf is the reverse of listsOf: sorted words with a space between them; empty without any.
func wordsOf(lists map[string]corev1.ResourceList) string {
	var words []string
	for of, list := range lists {
		for name, quantity := range list {
			words = append(words, fmt.Sprintf("%s.%s=%s", of, name, quantity.String()))
		}
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

// sizedFor returns the configuration for one pod, and, for people, the fault in its
// annotation.
func (c Config) sizedFor(pod *corev1.Pod) (Config, string) {
	c = c.WithDefaults()
	if pod.Spec.Resources != nil {
		return c, "" // The injected containers share the resources of the pod.
	}
	of, bad := sized(injectedResources{*c.Sidecar.Resources, *c.Redirect.Resources}, pod.Annotations[AnnotationResources], *c.Bounds)
	c.Sidecar.Resources, c.Redirect.Resources = &of.sidecar, &of.redirect
	return c, bad
}

// sizedFor returns what a pod with this value of AnnotationResources gets from its injection, and
// the fault in the value, for people.
func (s Settings) sizedFor(annotation string) (Settings, string) {
	if annotation == "" {
		return s, ""
	}
	sidecar, wrongSidecar := listsOf(s.SidecarResources)
	redirect, wrongRedirect := listsOf(s.RedirectResources)
	bounds, wrongBounds := listsOf(s.Bounds)
	if cmp.Or(wrongSidecar, wrongRedirect, wrongBounds) != "" {
		return s, ""
	}
	requirements := func(of map[string]corev1.ResourceList) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Limits: of["limits"], Requests: of["requests"]}
	}
	of, bad := sized(injectedResources{requirements(sidecar), requirements(redirect)}, annotation, Bounds{Min: bounds["min"], Max: bounds["max"]})
	s.SidecarResources, s.RedirectResources = resourcesText(of.sidecar), resourcesText(of.redirect)
	return s, bad
}
