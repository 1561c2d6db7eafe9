// Package stores has the interfaces of what the operations of the API need from a store.
package stores

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/controlplane-link/controlplane/desired"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/sidecars/coverage"
	"switchyard.dev/workflows/plugins"
	"switchyard.dev/workflows/sandboxes"
	"switchyard.dev/workflows/spec"
)

// All is what the operations need. Their contract is that of package model. All are required but
// Live: without it analyzeDevMesh and explainSandboxStatus answer 501.
type All struct {
	Identities Identities
	Logins     Logins
	Keys       Keys
	Accounts   Accounts
	Clusters   Clusters
	Sandboxes  Sandboxes
	Groups     Groups
	Plugins    Plugins
	Secrets    Secrets
	Devboxes   Devboxes
	Events     Events
	Live       Live
}

// Identities finds the caller of a request.
type Identities interface {
	// CallerOf returns the caller with an API key or a cluster token.
	CallerOf(ctx context.Context, secret model.Digest) (model.Caller, error)
	// Session returns the session of a bearer token. It may have expired.
	Session(ctx context.Context, access model.Digest) (model.Session, error)
	User(ctx context.Context, org, id string) (model.User, error)
	Organisation(ctx context.Context, name string) (model.Organisation, error)
	// Used records the last use of an API key, and its address.
	Used(ctx context.Context, id string, at time.Time, from string) error
}

// Logins keeps logins of devices.
type Logins interface {
	CreateDeviceLogin(ctx context.Context, l model.DeviceLogin) error
	DeviceLogin(ctx context.Context, device model.Digest) (model.DeviceLogin, error)
	PolledDeviceLogin(ctx context.Context, device model.Digest, at time.Time) error
	// FinishDeviceLogin replaces an accepted login by a session.
	FinishDeviceLogin(ctx context.Context, device model.Digest, s model.Session, ev model.Event) error
	// SessionByRefresh returns the session of a refresh token. It may have expired.
	SessionByRefresh(ctx context.Context, refresh model.Digest) (model.Session, error)
	// ReplaceSession replaces the session of a refresh token; ErrNotFound: it was replaced.
	ReplaceSession(ctx context.Context, refresh model.Digest, s model.Session, ev model.Event) error
}

// Keys keeps API keys.
type Keys interface {
	APIKeys(ctx context.Context, org string, owner model.Principal) ([]model.APIKey, error)
	CreateAPIKey(ctx context.Context, k model.APIKey, ev model.Event) error
	DeleteAPIKey(ctx context.Context, org string, owner model.Principal, id string, ev model.Event) error
}

// Accounts keeps service accounts.
type Accounts interface {
	ServiceAccounts(ctx context.Context, org string) ([]model.ServiceAccount, error)
	ServiceAccount(ctx context.Context, org, name string) (model.ServiceAccount, error)
	CreateServiceAccount(ctx context.Context, a model.ServiceAccount, ev model.Event) error
	UpdateServiceAccount(ctx context.Context, a model.ServiceAccount, ev model.Event) error
	DeleteServiceAccount(ctx context.Context, org, name string, ev model.Event) error
}

// Clusters keeps clusters and their tokens.
type Clusters interface {
	Clusters(ctx context.Context, org string) ([]model.Cluster, error)
	Cluster(ctx context.Context, org, name string) (model.Cluster, error)
	// CreateCluster wraps ErrExists if the name is registered.
	CreateCluster(ctx context.Context, c model.Cluster, ev model.Event) error
	// DeleteCluster deletes the tokens of the cluster, too. It wraps ErrInUse, and names them, while the
	// cluster has sandboxes, or route groups or endpoints of them name it, that are not deleted.
	DeleteCluster(ctx context.Context, org, name string, ev model.Event) error
	ClusterTokens(ctx context.Context, org, cluster string) ([]model.ClusterToken, error)
	ClusterToken(ctx context.Context, org, cluster, id string) (model.ClusterToken, error)
	// CreateClusterToken wraps ErrNotFound if there is no such cluster.
	CreateClusterToken(ctx context.Context, k model.ClusterToken, ev model.Event) error
	DeleteClusterToken(ctx context.Context, org, cluster, id string, ev model.Event) error
}

