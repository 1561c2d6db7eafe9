// Package plugins stores resource plugins in the cluster, for installations without a control
// plane: each version in an immutable ConfigMap of the operator's namespace. Sandboxes contain
// the steps of their plugins, so only the sandbox compiler reads plugins.
//
// A version is in use while a sandbox was compiled with it. It is not deleted then, so that the
// sandbox can be compiled again. The caller checks for such sandboxes before deleting; a sandbox
// that is written at the same moment keeps its steps.
package plugins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/spec"
)

// Fields of the ConfigMap of a plugin: a label with the name of the plugin, and under a key the
// specification as JSON, with its name and version.
const (
	label = "signadot.com/resource-plugin"
	key   = "plugin.json"
)

// maxBytes is the maximum size of a plugin: a ConfigMap can have 1 MiB.
const maxBytes = 1<<20 - 4<<10

// Errors of a Store.
var (
	// ErrNone: there is no such plugin.
	ErrNone = errors.New("there is no such resource plugin")
	// ErrChanged: the version exists with other content.
	ErrChanged = errors.New("that version of the resource plugin is there with another content, and a version never changes")
	// ErrInUse: a sandbox uses the version.
	ErrInUse = errors.New("the resource plugin is in use")
)

// Store stores plugins.
type Store struct {
	// Client reaches the cluster.
	Client client.Client
	// Namespace is the operator's.
	Namespace string
	// Warn is called for each ConfigMap that is skipped, with a message that names it and the
	// remedy. nil: nothing is reported.
	Warn func(message string)
}

// Kept is a plugin in the cluster.
type Kept struct {
	// Name is that of the plugin, with its version.
	Name spec.PluginName
	// Plugin is its specification.
	Plugin spec.Plugin
	// Created is when it was created.
	Created metav1.Time
	// object is the ConfigMap.
	object *corev1.ConfigMap
}

// Put stores a valid plugin. It reports whether the version is new; the error is ErrChanged when
// it exists with other content.
func (s Store) Put(ctx context.Context, p spec.Plugin) (isNew bool, err error) {
	name, err := spec.ParsePluginName(p.Name)
	if err != nil {
		return false, fmt.Errorf("name %w", err)
	}
	p.Name = name.String()
	text, err := json.Marshal(p)
	if err != nil {
		return false, fmt.Errorf("write resource plugin %s: %w", name, err)
	}
	if len(text) > maxBytes {
		return false, fmt.Errorf("resource plugin %s has %d bytes; the limit is %d, so make its scripts smaller", name, len(text), maxBytes)
	}
	yes := true
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: objectName(name), Labels: map[string]string{label: crdv1.LabelValue(name.Bare)},
		},
		Immutable: &yes, Data: map[string]string{key: string(text)},
	}
	err = s.Client.Create(ctx, object)
	if !apierrors.IsAlreadyExists(err) {
		return err == nil, s.named("create", err)
	}
	var there corev1.ConfigMap
	if err := s.Client.Get(ctx, client.ObjectKeyFromObject(object), &there); err != nil {
		return false, s.named("read", err)
	}
	if there.Data[key] != string(text) {
		return false, ErrChanged
	}
	return false, nil
}

// objectName names the ConfigMap of a version of a plugin.
func objectName(name spec.PluginName) string {
	name = name.Defaulted()
	return crdv1.ObjectName(crdv1.MaxServiceName, "resource-plugin", name.Bare, name.Version)
}

// named adds the operation to an error about ConfigMaps; nil for nil.
func (s Store) named(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s ConfigMaps in namespace %s, where resource plugins are kept: %w", what, s.Namespace, err)
}

// List returns all plugins, by name and the highest version first.
func (s Store) List(ctx context.Context) ([]Kept, error) {
	var list corev1.ConfigMapList
	if err := s.Client.List(ctx, &list, client.InNamespace(s.Namespace), client.HasLabels{label}); err != nil {
		return nil, s.named("list", err)
	}
	kept := map[spec.PluginName]Kept{}
	for i := range list.Items {
		o := &list.Items[i]
		k, err := read(o)
		if err != nil {
			s.skip(o, err)
			continue
		}
		kept[k.Name] = k
	}
	names := slices.Collect(maps.Keys(kept))
	spec.NewestFirst(names)
	return lists.Map(names, func(name spec.PluginName) Kept { return kept[name] }), nil
}

