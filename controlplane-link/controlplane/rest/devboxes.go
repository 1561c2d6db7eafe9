package rest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/rest/encode"
	"switchyard.dev/controlplane-link/controlplane/rest/failure"
	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/workflows/specfile"
)

// sessionFor is how long a session of a devbox lasts without renewal. Clients renew it every 22 to 27
// seconds.
const sessionFor = 2 * time.Minute

// owner is the owner of the devboxes that the caller registers: those of an API key belong to the
// organisation.
func (r *request) owner() string {
	if r.Caller.Method == model.MethodBearer {
		return r.Caller.Principal.ID
	}
	return ""
}

// ofAnother reports whether a devbox is of another user.
func (r *request) ofAnother(d model.Devbox) bool {
	self := r.Caller.Principal
	return d.UserID != "" && (self.Kind != model.KindUser || self.ID != d.UserID)
}

// mayUse reports whether the caller may read a devbox, and use its session.
func (r *request) mayUse(d model.Devbox) bool {
	return !r.ofAnother(d) || r.Caller.Role == model.RoleAdmin
}

// devbox returns the devbox in the path, if the caller may use it.
func (h *Handler) devbox(r *request) (model.Devbox, error) {
	d, err := h.Store.Devbox(r.Context(), r.Org(), r.Vars["devboxId"])
	if err != nil {
		return d, failure.Missing("devbox not found")(err)
	}
	if !r.mayUse(d) {
		return d, failure.New(http.StatusForbidden, "access denied: the devbox is of another user")
	}
	return d, nil
}

// devboxOf returns a devbox as the API has it.
func (h *Handler) devboxOf(r *request, d model.Devbox) (v2.Devbox, error) {
	if d.UserID == "" {
		return encode.Devbox(d, "", r.Now), nil
	}
	u, err := h.Store.User(r.Context(), d.Org, d.UserID)
	if isMissing(err) {
		err = nil
	}
	return encode.Devbox(d, u.Email, r.Now), err
}

func (h *Handler) listDevboxes(r *request) (any, error) {
	kept, err := h.Store.Devboxes(r.Context(), r.Org())
	if err != nil {
		return nil, err
	}
	if r.URL.Query().Get("all") != "true" {
		kept = slices.DeleteFunc(kept, r.ofAnother)
	}
	return encode.Each(kept, func(d model.Devbox) (v2.Devbox, error) { return h.devboxOf(r, d) })
}

func (h *Handler) getDevbox(r *request) (any, error) {
	d, err := h.devbox(r)
	if err != nil {
		return nil, err
	}
	return h.devboxOf(r, d)
}

// registration is the body of registerDevbox.
type registration struct {
	Metadata map[string]string `json:"metadata"`
	Claim    bool              `json:"claim"`
}

func (h *Handler) registerDevbox(r *request, in registration, _ tree) (any, error) {
	for _, name := range []string{"name", "machine-id"} {
		if in.Metadata[name] == "" {
			return nil, specfile.Problems{{Path: "metadata." + name, Text: "is missing"}}
		}
	}
	d := model.Devbox{Org: r.Org(), Metadata: in.Metadata, UserID: r.owner(), CreatedAt: r.Now, UpdatedAt: r.Now}
	identity, err := json.Marshal([]string{d.Org, d.UserID, in.Metadata["name"], in.Metadata["machine-id"]})
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(identity)
	d.ID = "dbx-" + hex.EncodeToString(sum[:16])
	isNew, err := h.Store.RegisterDevbox(r.Context(), d, r.Event("devbox.register", tree{"id": d.ID, "metadata": in.Metadata}))
	if err != nil {
		return nil, failure.As(err, model.ErrTooMany, http.StatusTooManyRequests, err.Error())
	}
	r.Vars["devboxId"] = d.ID
	answer := h.getDevbox
	if in.Claim {
		answer = h.claimDevbox
	}
	if isNew {
		r.status = http.StatusCreated
	}
	return answer(r)
}

func (h *Handler) deleteDevbox(r *request) (any, error) {
	d, err := h.devbox(r)
	if err == nil {
		err = h.Store.DeleteDevbox(r.Context(), r.Org(), d.ID, r.Event("devbox.delete", tree{"id": d.ID}))
	}
	return nil, claimed(err)
}

// session changes the session of the devbox in the path, and returns that.
func (h *Handler) session(r *request, change func(id string) error) (any, error) {
	d, err := h.devbox(r)
	if err == nil {
		err = change(d.ID)
	}
	if err != nil {
		return nil, claimed(err)
	}
	return h.getDevbox(r)
}

func (h *Handler) claimDevbox(r *request) (any, error) {
	return h.session(r, func(id string) error {
		s := model.DevboxSession{ID: newID("ses"), CreatedAt: r.Now, RenewedAt: r.Now, ValidUntil: r.Now.Add(sessionFor)}
		return h.Store.ClaimDevbox(r.Context(), r.Org(), id, s, r.Event("devbox.claim", tree{"id": id, "session": s.ID}))
	})
}

func (h *Handler) renewDevbox(r *request) (any, error) {
	return h.session(r, func(id string) error {
		return h.Store.RenewDevbox(r.Context(), r.Org(), id, r.Vars["devboxSessionId"], r.Now, r.Now.Add(sessionFor))
	})
}

func (h *Handler) releaseDevbox(r *request) (any, error) {
	return h.session(r, func(id string) error {
		return h.Store.ReleaseDevbox(r.Context(), r.Org(), id, r.Event("devbox.release", tree{"id": id}))
	})
}

// claimed replaces the text of an error about a devbox that another session has.
func claimed(err error) error {
	return failure.As(err, model.ErrHeld, http.StatusConflict, "devbox is claimed by another session")
}
