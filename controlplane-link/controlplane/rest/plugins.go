package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/controlplane-link/controlplane/desired"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/rest/encode"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/workflows/compile"
	"switchyard.dev/workflows/plugins"
	"switchyard.dev/workflows/spec"
	"switchyard.dev/workflows/specfile"
)

// Values of version: the highest one, and each.
const (
	latest      = "latest"
	allVersions = "all"
)

// sortedPlugins returns the versions of plugins by name, the highest version first. bare selects one
// plugin; empty: all.
func (h *Handler) sortedPlugins(r *request, bare string) ([]model.Plugin, error) {
	kept, err := h.Store.Plugins(r.Context(), r.org())
	if err != nil {
		return nil, err
	}
	by := map[spec.PluginName]model.Plugin{}
	var order []spec.PluginName
	for _, p := range kept {
		if bare == "" || p.Name.Bare == bare {
			by[p.Name] = p
			order = append(order, p.Name)
		}
	}
	spec.NewestFirst(order)
	out := make([]model.Plugin, 0, len(order))
	for _, name := range order {
		out = append(out, by[name])
	}
	return out, nil
}

func (h *Handler) listResourcePlugins(r *request) (any, error) {
	version := r.URL.Query().Get("version")
	if version != "" && version != latest && version != allVersions {
		return nil, fail(http.StatusBadRequest, "version is %q; use %s or %s", version, latest, allVersions)
	}
	kept, err := h.sortedPlugins(r, "")
	if err != nil {
		return nil, err
	}
	if version != allVersions {
		kept = slices.CompactFunc(kept, func(a, b model.Plugin) bool { return a.Name.Bare == b.Name.Bare })
	}
	return encode.Each(kept, encode.Plugin)
}

func (h *Handler) listResourcePluginVersions(r *request) (any, error) {
	return each(encode.Plugin)(h.sortedPlugins(r, r.vars["pluginName"]))
}

// version returns the version of a plugin that a request names, by default the highest one; a failure
// with the text if there is none.
func (h *Handler) version(r *request, missing string) (model.Plugin, error) {
	kept, err := h.sortedPlugins(r, r.vars["pluginName"])
	if err != nil {
		return model.Plugin{}, err
	}
	version := r.URL.Query().Get("version")
	if version == "" || version == latest {
		if len(kept) == 0 {
			return model.Plugin{}, fail(http.StatusNotFound, "%s", missing)
		}
		return kept[0], nil
	}
	name, err := spec.ParsePluginName(r.vars["pluginName"] + "@" + version)
	if err != nil {
		return model.Plugin{}, fail(http.StatusBadRequest, "version %v", err)
	}
	i := slices.IndexFunc(kept, func(p model.Plugin) bool { return p.Name == name })
	if i < 0 {
		return model.Plugin{}, fail(http.StatusNotFound, "%s", missing)
	}
	return kept[i], nil
}

func (h *Handler) getResourcePlugin(r *request) (any, error) {
	p, err := h.version(r, "unable to fetch resource plugin: not found")
	if err != nil {
		return nil, err
	}
	return encode.Plugin(p)
}

func (h *Handler) applyResourcePlugin(r *request) (any, error) {
	var in spec.Plugin
	body, err := r.decode(&in)
	if err != nil {
		return nil, err
	}
	name, err := spec.ParsePluginName(in.Name)
	if err == nil && name.Bare != r.vars["pluginName"] {
		err = fmt.Errorf("is %q, and the path names %q", in.Name, r.vars["pluginName"])
	}
	if err != nil {
		return nil, specfile.Problems{{Path: "name", Text: err.Error()}}
	}
	if problems := compile.Plugin(in); len(problems) > 0 {
		return nil, problems
	}
	text, err := json.Marshal(body["spec"])
	if err != nil {
		return nil, err
	}
	p := model.Plugin{Org: r.org(), Name: name.Defaulted(), Spec: text, CreatedAt: r.now, UpdatedAt: r.now}
	err = h.Store.CreatePlugin(r.Context(), p, r.event("resourceplugin.apply", specified(name.String(), p.Spec)))
	return nil, as(err, model.ErrExists, http.StatusConflict, "resource plugin version already exists")
}

func (h *Handler) deleteResourcePlugin(r *request) (any, error) {
	const missing = "unable to delete resource plugin: not found"
	p, err := h.version(r, missing)
	if err != nil {
		return nil, err
	}
	err = h.Store.DeletePlugin(r.Context(), r.org(), p.Name, r.event("resourceplugin.delete", tree{"name": p.Name.String()}))
	if errors.Is(err, model.ErrInUse) { // it names the sandboxes
		return nil, fail(http.StatusBadRequest, "%v; delete them first", err)
	}
	return nil, as(err, model.ErrNotFound, http.StatusNotFound, missing)
}

// pluginsOf are the resource plugins of an organisation, as sandboxes.Plugins.
type pluginsOf struct {
	from *store.Store
	org  string
}

// List implements sandboxes.Plugins.
func (p pluginsOf) List(ctx context.Context) ([]plugins.Kept, error) {
	rows, err := p.from.Plugins(ctx, p.org)
	if err != nil {
		return nil, err
	}
	all, err := desired.Plugins(rows)
	var out []plugins.Kept
	for i, one := range all {
		out = append(out, plugins.Kept{Name: rows[i].Name, Plugin: one, Created: metav1.NewTime(rows[i].CreatedAt)})
	}
	return out, err
}
