// Package encode returns the values of the control plane as its API has them. It is pure. Answers have all
// fields that the definition requires, so no client gets null where it needs an object.
package encode

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	v2 "switchyard.dev/protos/controlplane/v2"
)

// Each returns all values as the API has them; an empty list if there are none.
func Each[M, V any](all []M, of func(M) (V, error)) ([]V, error) {
	out := make([]V, 0, len(all))
	for _, m := range all {
		v, err := of(m)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// List is Each for the values and the error that a store returns.
func List[M, V any](of func(M) (V, error)) func([]M, error) ([]V, error) {
	return func(all []M, err error) ([]V, error) {
		if err != nil {
			return nil, err
		}
		return Each(all, of)
	}
}

// One is List for one value.
func One[M, V any](of func(M) (V, error)) func(M, error) (V, error) {
	return func(m M, err error) (v V, _ error) {
		if err != nil {
			return v, err
		}
		return of(m)
	}
}

// Single returns the value in a list of one.
func Single[V any](all []V, err error) (v V, _ error) {
	if err == nil {
		v = all[0]
	}
	return v, err
}

// text returns a text; nil if it is empty.
func text(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// when returns a time as the API has it; nil if it is zero.
func when(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	return new(stamp(t))
}

// stamp returns a time as the API has it.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Cluster returns a cluster as the API has it.
func Cluster(c model.Cluster) (v2.Cluster, error) {
	out := v2.Cluster{Name: c.Name, CreatedAt: stamp(c.CreatedAt), Operator: v2.ClusterOperator{Version: c.OperatorVersion}}
	if c.Config == nil {
		return out, nil
	}
	var config v2.ConfigClusterConfig
	if err := json.Unmarshal(c.Config, &config); err != nil {
		return out, fmt.Errorf("read the configuration of cluster %s: %w", c.Name, err)
	}
	if !reflect.ValueOf(config).IsZero() {
		out.ClusterConfig = &config
	}
	return out, nil
}

// ClusterToken returns a token of a cluster as the API has it.
func ClusterToken(k model.ClusterToken) (v2.ClusterToken, error) {
	return v2.ClusterToken{
		ID: k.ID, MaskedValue: k.Masked, CreatedAt: stamp(k.CreatedAt),
		Status: v2.ClusterTokenStatus{LastConnectedAt: when(k.LastConnectedAt), LastConnectedIP: text(k.LastConnectedIP)},
	}, nil
}

// Plugin returns a version of a plugin as the API has it.
func Plugin(p model.Plugin) (v2.ResourcePlugin, error) {
	out := v2.ResourcePlugin{Name: p.Name.String(), CreatedAt: stamp(p.CreatedAt), UpdatedAt: stamp(p.UpdatedAt)}
	for _, u := range p.Uses {
		out.Status.Resources = append(out.Status.Resources, v2.ResourceInfo{Name: u.Resource, Sandbox: u.Sandbox, Cluster: u.Cluster})
	}
	if err := json.Unmarshal(p.Spec, &out.Spec); err != nil {
		return out, fmt.Errorf("read resource plugin %s: %w", p.Name, err)
	}
	return out, nil
}

// Secret returns a secret as the API has it, without its value.
func Secret(s model.Secret) (v2.Secret, error) {
	return v2.Secret{Name: s.Name, Description: &s.Description, CreatedAt: stamp(s.CreatedAt), UpdatedAt: stamp(s.UpdatedAt)}, nil
}

// ServiceAccount returns a service account as the API has it.
func ServiceAccount(a model.ServiceAccount) (v2.ServiceAccount, error) {
	return v2.ServiceAccount{Name: a.Name, Description: text(a.Description), Role: text(string(a.Role)), CreatedAt: stamp(a.CreatedAt), UpdatedAt: stamp(a.UpdatedAt)}, nil
}

// APIKey returns an API key as the API has it.
func APIKey(k model.APIKey) (v2.APIKey, error) {
	return v2.APIKey{ID: k.ID, Description: k.Description, MaskedValue: k.Masked, CreatedAt: stamp(k.CreatedAt), LastUsedAt: when(k.LastUsedAt)}, nil
}

// User returns a user as the API has it.
func User(u model.User) *v2.OrgsUser {
	return &v2.OrgsUser{
		ID: u.ID, Email: u.Email, Role: string(u.Role), FirstName: text(u.FirstName), LastName: text(u.LastName), Avatar: text(u.Avatar),
		CreatedAt: when(u.CreatedAt), UpdatedAt: when(u.UpdatedAt),
	}
}

// Devbox returns a devbox as the API has it, with its session unless that has ended. email is that of
// its owner.
func Devbox(d model.Devbox, email string, now time.Time) v2.Devbox {
	status := v2.DevboxStatus{CreatedAt: stamp(d.CreatedAt), UpdatedAt: stamp(d.UpdatedAt), Session: session(d, now)}
	return v2.Devbox{ID: d.ID, Metadata: d.Metadata, User: text(email), Status: status}
}

// session returns the session of a devbox; nil: it has none, or it has ended.
func session(d model.Devbox, now time.Time) *v2.ConnectSession {
	s := d.Connected(now)
	if s == nil {
		return nil
	}
	return &v2.ConnectSession{ID: s.ID, CreatedAt: stamp(s.CreatedAt), RenewedAt: stamp(s.RenewedAt), ValidUntil: stamp(s.ValidUntil)}
}

// Event returns an entry of the audit trail as the API has it.
func Event(e model.Event) (v2.Event, error) {
	out := v2.Event{
		ID: e.ID, Type: e.Type, Timestamp: stamp(e.At), Principal: v2.EventPrincipal{Kind: string(e.By.Kind), Name: e.By.Name, PublicID: e.By.ID},
		Auth: v2.EventAuthContext{Method: string(e.Method), APIKeyMasked: text(e.Masked)},
	}
	if e.Data != nil && string(e.Data) != "null" {
		out.Data = e.Data
	}
	return out, nil
}
