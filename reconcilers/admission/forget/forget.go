// Package forget removes recorded authors that cannot be trusted: those from a time in
// which the chart's admission policy did not guard crdv1.AnnotationAuthor. That is before
// the first installation with the policy, while the operator was uninstalled, and while
// sandboxes.authors.ask was false. Such objects have no known author.
package forget

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
)

// Names of the chart's objects.
const (
	// Policy is the ValidatingAdmissionPolicy that guards the annotation.
	Policy = "signadot-authors"
	// State is the ConfigMap, in the operator's namespace, that has under "guarded" since
	// which policy, and in which mode of it, recorded authors are trusted.
	State = "switchyard-authors"
	// guarded is its key.
	guarded = "guarded"
)

// policies is the kind of Policy.
var policies = schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicy"}

// Defaults of the times in Config.
const (
	settle = time.Minute
	again  = 30 * time.Second
	page   = 500
)

// Config has the dependencies and settings of Run.
type Config struct {
	// Client reads and writes at the API server, without a cache. Required.
	Client client.Client
	// Namespace is the operator's. Required.
	Namespace string
	// Asked reports whether authors are asked about (sandboxes.authors.ask).
	Asked bool
	// Settle is how long API servers can take to apply a new policy. Default: a minute.
	Settle time.Duration
	// Logger logs failures; slog.Default() if it is nil.
	Logger *slog.Logger
}

// Add has a manager run it on the leader, with a client of its own.
func Add(m manager.Manager, c Config) error {
	live, err := client.New(m.GetConfig(), client.Options{HTTPClient: m.GetHTTPClient()})
	if err != nil {
		return fmt.Errorf("make what removes recorded authors: %w", err)
	}
	c.Client = live
	if err := m.Add(manager.RunnableFunc(c.Run)); err != nil {
		return fmt.Errorf("add what removes recorded authors: %w", err)
	}
	return nil
}

// Run removes authors until all remaining ones were recorded under the current policy, then returns
// nil. It retries failures, and returns nil when ctx ends.
func (c Config) Run(ctx context.Context) error {
	if c.Settle <= 0 {
		c.Settle = settle
	}
	c.Logger = cmp.Or(c.Logger, slog.Default())
	for ctx.Err() == nil {
		err := c.once(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			c.Logger.Warn("recorded authors from before the admission policy could not be removed; retrying", "error", err)
		}
		wake.Sleep(ctx, again)
	}
	return nil
}

// once removes authors recorded before the policy, twice: API servers can take a moment
// to apply a new one.
func (c Config) once(ctx context.Context) error {
	since, err := c.since(ctx)
	if err != nil {
		return err
	}
	state := &corev1.ConfigMap{}
	if err := c.Client.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: State}, state); err != nil {
		return fmt.Errorf("read ConfigMap %s/%s (install the chart again, which creates it): %w", c.Namespace, State, err)
	}
	if state.Data[guarded] == since {
		return nil
	}
	if err := c.remove(ctx); err != nil {
		return err
	}
	if !wake.Sleep(ctx, c.Settle) {
		return ctx.Err()
	}
	if err := c.remove(ctx); err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"data": map[string]string{guarded: since}})
	if err != nil {
		return err
	}
	return c.Client.Patch(ctx, state, client.RawPatch("application/merge-patch+json", patch), apply.FieldOwner)
}

// since names the policy that is in force, and its mode.
func (c Config) since(ctx context.Context) (string, error) {
	policy := &metav1.PartialObjectMetadata{}
	policy.SetGroupVersionKind(policies)
	err := c.Client.Get(ctx, client.ObjectKey{Name: Policy}, policy)
	if apierrors.IsNotFound(err) {
		return "", fmt.Errorf("ValidatingAdmissionPolicy %s is missing, so all users who can update an object can forge its author: install the chart again", Policy)
	}
	if err != nil {
		return "", fmt.Errorf("read ValidatingAdmissionPolicy %s: %w", Policy, err)
	}
	return fmt.Sprintf("%s asked=%t", policy.UID, c.Asked), nil
}

// remove removes the authors of all objects.
//
// +kubebuilder:rbac:groups=signadot.com,resources=forkedworkloads;resources;routingconfigs;signadotexternalworkloads;signadotobjectlifecyclemethods;signadotroutegroups;signadotsandboxes;virtualworkloads,verbs=list;patch
func (c Config) remove(ctx context.Context) error {
	var err error
	for _, kind := range crdv1.SupportedKinds() {
		err = errors.Join(err, c.removeOf(ctx, kind.Name))
	}
	return err
}

// removeOf removes the authors of the objects of a kind.
func (c Config) removeOf(ctx context.Context, kind string) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(crdv1.GroupVersion().WithKind(kind + "List"))
	for more := true; more; more = list.Continue != "" {
		if err := c.Client.List(ctx, list, client.Limit(page), client.Continue(list.Continue)); err != nil {
			return fmt.Errorf("list objects of kind %s: %w", kind, err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			if _, has := o.Annotations[crdv1.AnnotationAuthor]; !has {
				continue
			}
			patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:null}}}`, o.UID, crdv1.AnnotationAuthor)
			o.SetGroupVersionKind(crdv1.GroupVersion().WithKind(kind))
			err := c.Client.Patch(ctx, o, client.RawPatch("application/merge-patch+json", patch), apply.FieldOwner)
			if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) { // Deleted, or replaced by another object of its name.
				return fmt.Errorf("remove the recorded author of %s %s/%s: %w", kind, o.Namespace, o.Name, err)
			}
		}
	}
	return nil
}
