package rest

import (
	"cmp"
	"fmt"
	"net/http"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/rest/decode"
	"switchyard.dev/controlplane-link/controlplane/rest/encode"
	"switchyard.dev/controlplane-link/controlplane/rest/failure"
	"switchyard.dev/controlplane-link/identity"
	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/workflows/specfile"
)

var noAccount = failure.Missing("service account not found")

// decodeAccount changes a service account to that of the body. A field that is not in the body stays.
func (r *request) decodeAccount(a *model.ServiceAccount) error {
	in := struct {
		Name        string     `json:"name"`
		Description string     `json:"description"`
		Role        model.Role `json:"role"`
	}{Description: a.Description, Role: a.Role}
	if _, err := r.decode(&in); err != nil {
		return err
	}
	if in.Role != model.RoleMember && in.Role != model.RoleAdmin {
		return specfile.Problems{{Path: "role", Text: fmt.Sprintf("is %q; use admin or member", in.Role)}}
	}
	a.Name, a.Description, a.Role, a.UpdatedAt = cmp.Or(a.Name, in.Name), in.Description, in.Role, r.Now
	return nil
}

func (h *Handler) listServiceAccounts(r *request) (any, error) {
	return encode.List(encode.ServiceAccount)(h.Store.ServiceAccounts(r.Context(), r.Org()))
}

func (h *Handler) getServiceAccount(r *request) (any, error) {
	return one(encode.ServiceAccount, noAccount)(h.Store.ServiceAccount(r.Context(), r.Org(), r.Vars["serviceAccountName"]))
}

func (h *Handler) createServiceAccount(r *request) (any, error) {
	a := model.ServiceAccount{Org: r.Org(), Role: model.RoleMember, CreatedAt: r.Now}
	if err := r.decodeAccount(&a); err != nil {
		return nil, err
	}
	if err := identity.Valid("service account", a.Name); err != nil {
		return nil, failure.New(http.StatusBadRequest, "%v", err)
	}
	err := h.Store.CreateServiceAccount(r.Context(), a, r.Event("serviceAccount.create", tree{"name": a.Name, "role": a.Role}))
	return one(encode.ServiceAccount, failure.Taken("service account"))(a, err)
}

func (h *Handler) updateServiceAccount(r *request) (any, error) {
	a, err := h.Store.ServiceAccount(r.Context(), r.Org(), r.Vars["serviceAccountName"])
	if err == nil {
		err = r.decodeAccount(&a)
	}
	if err == nil {
		err = h.Store.UpdateServiceAccount(r.Context(), a, r.Event("serviceAccount.update", tree{"name": a.Name, "role": a.Role}))
	}
	return one(encode.ServiceAccount, noAccount)(a, err)
}

func (h *Handler) deleteServiceAccount(r *request) (any, error) {
	name := r.Vars["serviceAccountName"]
	return nil, noAccount(h.Store.DeleteServiceAccount(r.Context(), r.Org(), name, r.Event("serviceAccount.delete", tree{"name": name})))
}

// keyOwner returns the owner of the API keys in a path. A member has access to its own keys only.
func keyOwner(r *request) (model.Principal, error) {
	if name, of := r.Vars["serviceAccountName"]; of {
		return model.Principal{Kind: model.KindServiceAccount, ID: name, Name: name}, nil
	}
	owner := model.Principal{Kind: model.KindUser, ID: r.Vars["userId"]}
	if self := r.Caller.Principal; r.Caller.Role != model.RoleAdmin && (self.Kind != owner.Kind || self.ID != owner.ID) {
		return owner, failure.New(http.StatusForbidden, "access denied: API keys of others need role %s", model.RoleAdmin)
	}
	return owner, nil
}

// checkedOwner is keyOwner for one that exists.
func (h *Handler) checkedOwner(r *request) (model.Principal, error) {
	owner, err := keyOwner(r)
	switch {
	case err != nil:
		return owner, err
	case owner.Kind == model.KindServiceAccount:
		_, err = h.Store.ServiceAccount(r.Context(), r.Org(), owner.ID)
		return owner, noAccount(err)
	}
	_, err = h.Store.User(r.Context(), r.Org(), owner.ID)
	return owner, failure.Missing("user not found")(err)
}

