package rest

import (
	"net/http"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/rest/encode"
	"switchyard.dev/controlplane-link/identity"
	"switchyard.dev/workflows/specfile"
)

var noSecret = missing("secret not found")

func (h *Handler) listSecrets(r *request) (any, error) {
	return each(encode.Secret)(h.Store.Secrets(r.Context(), r.org()))
}

func (h *Handler) getSecret(r *request) (any, error) {
	return one(encode.Secret, noSecret)(h.Store.Secret(r.Context(), r.org(), r.vars["secretName"]))
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
		return nil, fail(http.StatusBadRequest, "%v", err)
	}
	err = h.Store.CreateSecret(r.Context(), s, r.event("secret.create", tree{"name": s.Name}))
	return one(encode.Secret, taken("secret"))(s, err)
}

func (h *Handler) updateSecret(r *request, in secret, _ tree) (any, error) {
	in.Name = r.vars["secretName"]
	s, err := r.secret(in)
	if err == nil {
		err = h.Store.UpdateSecret(r.Context(), s, r.event("secret.update", tree{"name": s.Name}))
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
	return model.Secret{Org: r.org(), Name: in.Name, Value: in.Value, Description: in.Description, CreatedAt: r.now, UpdatedAt: r.now}, nil
}

func (h *Handler) deleteSecret(r *request) (any, error) {
	name := r.vars["secretName"]
	return nil, noSecret(h.Store.DeleteSecret(r.Context(), r.org(), name, r.event("secret.delete", tree{"name": name})))
}
