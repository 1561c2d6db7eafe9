package rest

import (
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/rest/decode"
	"switchyard.dev/eventbus/callers"
)

// Limits of one user: requests at once, requests a second, and requests in a row.
const (
	atOnce    = 64
	perSecond = 50
	inARow    = 200
)

// Config configures a Handler.
type Config struct {
	Stores Stores
	// LoginURL is the page on which a person accepts the login of a device.
	LoginURL string
	// Now is the clock.
	Now    func() time.Time
	Logger *slog.Logger
}

// Handler serves the API. Make one with New.
type Handler struct {
	Config
	users *callers.Pool
	used  recent
}

// New returns a Handler.
func New(c Config) *Handler {
	return &Handler{Config: c, users: callers.NewPool("requests", callers.Bounds{Each: atOnce, Strangers: callers.AnyNumber, Pods: callers.AnyNumber, Rate: perSecond, Burst: inARow})}
}

// request is a request of a caller to an operation.
type request struct {
	*http.Request
	id  string
	now time.Time
	// vars are the variables of the path.
	vars   map[string]string
	caller model.Caller
}

// org is the organisation in the path.
func (r *request) org() string { return r.vars["orgName"] }

// created is an answer with status 201.
type created struct{ body any }

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r := &request{Request: req, id: "req-" + rand.Text(), now: h.Now().UTC().Truncate(time.Microsecond)}
	status, body := http.StatusOK, any(nil)
	defer func() {
		if p := recover(); p != nil {
			h.Logger.ErrorContext(req.Context(), "A request has failed in an unexpected way.", "request", r.id, "method", req.Method, "panic", p)
			status, body = http.StatusInternalServerError, errorBody(r, http.StatusInternalServerError, "internal error")
		}
		write(w, status, body)
	}()
	body, err := h.answer(w, r)
	switch c, ok := body.(created); {
	case err != nil:
		var text string
		if status, text = statusOf(err); status >= http.StatusInternalServerError && status != http.StatusNotImplemented {
			h.Logger.ErrorContext(req.Context(), "A request has failed.", "request", r.id, "method", req.Method, "error", err)
		}
		body = errorBody(r, status, text)
	case ok:
		status, body = http.StatusCreated, c.body
	}
}

// answer finds the operation, authenticates and authorises the caller, and calls the operation.
func (h *Handler) answer(w http.ResponseWriter, r *request) (any, error) {
	op, err := route(w, r)
	if err != nil {
		return nil, err
	}
	if op.access != open {
		if r.caller, err = h.authenticate(r); err != nil {
			return nil, err
		}
	}
	leave, err := h.users.Enter(h.pooled(r, op))
	if err != nil {
		return nil, fail(http.StatusTooManyRequests, "%v", err)
	}
	defer leave()
	if err := op.access.allows(r); err != nil {
		return nil, err
	}
	if op.serve == nil {
		return nil, fail(http.StatusNotImplemented, "%s is not served by this control plane", op.name)
	}
	if err := decode.Query(r.URL.Query()); err != nil {
		return nil, err
	}
	return op.serve(h, r)
}

// pooled returns the caller as the limits know it: an address for a request without a credential.
func (h *Handler) pooled(r *request, op *operation) callers.Caller {
	if op.access == open {
		return callers.Caller{Kind: callers.Stranger, Name: addressOf(r.Request)}
	}
	return callers.Caller{Kind: callers.Pod, Name: r.caller.Org + "/" + string(r.caller.Principal.Kind) + "/" + r.caller.Principal.ID}
}

// write writes an answer; nil is an empty object.
func write(w http.ResponseWriter, status int, body any) {
	if body == nil {
		body = struct{}{}
	}
	text, err := json.Marshal(body)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"code":500,"error":"internal error","requestId":""}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // The client has closed its connection.
}

// event returns the entry of a write in the audit trail. data has no secret.
func (r *request) event(what string, data map[string]any) model.Event {
	text, err := json.Marshal(data)
	if err != nil {
		text = nil
	}
	return model.Event{Org: r.caller.Org, ID: rand.Text(), Type: what, At: r.now, By: r.caller.Principal, Method: r.caller.Method, Masked: r.caller.Masked, Data: text}
}
