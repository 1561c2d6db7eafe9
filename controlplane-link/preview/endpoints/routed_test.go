package endpoints_test

import (
	"testing"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/preview/endpoints"
	"switchyard.dev/controlplane-link/registry"
)

func TestRequestsAreRoutedOnceTheLastChangeIsReady(t *testing.T) {
	ready := model.Status{Generation: 7, Ready: true, Message: "all is ready"}
	for want, e := range map[string]endpoints.Endpoint{
		"": {Generation: 7, Status: ready},
		"Sandbox web was changed, and cluster prod has not reported the change yet.": {Generation: 8, Status: ready},
		"Sandbox web is not ready: Pod p is pending.":                                {Generation: 7, Status: model.Status{Generation: 7, Message: "Pod p is pending."}},
		"Sandbox web is not ready.":                                                  {Generation: 7, Status: model.Status{Generation: 7}},
		// In the cluster of the endpoint alone.
		"Route group web has no sandbox in cluster prod.": {Group: true, Generation: 7, Status: model.Status{Ready: true, Generation: 7, Clusters: map[string]model.Status{"other": ready}}},
		"Route group web is not ready: No sandbox.":       {Group: true, Generation: 7, Status: model.Status{Clusters: map[string]model.Status{"other": ready, "prod": {Generation: 7, Message: "No sandbox."}}}},
	} {
		e.Cluster, e.Owner = registry.Cluster{Organisation: "acme", Name: "prod"}, "web"
		if got := e.Unrouted(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	group := endpoints.Endpoint{Cluster: registry.Cluster{Name: "prod"}, Group: true, Generation: 7, Status: model.Status{Clusters: map[string]model.Status{"other": {}, "prod": ready}}}
	if got := group.Unrouted(); got != "" {
		t.Errorf("a group that is ready in the cluster of its endpoint: %q", got)
	}
}
