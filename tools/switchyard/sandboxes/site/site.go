// Package site has the two places in which sandboxes, route groups and resource plugins can be: a cluster,
// which is reached with a kubeconfig, and a control plane, which is reached with an API key.
package site

import (
	"context"
	"encoding/json"
	"time"

	"switchyard.dev/workflows/plugins"
	"switchyard.dev/workflows/sandboxes"
	"switchyard.dev/workflows/spec"
)

// Site is a cluster or a control plane. Its errors about objects are those of workflows/sandboxes and
// workflows/plugins.
type Site interface {
	plugins.Source
	// Put stores a valid resource plugin. It reports whether the version is new; the error is
	// plugins.ErrChanged when it exists with other content.
	Put(ctx context.Context, p spec.Plugin) (isNew bool, err error)
	// Delete deletes the version of a resource plugin that is named, else the highest. The error is
	// plugins.ErrNone, or plugins.ErrInUse with the users.
	Delete(ctx context.Context, name spec.PluginName) (spec.PluginName, error)
	// ApplySandbox and ApplyGroup create an object, or replace its specification; text is that, as JSON.
	// Faults of the specification are specfile.Problems.
	ApplySandbox(ctx context.Context, asked spec.Sandbox, text json.RawMessage) (sandboxes.Applied, error)
	ApplyGroup(ctx context.Context, asked spec.Group, text json.RawMessage) (sandboxes.Applied, error)
	// Object reads an object, or returns sandboxes.ErrNotFound.
	Object(ctx context.Context, of sandboxes.Kind, name string) (sandboxes.Object, error)
	// Objects reads all objects.
	Objects(ctx context.Context, of sandboxes.Kind) ([]sandboxes.Report, error)
	// Remove begins to delete an object. force: without the delete steps of its resources.
	Remove(ctx context.Context, of sandboxes.Kind, name string, force bool) error
	// MatchesLater reports whether sandboxes that match a route group later are added to it.
	MatchesLater() bool
}

// Cluster is a Site.
type Cluster struct {
	plugins.Store
	// Now is the clock.
	Now func() time.Time
}

// ApplySandbox implements Site.
func (c Cluster) ApplySandbox(ctx context.Context, asked spec.Sandbox, text json.RawMessage) (sandboxes.Applied, error) {
	return sandboxes.ApplySandbox(ctx, c.Client, c.Store, asked, text, c.Now())
}

// ApplyGroup implements Site.
func (c Cluster) ApplyGroup(ctx context.Context, asked spec.Group, text json.RawMessage) (sandboxes.Applied, error) {
	return sandboxes.ApplyGroup(ctx, c.Client, asked, text, c.Now())
}

// Object implements Site.
func (c Cluster) Object(ctx context.Context, of sandboxes.Kind, name string) (sandboxes.Object, error) {
	return of.Get(ctx, c.Client, name)
}

// Objects implements Site.
func (c Cluster) Objects(ctx context.Context, of sandboxes.Kind) ([]sandboxes.Report, error) {
	return of.List(ctx, c.Client)
}

// Remove implements Site.
func (c Cluster) Remove(ctx context.Context, of sandboxes.Kind, name string, _ bool) error {
	return of.Delete(ctx, c.Client, name)
}

// MatchesLater implements Site.
func (c Cluster) MatchesLater() bool { return false }
