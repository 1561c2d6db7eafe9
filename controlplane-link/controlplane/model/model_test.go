package model_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
)

func TestTheEndOfALifetime(t *testing.T) {
	created, updated, unmatched := time.Unix(0, 0).UTC(), time.Unix(3600, 0).UTC(), time.Unix(7200, 0).UTC()
	for _, tt := range []struct {
		ttl            string
		sandbox, group time.Time
	}{
		{`{"duration":"2h","offsetFrom":"createdAt"}`, time.Unix(7200, 0), time.Unix(7200, 0)},
		{`{"duration":"2h","offsetFrom":"updatedAt"}`, time.Unix(10800, 0), time.Unix(10800, 0)},
		{`{"duration":"2h","offsetFrom":"noMatchedSandboxes"}`, time.Time{}, time.Unix(14400, 0)},
		{`{"duration":"","offsetFrom":"createdAt"}`, time.Time{}, time.Time{}},
		{`null`, time.Time{}, time.Time{}},
	} {
		text := json.RawMessage(fmt.Sprintf(`{"ttl":%s}`, tt.ttl))
		if got := (model.Sandbox{Spec: text, CreatedAt: created, UpdatedAt: updated}).Ends(); !got.Equal(tt.sandbox) {
			t.Errorf("sandbox with %s: %s, want %s", tt.ttl, got, tt.sandbox)
		}
		if got := (model.RouteGroup{Spec: text, CreatedAt: created, UpdatedAt: updated, UnmatchedAt: unmatched}).Ends(); !got.Equal(tt.group) {
			t.Errorf("route group with %s: %s, want %s", tt.ttl, got, tt.group)
		}
	}
	if got := (model.RouteGroup{Spec: json.RawMessage(`{"ttl":{"duration":"2h","offsetFrom":"noMatchedSandboxes"}}`)}).Ends(); !got.IsZero() {
		t.Errorf("a group with a sandbox ends at %s", got)
	}
}

// TestANewerObjectHasNoEnd: the store is from a backup, and the cluster has another specification.
func TestANewerObjectHasNoEnd(t *testing.T) {
	text := json.RawMessage(`{"ttl":{"duration":"2h","offsetFrom":"createdAt"}}`)
	for newer, part := range map[bool]model.Status{true: {Newer: 2}, false: {Newer: 2, Adopted: 2}} {
		s := model.Sandbox{Spec: text, CreatedAt: time.Unix(0, 0), Status: part}
		g := model.RouteGroup{Spec: text, CreatedAt: time.Unix(0, 0), Status: model.Status{}.With("a", model.Status{}).With("b", part)}
		if s.Ends().IsZero() != newer || g.Ends().IsZero() != newer {
			t.Errorf("newer %t: %s and %s", newer, s.Ends(), g.Ends())
		}
	}
}
