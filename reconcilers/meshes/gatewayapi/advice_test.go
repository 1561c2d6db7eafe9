package gatewayapi_test

import (
	"regexp"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"switchyard.dev/reconcilers/meshes/gatewayapi"
)

// advised is an object that a message advises to add: on one line, or as a document at its end.
var advised = regexp.MustCompile(`(?s)\{apiVersion: [^\n]*\}|\napiVersion: .*`)

// adviceApplies applies each object that a finding advises to the objects from which the finding came:
// it must overwrite none, the finding must disappear, and no other problem may take its place.
func adviceApplies(t *testing.T, in gatewayapi.Input, result gatewayapi.Result) {
	t.Helper()
	for _, f := range result.Findings {
		if f.Reason == gatewayapi.ReasonRoutedElsewhere {
			ruleAdded(t, in, f)
			continue
		}
		text := advised.FindString(f.Message)
		if text == "" {
			continue
		}
		var meta metav1.PartialObjectMetadata
		if err := yaml.Unmarshal([]byte(text), &meta); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		with := in
		switch meta.Kind {
		case "HTTPRoute":
			overwrites(t, in.Routes.HTTP, meta, f)
			with.Routes.HTTP = append(slices.Clone(in.Routes.HTTP), decoded(t, []byte(text), &gatewayv1.HTTPRoute{}))
		case "ReferenceGrant":
			overwrites(t, in.Grants, meta, f)
			with.Grants = append(slices.Clone(in.Grants), decoded(t, []byte(text), &gatewayv1.ReferenceGrant{}))
		default:
			t.Fatalf("an object of kind %q is advised: %s", meta.Kind, f.Message)
		}
		for _, left := range gatewayapi.Derive(with).Findings {
			was := slices.ContainsFunc(result.Findings, func(before gatewayapi.Finding) bool {
				return before.Managed == left.Managed && before.Reason == left.Reason && before.Message == left.Message
			})
			if left.Managed == f.Managed && (left.Message == f.Message || left.Problem && !was) {
				t.Errorf("with the advised object the finding is %s: %s", left.Reason, left.Message)
			}
		}
	}
}

// ruleAdded adds the rule that a finding advises to the route that it names.
func ruleAdded(t *testing.T, in gatewayapi.Input, f gatewayapi.Finding) {
	t.Helper()
	with := in
	with.Routes.HTTP = slices.Clone(in.Routes.HTTP)
	for i, r := range with.Routes.HTTP {
		for _, m := range in.Managed {
			if m.Name != f.Managed || r.Name != f.Baseline.Name || r.Namespace != f.Baseline.Namespace {
				continue
			}
			r = r.DeepCopy()
			port := m.Mappings[0].FromPort
			r.Spec.Rules = append(r.Spec.Rules, gatewayv1.HTTPRouteRule{
				Matches: []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{Type: new(gatewayv1.PathMatchExact), Value: new("/added")}}},
				BackendRefs: []gatewayv1.HTTPBackendRef{{BackendRef: gatewayv1.BackendRef{BackendObjectReference: gatewayv1.BackendObjectReference{
					Name: gatewayv1.ObjectName(m.TargetService), Namespace: new(gatewayv1.Namespace(m.Namespace)), Port: &port,
				}}}},
			})
			with.Routes.HTTP[i] = r
		}
	}
	for _, left := range gatewayapi.Derive(with).Findings {
		if left.Managed == f.Managed && (left.Reason == f.Reason || left.Reason == gatewayapi.ReasonNoRoute) {
			t.Errorf("with the advised rule the finding is %s: %s", left.Reason, left.Message)
		}
	}
}

// overwrites reports an object that has the name of the advised one.
func overwrites[O metav1.Object](t *testing.T, all []O, meta metav1.PartialObjectMetadata, f gatewayapi.Finding) {
	t.Helper()
	for _, o := range all {
		if o.GetNamespace() == meta.Namespace && o.GetName() == meta.Name {
			t.Errorf("it overwrites %s %s/%s: %s", meta.Kind, meta.Namespace, meta.Name, f.Message)
		}
	}
}
