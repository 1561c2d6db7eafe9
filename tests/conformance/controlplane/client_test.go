package controlplane

import (
	"context"
	"net/http"
	"testing"

	v2 "switchyard.dev/protos/controlplane/v2"
)

// TestTheGeneratedClient applies, reads, lists and deletes a sandbox with the client of the definition.
func TestTheGeneratedClient(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	c, err := v2.NewClientWithResponses(w.url+"/api/v2", v2.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Signadot-Api-Key", memberKey)
		return nil
	}))
	w.must(err)
	spec := v2.SandboxSpec{Cluster: "demo", Virtual: []v2.Virtual{{Name: new("v"), Workload: v2.LocalFrom{Kind: "Deployment", Namespace: "hotrod", Name: "route"}}}}
	applied, err := c.ApplySandboxWithResponse(ctx, org, "new-sb", v2.Sandbox{Name: "new-sb", Spec: spec})
	w.must(err)
	if applied.JSON200 == nil || len(applied.JSON200.RoutingKey) != 13 {
		t.Fatalf("%d %s", applied.StatusCode(), applied.Body)
	}
	got, err := c.GetSandboxWithResponse(ctx, org, "new-sb")
	w.must(err)
	if got.JSON200 == nil || got.JSON200.RoutingKey != applied.JSON200.RoutingKey || got.JSON200.Spec.Virtual[0].Workload.Name != "route" {
		t.Errorf("%d %s", got.StatusCode(), got.Body)
	}
	list, err := c.ListSandboxesWithResponse(ctx, org)
	w.must(err)
	if list.JSON200 == nil || len(*list.JSON200) != 3 {
		t.Errorf("%d %s", list.StatusCode(), list.Body)
	}
	deleted, err := c.DeleteSandboxWithResponse(ctx, org, "new-sb", &v2.DeleteSandboxParams{Force: new(true)})
	w.must(err)
	if deleted.JSON200 == nil {
		t.Errorf("%d %s", deleted.StatusCode(), deleted.Body)
	}
	refused, err := c.AddClusterWithResponse(ctx, org, "a name/with@letters")
	w.must(err)
	if refused.JSONDefault == nil || refused.JSONDefault.Code != http.StatusForbidden {
		t.Errorf("%d %s", refused.StatusCode(), refused.Body)
	}
}
