package policyreader_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/reconcilers/policies"
	"switchyard.dev/reconcilers/policyreader"
)

// istio is a cluster with one kind of Istio, or without.
type istio struct{ kind string }

func (i istio) Present(_ context.Context, k schema.GroupKind) (bool, error) {
	return k.Kind == i.kind, nil
}

// cached is a cache with one object in namespace shop.
type cached struct{ client.Reader }

func (cached) List(_ context.Context, list client.ObjectList, how ...client.ListOption) error {
	var options client.ListOptions
	options.ApplyOptions(how)
	if all, is := list.(*unstructured.UnstructuredList); is && options.Namespace == "shop" {
		all.Items = append(all.Items, unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "shop", "name": "here"}}})
	}
	return nil
}

// TestPoliciesOfTheMeshOutsideOfAllowedNamespaces leaves Istio's root namespace out of those that
// may be read: policies there apply to all pods, so it is not known which do.
func TestPoliciesOfTheMeshOutsideOfAllowedNamespaces(t *testing.T) {
	for name, tt := range map[string]struct {
		kind    string
		allowed []string
		unread  bool
	}{
		"all namespaces":        {"RequestAuthentication", nil, false},
		"the root among them":   {"RequestAuthentication", []string{"shop", "istio-system"}, false},
		"without it":            {"RequestAuthentication", []string{"shop"}, true},
		"a kind that observes":  {"Telemetry", []string{"shop"}, false},
		"a kind without a root": {"PeerAuthentication", []string{"shop"}, false},
		"no Istio":              {"", []string{"shop"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			reader := policyreader.Reader{Client: cached{}, Kinds: istio{tt.kind}, Namespaces: tt.allowed, Of: policies.OfWorkloads(policies.Kinds(nil))}
			found, err := reader.In(t.Context(), "shop")
			if (err != nil) != tt.unread || tt.unread && !strings.Contains(err.Error(), "namespace istio-system apply to pods of all namespaces, and allowedNamespaces lacks it") {
				t.Errorf("the error is %v", err)
			}
			if tt.kind != "" && (len(found) == 0 || found[0].String() != tt.kind+" shop/here") {
				t.Errorf("it read %v", found)
			}
		})
	}
}
