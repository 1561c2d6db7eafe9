package rest

import (
	"errors"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/rest/encode"
	v2 "switchyard.dev/protos/controlplane/v2"
)

// Headers of credentials beside Authorization. If there are several, a bearer token counts before an
// API key, and that before a cluster token.
const (
	headerAPIKey       = "Signadot-Api-Key"
	headerClusterToken = "Signadot-Cluster-Token"
)

// recordEvery is how often the last use of a credential is recorded.
const recordEvery = 5 * time.Minute

// authenticate returns the caller with the credential of a request.
func (h *Handler) authenticate(r *request) (model.Caller, error) {
	bearer, isBearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	key, token := r.Header.Get(headerAPIKey), r.Header.Get(headerClusterToken)
	var caller model.Caller
	var err error
	switch {
	case isBearer:
		caller, err = h.holder(r, bearer)
	case key != "":
		caller, err = h.keyHolder(r, key, model.MethodAPIKey)
	case token != "":
		caller, err = h.keyHolder(r, token, model.MethodClusterToken)
	default:
		return caller, fail(http.StatusUnauthorized, "unauthorized: the request has no credential; send an API key in header %s, or a bearer token", headerAPIKey)
	}
	return caller, as(err, model.ErrNotFound, http.StatusUnauthorized, "unauthorized: the credential is not valid")
}

// holder returns the user with a bearer token.
func (h *Handler) holder(r *request, token string) (model.Caller, error) {
	s, err := h.Stores.Identities.Session(r.Context(), model.DigestOf(token))
	if err != nil {
		return model.Caller{}, err
	}
	if !r.now.Before(s.ExpiresAt) {
		return model.Caller{}, fail(http.StatusUnauthorized, "unauthorized: the token has expired; refresh it")
	}
	u, err := h.Stores.Identities.User(r.Context(), s.Org, s.UserID)
	return model.Caller{Org: s.Org, Principal: model.Principal{Kind: model.KindUser, ID: u.ID, Name: u.Email}, Role: u.Role, Method: model.MethodBearer}, err
}

// keyHolder returns the caller with an API key or a cluster token, which must be in its own header.
func (h *Handler) keyHolder(r *request, secret string, by model.Method) (model.Caller, error) {
	caller, err := h.Stores.Identities.CallerOf(r.Context(), model.DigestOf(secret))
	if err == nil && caller.Method != by {
		err = model.ErrNotFound
	}
	if err == nil && by == model.MethodAPIKey && h.used.first(caller.KeyID, r.now) {
		if err := h.Stores.Identities.Used(r.Context(), caller.KeyID, r.now, addressOf(r.Request)); err != nil {
			h.Logger.WarnContext(r.Context(), "The last use of a credential was not recorded.", "request", r.id, "credential", caller.KeyID, "error", err)
		}
	}
	return caller, err
}

// recent are credentials that were used lately.
type recent struct {
	mu sync.Mutex
	at map[string]time.Time
}

// first reports whether the use of a credential is to be recorded.
func (u *recent) first(id string, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if at, known := u.at[id]; known && now.Sub(at) < recordEvery {
		return false
	}
	maps.DeleteFunc(u.at, func(_ string, at time.Time) bool { return now.Sub(at) >= recordEvery })
	if u.at == nil {
		u.at = map[string]time.Time{}
	}
	u.at[id] = now
	return true
}

// addressOf returns the address of a client, without its port.
func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// allows returns a failure if the caller may not call an operation.
func (a access) allows(r *request) error {
	caller := r.caller
	switch {
	case a == open || a == anyone:
		return nil
	case caller.Org != r.org():
		return fail(http.StatusForbidden, "access denied: the credential is not of organisation %q", r.org())
	case caller.Principal.Kind != model.KindUser && caller.Principal.Kind != model.KindServiceAccount:
		return fail(http.StatusForbidden, "access denied: a cluster token has no access to this operation")
	case a == admin && caller.Role != model.RoleAdmin:
		return fail(http.StatusForbidden, "access denied: the operation needs role %s", model.RoleAdmin)
	case caller.Role != model.RoleAdmin && caller.Role != model.RoleMember:
		return fail(http.StatusForbidden, "access denied: the credential has no role")
	}
	return nil
}

// getOrgs returns the organisation of the caller, and the caller.
func (h *Handler) getOrgs(r *request) (any, error) {
	org, err := h.Stores.Identities.Organisation(r.Context(), r.caller.Org)
	if err != nil {
		return nil, err
	}
	out := v2.OrgsGetOrgNameResponse{Orgs: []v2.OrgsOrg{{Name: org.Name, DisplayName: org.DisplayName}}}
	who := r.caller.Principal
	switch who.Kind {
	case model.KindCluster:
		out.ClusterID = &who.ID
	case model.KindUser:
		u, err := h.Stores.Identities.User(r.Context(), r.caller.Org, who.ID)
		if err != nil {
			return nil, err
		}
		out.User = encode.User(u)
	}
	return out, nil
}

// isMissing reports whether an error is that of an object that does not exist.
func isMissing(err error) bool { return errors.Is(err, model.ErrNotFound) }
