package istio_test

import (
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/reconcilers/meshes/istio"
)

// advised are the objects that a message advises to add.
var advised = regexp.MustCompile(`\{apiVersion: .*\}`)

// adviceApplies applies the object that a finding advises to the objects from which the finding came:
// it must overwrite none and take no host from one, and the finding must disappear.
func adviceApplies(t *testing.T, given situation, objects []*unstructured.Unstructured, key string, f istio.Finding) {
	t.Helper()
	if f.Reason == istio.ReasonRoutedElsewhere {
		added(t, given, objects, key, f)
		return
	}
	text := advised.FindString(f.Message)
	if text == "" || strings.Contains(text, "nsA") || strings.Contains(text, "nsB") {
		return // Examples of Istio have namespaces that the API server rejects.
	}
	advice := parse(t, text)
	advice.SetCreationTimestamp(metav1.Now())
	hosts := func(o *unstructured.Unstructured) any { return o.Object["spec"].(map[string]any)["hosts"] }
	for _, o := range objects {
		if o.GetNamespace() == advice.GetNamespace() && o.GetName() == advice.GetName() {
			t.Errorf("it overwrites VirtualService %s/%s with hosts %v: %s", o.GetNamespace(), o.GetName(), hosts(o), f.Message)
		}
	}
	for _, left := range findings(given, append([]*unstructured.Unstructured{advice}, objects...), f.Service, key) {
		if left.Reason == f.Reason || left.Reason == istio.ReasonShadowed && left.VirtualService.Name == advice.GetName() {
			t.Errorf("with the advised object the finding is %s: %s", left.Reason, left.Message)
		}
	}
}

// added adds the route that a finding advises to the VirtualService that it names.
func added(t *testing.T, given situation, objects []*unstructured.Unstructured, key string, f istio.Finding) {
	t.Helper()
	var all []*unstructured.Unstructured
	for _, o := range objects {
		if o.GetNamespace() == f.VirtualService.Namespace && o.GetName() == f.VirtualService.Name {
			o = o.DeepCopy()
			route := parse(t, "{apiVersion: v1, kind: VirtualService, route: [{destination: {host: "+f.Service.Name+"."+f.Service.Namespace+".svc.cluster.local}}]}").Object["route"]
			spec := o.Object["spec"].(map[string]any)
			spec["http"] = append([]any{map[string]any{"route": route}}, httpOf(o)...)
		}
		all = append(all, o)
	}
	for _, left := range findings(given, all, f.Service, key) {
		if left.Reason == f.Reason || left.Reason == istio.ReasonNoVirtualService || left.Reason == istio.ReasonHostNotRouted {
			t.Errorf("with the advised route the finding is %s: %s", left.Reason, left.Message)
		}
	}
}

// findings returns the findings about a Service and a key.
func findings(given situation, objects []*unstructured.Unstructured, service types.NamespacedName, key string) []istio.Finding {
	m := istio.New(given.Settings, given.Services, objects)
	var renderings []istio.Rendering
	for _, o := range objects {
		renderings = append(renderings, m.Render(o))
	}
	return m.Report(service, key, renderings).Findings
}