func (h *Handler) listKeys(r *request) (any, error) {
	owner, err := h.checkedOwner(r)
	if err != nil {
		return nil, err
	}
	keys, err := encode.List(encode.APIKey)(h.Store.APIKeys(r.Context(), r.Org(), owner))
	return v2.ListAPIKeysResponse{APIKeys: keys}, err
}

func (h *Handler) createKey(r *request) (any, error) {
	owner, err := h.checkedOwner(r)
	if err != nil {
		return nil, err
	}
	var in struct {
		Description string `json:"description"`
	}
	if _, err := r.decode(&in); err != nil {
		return nil, err
	}
	secret := newSecret()
	k := model.APIKey{Org: r.Org(), ID: newID("key"), Owner: owner, Description: in.Description, Masked: masked(secret), Digest: model.DigestOf(secret), CreatedAt: r.Now}
	if err := h.Store.CreateAPIKey(r.Context(), k, r.Event("apiKey.create", tree{"id": k.ID, "owner": owner})); err != nil {
		return nil, err
	}
	out, err := encode.APIKey(k)
	out.Token = &secret
	return out, err
}

func (h *Handler) deleteKey(r *request) (any, error) {
	owner, err := keyOwner(r)
	if id := r.Vars["apiKeyId"]; err == nil {
		err = h.Store.DeleteAPIKey(r.Context(), r.Org(), owner, id, r.Event("apiKey.delete", tree{"id": id, "owner": owner}))
	}
	return nil, failure.Missing("API key not found")(err)
}

var noSecret = failure.Missing("secret not found")

func (h *Handler) listSecrets(r *request) (any, error) {
	return encode.List(encode.Secret)(h.Store.Secrets(r.Context(), r.Org()))
}

func (h *Handler) getSecret(r *request) (any, error) {
	return one(encode.Secret, noSecret)(h.Store.Secret(r.Context(), r.Org(), r.Vars["secretName"]))
}

// secret is the body of createSecret and updateSecret.
type secret struct {
	Name        string `json:"name"`
	Value       string `json:"value"`
	Description string `json:"description"`
}

func (h *Handler) createSecret(r *request, in secret, _ tree) (any, error) {
	s, err := r.secret(in)
	if err != nil {
		return nil, err
	}
	if err := identity.Valid("secret", s.Name); err != nil {
		return nil, failure.New(http.StatusBadRequest, "%v", err)
	}
	err = h.Store.CreateSecret(r.Context(), s, r.Event("secret.create", tree{"name": s.Name}))
	return one(encode.Secret, failure.Taken("secret"))(s, err)
}

func (h *Handler) updateSecret(r *request, in secret, _ tree) (any, error) {
	in.Name = r.Vars["secretName"]
	s, err := r.secret(in)
	if err == nil {
		err = h.Store.UpdateSecret(r.Context(), s, r.Event("secret.update", tree{"name": s.Name}))
	}
	if err != nil {
		return nil, noSecret(err)
	}
	return h.getSecret(r)
}

// secret returns the secret of a body.
func (r *request) secret(in secret) (model.Secret, error) {
	if in.Value == "" {
		return model.Secret{}, specfile.Problems{{Path: "value", Text: "is missing"}}
	}
	return model.Secret{Org: r.Org(), Name: in.Name, Value: in.Value, Description: in.Description, CreatedAt: r.Now, UpdatedAt: r.Now}, nil
}

func (h *Handler) deleteSecret(r *request) (any, error) {
	name := r.Vars["secretName"]
	return nil, noSecret(h.Store.DeleteSecret(r.Context(), r.Org(), name, r.Event("secret.delete", tree{"name": name})))
}

// listEvents serves the audit trail.
func (h *Handler) listEvents(r *request) (any, error) {
	q, err := decode.Events(r.URL.Query())
	if err != nil {
		return nil, err
	}
	events, err := encode.List(encode.Event)(h.Store.Events(r.Context(), r.Org(), q))
	return v2.ListEventsResponse{Events: events}, err
}
