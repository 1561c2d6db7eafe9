package gatewayapi_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"switchyard.dev/reconcilers/meshes/gatewayapi"
)

func TestPlanChangesOnlyObjectsOfTheOperator(t *testing.T) {
	in := goldenInputs(t)["nothing-from-derived"]
	desired := gatewayapi.Derive(in).Routes
	changes := gatewayapi.Plan(in.Routes, desired)
	want := [][]string{nil, {"cart-k7q2m9x4v1tz8-bed6fd70-00"}, {"cart-old-00"}}
	if diff := cmp.Diff(want, [][]string{namesOf(changes.Create), namesOf(changes.Update), namesOf(changes.Delete)}); diff != "" {
		t.Fatalf("created, updated, deleted: %s", diff)
	}
	updated := changes.Update.HTTP[0]
	if updated.Labels["of-others"] != "stays" {
		t.Errorf("a label of others is gone: %v", updated.Labels)
	}
	if diff := cmp.Diff(desired.HTTP[0].Spec, updated.Spec); diff != "" {
		t.Error(diff)
	}
	if again := gatewayapi.Plan(gatewayapi.Routes{HTTP: []*gatewayv1.HTTPRoute{updated}}, desired); !again.Empty() {
		t.Errorf("a second plan is not empty: %+v", again)
	}
}

func TestPlanLeavesWhatIsBeingDeletedAndWhatIsNotOurs(t *testing.T) {
	in := goldenInputs(t)["prefix"]
	derived := gatewayapi.Derive(in).Routes
	going := derived.HTTP[0].DeepCopy()
	going.DeletionTimestamp = &metav1.Time{}
	foreign := derived.HTTP[0].DeepCopy()
	foreign.Labels = nil
	for name, tt := range map[string]struct{ current, desired gatewayapi.Routes }{
		"going":             {gatewayapi.Routes{HTTP: []*gatewayv1.HTTPRoute{going}}, gatewayapi.Routes{}},
		"a name of theirs":  {gatewayapi.Routes{HTTP: []*gatewayv1.HTTPRoute{foreign}}, derived},
		"theirs, not asked": {gatewayapi.Routes{HTTP: []*gatewayv1.HTTPRoute{foreign}}, gatewayapi.Routes{}},
	} {
		if changes := gatewayapi.Plan(tt.current, tt.desired); !changes.Empty() {
			t.Errorf("%s: %+v", name, changes)
		}
	}
}

func TestOwnersThatAskNoMoreAreTakenOff(t *testing.T) {
	in := goldenInputs(t)["two-services-of-a-sandbox"]
	in.Routes.HTTP = append(in.Routes.HTTP, gatewayapi.Derive(in).Routes.HTTP...)
	in.Managed = in.Managed[1:]
	changes := gatewayapi.Plan(in.Routes, gatewayapi.Derive(in).Routes)
	if got := changes.Update.HTTP[0].OwnerReferences; len(got) != 1 || got[0].UID != "u2" {
		t.Errorf("owners are %v", got)
	}
}

func namesOf(r gatewayapi.Routes) []string {
	var out []string
	for _, o := range together(r) {
		out = append(out, o.GetName())
	}
	return out
}