// Sandboxes keeps sandboxes.
type Sandboxes interface {
	// Sandboxes and Sandbox return tombstones, too.
	Sandboxes(ctx context.Context, org string) ([]model.Sandbox, error)
	Sandbox(ctx context.Context, org, name string) (model.Sandbox, error)
	// PutSandbox creates or replaces the specification of a sandbox, and returns the row. An existing
	// one keeps its routing key, its creation and its status. It wraps ErrNotFound if the cluster or
	// a plugin is missing, ErrKeyTaken, ErrMoved, ErrDeleting for a tombstone, and ErrExists if a
	// route group has the name.
	PutSandbox(ctx context.Context, s model.Sandbox, ev model.Event) (model.Sandbox, error)
	// DeleteSandbox makes a tombstone of a sandbox, or changes the force or the author of one.
	DeleteSandbox(ctx context.Context, org, name string, force bool, at time.Time, ev model.Event) error
	// Plugins returns all versions of all plugins.
	Plugins(ctx context.Context, org string) ([]model.Plugin, error)
	Cluster(ctx context.Context, org, name string) (model.Cluster, error)
}

// Groups keeps route groups, as Sandboxes keeps sandboxes.
type Groups interface {
	RouteGroups(ctx context.Context, org string) ([]model.RouteGroup, error)
	RouteGroup(ctx context.Context, org, name string) (model.RouteGroup, error)
	// PutRouteGroup wraps ErrNotFound, with the path of the field, if a cluster is missing that the group or
	// an endpoint of it names.
	PutRouteGroup(ctx context.Context, g model.RouteGroup, ev model.Event) (model.RouteGroup, error)
	DeleteRouteGroup(ctx context.Context, org, name string, at time.Time, ev model.Event) error
	// Sandboxes are those that a group can match.
	Sandboxes(ctx context.Context, org string) ([]model.Sandbox, error)
}

// Plugins keeps versions of resource plugins.
type Plugins interface {
	// Plugins returns all versions of all plugins, with their uses.
	Plugins(ctx context.Context, org string) ([]model.Plugin, error)
	// CreatePlugin wraps ErrExists if that version exists.
	CreatePlugin(ctx context.Context, p model.Plugin, ev model.Event) error
	// DeletePlugin wraps ErrInUse while a sandbox has that version.
	DeletePlugin(ctx context.Context, org string, name spec.PluginName, ev model.Event) error
}

// Secrets keeps secrets. No method returns a value.
type Secrets interface {
	Secrets(ctx context.Context, org string) ([]model.Secret, error)
	Secret(ctx context.Context, org, name string) (model.Secret, error)
	CreateSecret(ctx context.Context, s model.Secret, ev model.Event) error
	// UpdateSecret replaces the value and the description of a secret.
	UpdateSecret(ctx context.Context, s model.Secret, ev model.Event) error
	DeleteSecret(ctx context.Context, org, name string, ev model.Event) error
}

// Devboxes keeps devboxes and their sessions.
type Devboxes interface {
	Devboxes(ctx context.Context, org string) ([]model.Devbox, error)
	Devbox(ctx context.Context, org, id string) (model.Devbox, error)
	// RegisterDevbox adds a devbox, or replaces the metadata of the one with its ID.
	RegisterDevbox(ctx context.Context, d model.Devbox, ev model.Event) (isNew bool, err error)
	// DeleteDevbox wraps ErrHeld while another principal has a session.
	DeleteDevbox(ctx context.Context, org, id string, ev model.Event) error
	// ClaimDevbox begins a session. It wraps ErrHeld while another principal has one.
	ClaimDevbox(ctx context.Context, org, id string, s model.DevboxSession, ev model.Event) error
	// RenewDevbox prolongs a session. It wraps ErrHeld if the devbox does not have it any more.
	RenewDevbox(ctx context.Context, org, id, session string, at, until time.Time) error
	// ReleaseDevbox ends the session of the caller. It wraps ErrHeld while another principal has one.
	ReleaseDevbox(ctx context.Context, org, id string, ev model.Event) error
}

// Events keeps the audit trail.
type Events interface {
	Events(ctx context.Context, org string, q model.EventQuery) ([]model.Event, error)
}

// Live reads clusters at the time of a request, with the rights that a user has there. Its errors wrap ErrUnreachable
// if the agent is not connected, ErrRefused if the user lacks the rights, and context.DeadlineExceeded if it takes too long.
type Live interface {
	// Sidecars returns the reports of the workloads of a namespace that request sidecars, have some or
	// have a fork; empty: of all namespaces. ErrNotFound: there is no such namespace.
	Sidecars(ctx context.Context, org, cluster, namespace string, by model.Author) ([]coverage.Report, error)
	// Report returns the report of a sandbox; ErrNotFound: the cluster has no such object.
	Report(ctx context.Context, org, cluster, name string, by model.Author) (sandboxes.Sandbox, error)
}

// PluginsOf are the resource plugins of an organisation, as sandboxes.Plugins.
type PluginsOf struct {
	From Sandboxes
	Org  string
}

// List implements sandboxes.Plugins.
func (p PluginsOf) List(ctx context.Context) ([]plugins.Kept, error) {
	rows, err := p.From.Plugins(ctx, p.Org)
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
