package rest

import (
	"errors"
	"net/http"
	"strings"

	"switchyard.dev/controlplane-link/controlplane/checks"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/rest/encode"
	"switchyard.dev/controlplane-link/controlplane/rest/failure"
	"switchyard.dev/eventbus/callers"
	v2 "switchyard.dev/protos/controlplane/v2"
)

// Headers of credentials beside Authorization. If there are several, a bearer token counts before an
// API key, and that before a cluster token.
const (
	headerAPIKey       = "Signadot-Api-Key"
	headerClusterToken = "Signadot-Cluster-Token"
)

// credential returns the credential of a request, and the method that its header is for; none is empty.
func (r *request) credential() (secret string, by model.Method) {
	if bearer, is := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); is {
		return bearer, model.MethodBearer
	}
	if key := r.Header.Get(headerAPIKey); key != "" {
		return key, model.MethodAPIKey
	}
	return r.Header.Get(headerClusterToken), model.MethodClusterToken
}

// authenticate returns the caller with the credential of a request, of which a bounded number are checked at once. The
// others wait: a check takes milliseconds. A credential that was valid lately has a limit of its own, and an address has
// one for all others: more are refused before.
func (h *Handler) authenticate(r *request) (caller model.Caller, err error) {
	secret, by := r.credential()
	digest := model.DigestOf(secret)
	from := callers.Behind(r.RemoteAddr, h.Forwards)
	if !r.guesses {
		from = callers.Caller{Kind: callers.Pod, Name: string(digest[:])}
	}
	leave, err := h.senders.Enter(from)
	if err != nil {
		return caller, failure.New(http.StatusTooManyRequests, "%v", err)
	}
	defer leave()
	if secret == "" {
		return caller, failure.New(http.StatusUnauthorized, "unauthorized: the request has no credential; send an API key in header %s, or a bearer token", headerAPIKey)
	}
	caller, err = h.checks.Caller(r.Context(), digest, by, r.Now)
	if err != nil {
		err = failure.As(err, checks.ErrExpired, http.StatusUnauthorized, "unauthorized: the token has expired; refresh it")
		return caller, failure.As(err, model.ErrNotFound, http.StatusUnauthorized, "unauthorized: the credential is not valid")
	}
	r.guesses = false
	h.checks.Use(r.Context(), caller, r.Now, r.RemoteAddr, h.Logger.With("request", r.id))
	return caller, nil
}

// allows returns a failure if the caller may not call an operation.
func (a access) allows(r *request) error {
	caller := r.Caller
	switch {
	case a == open || a == anyone:
		return nil
	case caller.Org != r.Org():
		return failure.New(http.StatusForbidden, "access denied: the credential is not of organisation %q", r.Org())
	case caller.Principal.Kind != model.KindUser && caller.Principal.Kind != model.KindServiceAccount:
		return failure.New(http.StatusForbidden, "access denied: a cluster token has no access to this operation")
	case a == admin && caller.Role != model.RoleAdmin:
		return failure.New(http.StatusForbidden, "access denied: the operation needs role %s", model.RoleAdmin)
	case caller.Role != model.RoleAdmin && caller.Role != model.RoleMember:
		return failure.New(http.StatusForbidden, "access denied: the credential has no role")
	}
	return nil
}

// getOrgs returns the organisation of the caller, and the caller.
func (h *Handler) getOrgs(r *request) (any, error) {
	org, err := h.Store.Organisation(r.Context(), r.Caller.Org)
	if err != nil {
		return nil, err
	}
	out := v2.OrgsGetOrgNameResponse{Orgs: []v2.OrgsOrg{{Name: org.Name, DisplayName: org.DisplayName}}}
	who := r.Caller.Principal
	switch who.Kind {
	case model.KindCluster:
		out.ClusterID = &who.ID
	case model.KindUser:
		u, err := h.Store.User(r.Context(), r.Caller.Org, who.ID)
		if err != nil {
			return nil, err
		}
		out.User = encode.User(u)
	}
	return out, nil
}

// isMissing reports whether an error is that of an object that does not exist.
func isMissing(err error) bool { return errors.Is(err, model.ErrNotFound) }
