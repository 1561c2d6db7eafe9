package store_test

import (
	"encoding/json"
	"testing"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
)

// TestEndedLifetimes: a sandbox becomes a tombstone at the end of its lifetime and not before, once, with a
// generation of its own; a lifetime that was extended does not end.
func TestEndedLifetimes(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		s, ctx := filled(t, c), t.Context()
		for name, ttl := range map[string]string{
			"created": `{"duration":"1m","offsetFrom":"createdAt"}`, "updated": `{"duration":"1m","offsetFrom":"updatedAt"}`, "long": `{"duration":"1h","offsetFrom":"createdAt"}`,
		} {
			o := sandbox(name)
			o.CreatedAt, o.UpdatedAt, o.Spec = at(0), at(0), json.RawMessage(`{"ttl":`+ttl+`}`)
			value[model.Sandbox](t)(s.PutSandbox(ctx, o, event("sandbox.apply")))
			o.UpdatedAt = at(30)
			value[model.Sandbox](t)(s.PutSandbox(ctx, o, event("sandbox.apply")))
		}
		o := sandbox("endless")
		o.Spec = json.RawMessage(`{}`)
		value[model.Sandbox](t)(s.PutSandbox(ctx, o, event("sandbox.apply")))
		expiry := func(_ store.Kind, name string) model.Event {
			ev := event("sandbox.expire")
			ev.Data = json.RawMessage(`{"name":"` + name + `"}`)
			return ev
		}
		before := value[model.Sandbox](t)(s.Sandbox(ctx, org, "created"))
		for _, row := range []struct {
			at   int
			want string
		}{{59, ""}, {60, "created "}, {61, "created "}, {90, "created updated "}} {
			must(t, s.EndLifetimes(ctx, org, at(row.at), expiry))
			got := ""
			for _, o := range value[[]model.Sandbox](t)(s.Sandboxes(ctx, org)) {
				if !o.DeletedAt.IsZero() {
					got += o.Name + " "
				}
			}
			same(t, got, row.want)
		}
		if o := value[model.Sandbox](t)(s.Sandbox(ctx, org, "created")); o.Generation <= before.Generation || !o.DeletedAt.Equal(at(60)) {
			t.Errorf("the tombstone is %+v", o)
		}
		entries := value[[]model.Event](t)(s.Events(ctx, org, model.EventQuery{Types: []string{"sandbox.expire"}, Limit: 9}))
		if len(entries) != 2 || string(entries[1].Data) != `{"name":"created"}` {
			t.Errorf("the entries are %+v", entries)
		}
		long := value[model.Sandbox](t)(s.Sandbox(ctx, org, "long"))
		must(t, s.EndLifetimes(ctx, org, at(3600), func(store.Kind, string) model.Event { // it is extended after it was read
			long.Spec = json.RawMessage(`{"ttl":{"duration":"2h","offsetFrom":"createdAt"}}`)
			value[model.Sandbox](t)(s.PutSandbox(ctx, long, event("sandbox.apply")))
			return event("sandbox.expire")
		}))
		if o := value[model.Sandbox](t)(s.Sandbox(ctx, org, "long")); !o.DeletedAt.IsZero() {
			t.Error("a lifetime that was extended has ended")
		}
		if done := value[bool](t)(s.Finish(ctx, store.Sandbox, org, "created", "demo", value[model.Sandbox](t)(s.Sandbox(ctx, org, "created")).Generation, event("sandbox.finish"))); !done {
			t.Error("the row of the tombstone does not end")
		}
	})
}

// TestAWriteBeforeTheExpiry: a lifetime that has ended in a cluster ends the generation that it was of, no later one.
func TestAWriteBeforeTheExpiry(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		s, ctx := filled(t, c), t.Context()
		ended := value[model.Sandbox](t)(s.PutSandbox(ctx, sandbox("a"), event("sandbox.apply")))
		written := value[model.Sandbox](t)(s.PutSandbox(ctx, sandbox("a"), event("sandbox.apply")))
		must(t, s.Expire(ctx, store.Sandbox, org, "a", ended.Generation, at(60), event("sandbox.expire")))
		same(t, value[model.Sandbox](t)(s.Sandbox(ctx, org, "a")), written)
		must(t, s.Expire(ctx, store.Sandbox, org, "a", written.Generation, at(61), event("sandbox.expire")))
		if o := value[model.Sandbox](t)(s.Sandbox(ctx, org, "a")); o.Generation <= written.Generation || !o.DeletedAt.Equal(at(61)) {
			t.Errorf("the tombstone is %+v", o)
		}
		same(t, len(value[[]model.Event](t)(s.Events(ctx, org, model.EventQuery{Types: []string{"sandbox.expire"}, Limit: 9}))), 1)
		number := spread(t, s, "g", "demo")
		must(t, s.Expire(ctx, store.RouteGroup, org, "g", number, at(62), event("routegroup.expire")))
		if g := value[model.RouteGroup](t)(s.RouteGroup(ctx, org, "g")); !g.DeletedAt.Equal(at(62)) {
			t.Errorf("the tombstone is %+v", g)
		}
	})
}
