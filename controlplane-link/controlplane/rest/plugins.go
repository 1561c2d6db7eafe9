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
	"switchyard.dev/controlplane-link/controlplane/rest/failure"
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

// versions returns the versions of the plugin in the path, the highest one first.
func (h *Handler) versions(r *request) ([]model.Plugin, error) {
	kept, err := h.Store.Plugins(r.Context(), r.Org())
	return slices.DeleteFunc(kept, func(p model.Plugin) bool { return p.Name.Bare != r.Vars["pluginName"] }), err
}

func (h *Handler) listResourcePlugins(r *request) (any, error) {
	version := r.URL.Query().Get("version")
	if version != "" && version != latest && version != allVersions {
		return nil, failure.New(http.StatusBadRequest, "version is %q; use %s or %s", version, latest, allVersions)
	}
	kept, err := h.Store.Plugins(r.Context(), r.Org())
	if err != nil {
		return nil, err
	}
	if version != allVersions {
		kept = slices.CompactFunc(kept, func(a, b model.Plugin) bool { return a.Name.Bare == b.Name.Bare })
	}
	return encode.Each(kept, encode.Plugin)
}

func (h *Handler) listResourcePluginVersions(r *request) (any, error) {
	return encode.List(encode.Plugin)(h.versions(r))
}

// version returns the version of a plugin that a request names, by default the highest one;
// model.ErrNotFound: there is none.
func (h *Handler) version(r *request) (model.Plugin, error) {
	kept, err := h.versions(r)
	if err != nil {
		return model.Plugin{}, err
	}
	if version := r.URL.Query().Get("version"); version != "" && version != latest {
		name, err := spec.ParsePluginName(r.Vars["pluginName"] + "@" + version)
		if err != nil {
			return model.Plugin{}, failure.New(http.StatusBadRequest, "version %v", err)
		}
		kept = slices.DeleteFunc(kept, func(p model.Plugin) bool { return p.Name != name })
	}
	if len(kept) == 0 {
		return model.Plugin{}, model.ErrNotFound
	}
	return kept[0], nil
}

func (h *Handler) getResourcePlugin(r *request) (any, error) {
	return one(encode.Plugin, failure.Missing("unable to fetch resource plugin: not found"))(h.version(r))
}

func (h *Handler) applyResourcePlugin(r *request, in spec.Plugin, body tree) (any, error) {
	name, err := spec.ParsePluginName(in.Name)
	if err == nil && name.Bare != r.Vars["pluginName"] {
		err = fmt.Errorf("is %q, and the path names %q", in.Name, r.Vars["pluginName"])
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
	p := model.Plugin{Org: r.Org(), Name: name.Defaulted(), Spec: text, CreatedAt: r.Now, UpdatedAt: r.Now}
	err = h.Store.CreatePlugin(r.Context(), p, r.Event("resourceplugin.apply", store.Specified(name.String(), p.Spec)))
	return nil, failure.As(err, model.ErrExists, http.StatusConflict, "resource plugin version already exists")
}

func (h *Handler) deleteResourcePlugin(r *request) (any, error) {
	p, err := h.version(r)
	if err == nil {
		err = h.Store.DeletePlugin(r.Context(), r.Org(), p.Name, r.Event("resourceplugin.delete", tree{"name": p.Name.String()}))
	}
	if errors.Is(err, model.ErrInUse) { // it names the sandboxes
		return nil, failure.New(http.StatusBadRequest, "%v; delete them first", err)
	}
	return nil, failure.Missing("unable to delete resource plugin: not found")(err)
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
