package chart

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestAnotherFieldManagerMeetsNoConflict installs each case as Helm and kubectl do, and has a second
// program apply the same with a field manager of its own. Fields that the API server fills in in
// atomic lists would be conflicts, so the chart writes them out.
func TestAnotherFieldManagerMeetsNoConflict(t *testing.T) {
	s := startAPIServer(t, "shop", "pay")
	s.config.QPS = -1
	var err error
	if s.Client, err = client.New(s.config, client.Options{}); err != nil {
		t.Fatal(err)
	}
	defer s.withNamespaces(t)()
	known := map[string]bool{}
	for name, values := range cases(t) {
		t.Run(name, func(t *testing.T) {
			for _, o := range mustRender(t, values).withoutHooks() {
				text, err := o.MarshalJSON()
				if err != nil {
					t.Fatal(err)
				}
				definition := o.GetKind() == "CustomResourceDefinition" && name != "default" // The same in each case but for labels.
				if o.GetKind() == "Namespace" || definition || known[string(text)] {
					continue
				}
				known[string(text)] = true
				s.meetsNoConflict(t, o)
			}
		})
	}
}

// meetsNoConflict creates an object, applies it as another field manager, and deletes it.
func (s apiServer) meetsNoConflict(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	made := o.DeepCopy()
	if err := s.Create(t.Context(), made, client.FieldOwner("helm")); err != nil {
		t.Errorf("%s: %v", title(o), err)
		return
	}
	again := client.ApplyConfigurationFromUnstructured(o.DeepCopy())
	if err := s.Apply(t.Context(), again, client.FieldOwner("gitops")); err != nil {
		t.Errorf("%s: %v", title(o), err)
	}
	if o.GetKind() == "CustomResourceDefinition" {
		return
	}
	if err := s.Delete(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	s.expect(t, objects{o}, false)
}
