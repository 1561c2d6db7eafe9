package controlplane

import (
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
)

// TestASandboxOfAnotherManager: once the cluster has reported it, a write is refused and names the manager, and a
// deletion is not.
func TestASandboxOfAnotherManager(t *testing.T) {
	w := newWorld(t)
	const path = orgPath + "/sandboxes/demo-sb"
	row, err := w.store.Sandbox(w.ctx(), org, "demo-sb")
	w.must(err)
	status := model.Status{Generation: row.Generation, Reason: model.ReasonForeign, Message: `Cluster demo has an object that is managed by "argocd".`}
	_, err = w.store.Observe(w.ctx(), store.Sandbox, org, row.Name, row.Cluster, status)
	w.must(err)
	a := w.send("PUT", path, `{"spec":`+virtual("")+`}`)
	if text := a.errorText(t); a.status != http.StatusConflict || !strings.Contains(text, "argocd") {
		t.Errorf("PUT: %d, %s", a.status, a.body)
	}
	if a = w.send("DELETE", path, ""); a.status != http.StatusOK {
		t.Errorf("DELETE: %d, %s", a.status, a.body)
	}
}