// read returns the plugin of a ConfigMap. It must have the name that Put gives it and be
// immutable: users who can create ConfigMaps could replace a version otherwise.
func read(o *corev1.ConfigMap) (Kept, error) {
	var p spec.Plugin
	if err := json.Unmarshal([]byte(o.Data[key]), &p); err != nil {
		return Kept{}, fmt.Errorf("its key %s cannot be read (%w)", key, err)
	}
	name, err := spec.ParsePluginName(p.Name)
	if err != nil {
		return Kept{}, fmt.Errorf("the name of its plugin %w", err)
	}
	if want := objectName(name); o.Name != want {
		return Kept{}, fmt.Errorf("resource plugin %s counts only in ConfigMap %s", name.Defaulted(), want)
	}
	if o.Immutable == nil || !*o.Immutable {
		return Kept{}, errors.New("it is not immutable")
	}
	return Kept{Name: name.Defaulted(), Plugin: p, Created: o.CreationTimestamp, object: o}, nil
}

// skip reports a ConfigMap that is no resource plugin though it is labelled as one.
func (s Store) skip(o *corev1.ConfigMap, why error) {
	if s.Warn != nil {
		s.Warn(fmt.Sprintf("ConfigMap %s/%s is skipped, though it has the label %s: %v. Delete it, and apply the plugin with switchyard resourceplugin apply.", s.Namespace, o.Name, label, why))
	}
}

// Source is a Store, or the resource plugins of a control plane.
type Source interface {
	// List returns all plugins, by name and the highest version first.
	List(ctx context.Context) ([]Kept, error)
	// Users returns the users of each version of a plugin.
	Users(ctx context.Context) (map[spec.PluginName][]User, error)
}

// Get returns a plugin: the version that is named, else the highest. The error is ErrNone
// when there is none.
func Get(ctx context.Context, from Source, name spec.PluginName) (Kept, error) {
	all, err := from.List(ctx)
	if err != nil {
		return Kept{}, err
	}
	for _, k := range all {
		if k.Name.Bare == name.Bare && (name.Version == "" || k.Name == name) {
			return k, nil
		}
	}
	return Kept{}, ErrNone
}

// Unused is Get for a plugin that is to be deleted. The error is ErrInUse with its users if it has some.
func Unused(ctx context.Context, from Source, name spec.PluginName) (Kept, error) {
	kept, err := Get(ctx, from, name)
	if err != nil {
		return kept, err
	}
	users, err := from.Users(ctx)
	by := lists.Map(users[kept.Name], func(u User) string {
		text := fmt.Sprintf("resource %s of sandbox %s", u.Resource, u.Sandbox)
		if u.Cluster != "" {
			text += " in cluster " + u.Cluster
		}
		return text
	})
	if err == nil && len(by) > 0 {
		err = fmt.Errorf("%w by %s", ErrInUse, strings.Join(by, ", "))
	}
	return kept, err
}

// User is a resource of a sandbox that a plugin made.
type User struct {
	// Resource is its name in the sandbox.
	Resource string `json:"name"`
	// Sandbox is the name of the sandbox.
	Sandbox string `json:"sandbox"`
	// Cluster is that of the sandbox, if a control plane has several.
	Cluster string `json:"cluster,omitempty"`
}

// Users returns the users of each version of a plugin.
func (s Store) Users(ctx context.Context) (map[spec.PluginName][]User, error) {
	var list crdv1.SignadotSandboxList
	if err := s.Client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list SignadotSandboxes, which may use resource plugins: %w", err)
	}
	out := map[spec.PluginName][]User{}
	for i := range list.Items {
		o := &list.Items[i]
		for _, r := range o.Spec.ManagedResources {
			if name, err := spec.ParsePluginName(r.PluginName); err == nil {
				out[name.Defaulted()] = append(out[name.Defaulted()], User{Resource: r.Name, Sandbox: o.Name})
			}
		}
	}
	return out, nil
}

// Delete deletes a plugin: the version that is named, else the highest. The error is ErrNone when
// there is none, and ErrInUse with its users.
func (s Store) Delete(ctx context.Context, name spec.PluginName) (spec.PluginName, error) {
	kept, err := Unused(ctx, s, name)
	if err != nil {
		return kept.Name, err
	}
	only := client.Preconditions{UID: (*types.UID)(&kept.object.UID)}
	return kept.Name, s.named("delete", client.IgnoreNotFound(s.Client.Delete(ctx, kept.object, only)))
}
