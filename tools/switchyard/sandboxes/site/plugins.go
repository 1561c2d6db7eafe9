package site

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/tools/switchyard/command/plane"
	"switchyard.dev/workflows/plugins"
	"switchyard.dev/workflows/spec"
)

// version is a version of a plugin of the API.
type version struct {
	spec.Plugin
	CreatedAt metav1.Time
	Status    struct{ Resources []plugins.User }
	// parsed is its name with the version.
	parsed spec.PluginName
}

// versions returns all versions of all plugins, by name and the highest first.
func (p *Plane) versions(ctx context.Context) ([]version, error) {
	each := "all"
	all, err := plane.Answer[[]version](p.API.ListResourcePlugins(ctx, p.Org, &v2.ListResourcePluginsParams{Version: &each}))
	for i, v := range all {
		name, err := spec.ParsePluginName(v.Name)
		if err != nil {
			return nil, fmt.Errorf("read a resource plugin of the control plane: its name %w", err)
		}
		all[i].parsed = name.Defaulted()
	}
	return all, err
}

// pinned returns the plugins for the compiler, and those that the resources of a sandbox have.
func pinned(all []version, sandbox string) (out []spec.Plugin, has map[string]string) {
	has = map[string]string{}
	for _, v := range all {
		out = append(out, v.Plugin)
		for _, u := range v.Status.Resources {
			if u.Sandbox == sandbox {
				has[u.Resource] = v.parsed.Bare + "@" + v.parsed.Version
			}
		}
	}
	return out, has
}

// List implements Site.
func (p *Plane) List(ctx context.Context) (out []plugins.Kept, err error) {
	all, err := p.versions(ctx)
	for _, v := range all {
		out = append(out, plugins.Kept{Name: v.parsed, Plugin: v.Plugin, Created: v.CreatedAt})
	}
	return out, err
}

// Users implements Site.
func (p *Plane) Users(ctx context.Context) (map[spec.PluginName][]plugins.User, error) {
	all, err := p.versions(ctx)
	out := map[spec.PluginName][]plugins.User{}
	for _, v := range all {
		out[v.parsed] = v.Status.Resources
	}
	return out, err
}

// Put implements Site.
func (p *Plane) Put(ctx context.Context, asked spec.Plugin) (isNew bool, err error) {
	name, err := spec.ParsePluginName(asked.Name)
	if err != nil {
		return false, fmt.Errorf("name %w", err)
	}
	text, err := json.Marshal(asked)
	if err != nil {
		return false, fmt.Errorf("write resource plugin %s: %w", name, err)
	}
	_, err = plane.Answer[v2.EmptyResponse](p.API.ApplyResourcePluginWithBody(ctx, p.Org, name.Bare, "application/json", bytes.NewReader(text)))
	if plane.StatusOf(err) != http.StatusConflict {
		return err == nil, problemsOf(err)
	}
	there, err := plugins.Get(ctx, p, name.Defaulted())
	if err != nil {
		return false, err
	}
	there.Plugin.Name = asked.Name
	if was, err := json.Marshal(there.Plugin); err != nil || !bytes.Equal(was, text) {
		return false, plugins.ErrChanged
	}
	return false, nil
}

// Delete implements Site.
func (p *Plane) Delete(ctx context.Context, name spec.PluginName) (spec.PluginName, error) {
	kept, err := plugins.Unused(ctx, p, name)
	if err != nil {
		return kept.Name, err
	}
	_, err = plane.Answer[v2.EmptyResponse](p.API.DeleteResourcePlugin(ctx, p.Org, kept.Name.Bare, &v2.DeleteResourcePluginParams{Version: &kept.Name.Version}))
	if plane.StatusOf(err) == http.StatusBadRequest { // A sandbox began to use it.
		err = fmt.Errorf("%w: %w", plugins.ErrInUse, err)
	}
	return kept.Name, err
}
