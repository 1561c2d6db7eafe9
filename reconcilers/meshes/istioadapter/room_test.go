package istioadapter

import (
	"encoding/json"
	"fmt"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/reconcilers/meshes/istio/names"
)

// TestAWriteTakesNoKeyItsRoom has the owner write a full VirtualService without our routes: the same
// keys get their routes back, though others come before them.
func TestAWriteTakesNoKeyItsRoom(t *testing.T) {
	var late, all []string
	for i := range 12000 {
		key := fmt.Sprintf("k7q2m9x4v%05d", i)
		if all = append(all, key); i >= 4000 {
			late = append(late, key)
		}
	}
	bare := virtualService("a", "customer", "1")
	first := (*state)(nil).next(shop(map[string][]string{"customer": late}, bare))
	full := first.objects[types.NamespacedName{Namespace: "shop", Name: "a"}].rendering.Object
	if first.reports[Target{Key: late[0], Namespace: "shop", Service: "customer"}].Lost != nil || first.reports[Target{Key: late[len(late)-1], Namespace: "shop", Service: "customer"}].Lost == nil {
		t.Fatal("not the first keys have room, or all have it")
	}
	for name, user := range map[string]string{"the owner": "somebody", "the leader": "manager"} {
		t.Run(name, func(t *testing.T) {
			a := &Adapter{config: Config{Own: "manager"}, reviews: semaphore.NewWeighted(mostReviews), state: (*state)(nil).next(shop(map[string][]string{"customer": all}, full))}
			sent := bare.DeepCopy()
			if user == a.config.Own {
				annotate(sent, AnnotationRoutes, full.GetAnnotations()[AnnotationRoutes])
			}
			text, err := json.Marshal(sent)
			if err != nil {
				t.Fatal(err)
			}
			old, err := json.Marshal(full)
			if err != nil {
				t.Fatal(err)
			}
			req := &admissionv1.AdmissionRequest{
				Kind:   metav1.GroupVersionKind{Group: VirtualServices.Group, Version: VirtualServices.Version, Kind: VirtualServices.Kind},
				Object: runtime.RawExtension{Raw: text}, OldObject: runtime.RawExtension{Raw: old},
			}
			req.UserInfo.Username = user
			patch, err := jsonpatch.DecodePatch(a.Review(t.Context(), req).Patch)
			if err != nil {
				t.Fatal(err)
			}
			if text, err = patch.Apply(text); err != nil {
				t.Fatal(err)
			}
			got := &unstructured.Unstructured{}
			if err := got.UnmarshalJSON(text); err != nil {
				t.Fatal(err)
			}
			if differ := names.DifferingRoutes(got, full); len(differ) > 0 {
				t.Errorf("%d routes are not what they were", len(differ))
			}
		})
	}
}
