package login

import (
	"bytes"
	"cmp"
	_ "embed" // the pages
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/eventbus/callers"
	shared "switchyard.dev/routeserver/page"
)

//go:embed pages.html
var templates string

var pages = template.Must(shared.Templates().Parse(templates))

// page is what the pages show.
type page struct {
	Title, Text, Issuer string
	// Visitor is the person with the session; nil: none.
	Visitor *Visitor
	// Start is the link to the issuer, and Preview the host of the preview for which a person logs in; empty: for a device.
	Start, Preview string
	// Code is that of a device, and Device its login, of which Age and Left have passed and remain. It was begun at Address.
	Code, Address string
	Device        model.DeviceLogin
	Age, Left     time.Duration
	// Claims are those that a mapping can name.
	Claims claims
}

// Token is that of the forms.
func (p page) Token() string { return p.Visitor.Token() }

// shown returns the claims of a person that a mapping can name.
func (h *Handler) shown(c claims) claims {
	out := claims{"sub": c["sub"], "email": c["email"], "groups": c["groups"]}
	for _, m := range h.Settings.Mappings {
		out[m.Claim] = c[m.Claim]
	}
	return out
}

// write writes a page.
func (h *Handler) write(w http.ResponseWriter, status int, name string, p page) {
	var body bytes.Buffer
	if err := pages.ExecuteTemplate(&body, name, p); err != nil {
		panic(err) // the templates are tested
	}
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // the client has closed its connection
}

// codeField is the parameter with the code of a device.
const codeField = "user_code"

// codeOf returns the code of a device in a request, which a person can type in lower case; "": there is none.
func codeOf(r *http.Request) string {
	code := strings.ToUpper(strings.TrimSpace(r.Form.Get(codeField)))
	if len(code) > 16 {
		return ""
	}
	return code
}

// showDevice shows the login of a device to a person with a session; to others, how to log in.
func (h *Handler) showDevice(w http.ResponseWriter, r *http.Request) error {
	v, err := h.Visitor(r)
	switch {
	case errors.Is(err, model.ErrNotFound):
		h.write(w, http.StatusOK, "start", page{Code: codeOf(r), Start: Prefix + "start?" + url.Values{codeField: {codeOf(r)}}.Encode(), Issuer: h.Settings.Issuer})
		return nil
	case err != nil:
		return err
	case codeOf(r) == "":
		h.write(w, http.StatusOK, "code", page{Visitor: &v})
		return nil
	}
	l, err := h.device(r, v)
	if err == nil {
		p := page{Visitor: &v, Device: l, Age: h.Now().Sub(l.CreatedAt).Truncate(time.Second), Left: l.ExpiresAt.Sub(h.Now()).Truncate(time.Second)}
		p.Address = cmp.Or(l.Address, "an address that is not known: the connection came through a proxy")
		if l.Address != "" && l.Address == callers.Behind(r.RemoteAddr, h.Forwards).Address() {
			p.Address += ", which is also that of this browser"
		}
		h.write(w, http.StatusOK, "device", p)
	}
	return err
}

// device returns the pending login with the code of a request. A person can look up a few codes each minute.
func (h *Handler) device(r *http.Request, v Visitor) (l model.DeviceLogin, err error) {
	leave, err := h.lookUp.Enter(callers.Caller{Kind: callers.Pod, Name: v.Org + "/" + v.ID})
	if err != nil {
		return l, refusal{http.StatusTooManyRequests, "You have tried too many codes. Try again in ten seconds.", err}
	}
	defer leave()
	l, err = h.Store.DeviceLoginByCode(r.Context(), codeOf(r))
	if errors.Is(err, model.ErrNotFound) || errors.Is(err, model.ErrText) || err == nil && (!h.Now().Before(l.ExpiresAt) || l.UserID != "" || l.Denied) {
		err = refusal{http.StatusNotFound, "No login waits with this code: it has another code, has expired, or was accepted or denied. Start it again on the device.", errors.New("no such code")}
	}
	return l, err
}

// decideDevice accepts or denies the login of a device.
func (h *Handler) decideDevice(w http.ResponseWriter, r *http.Request) error {
	v, err := h.Sender(r)
	if err != nil {
		return err
	}
	l, err := h.device(r, v)
	if err != nil {
		return err
	}
	what, user, done := "login.deny", "", page{Title: "Denied", Text: "The device is not logged in. If you did not start this login, report the link or the message that sent you here.", Visitor: &v}
	if r.PostForm.Get("decision") == "accept" {
		what, user, done = "login.accept", v.ID, page{Title: "Accepted", Text: "The device is logged in. You can close this page.", Visitor: &v}
	}
	err = h.Store.DecideDeviceLogin(r.Context(), l.Device, user, v.Session(), user == "", event(v.User, what, h.now(), map[string]any{"code": l.UserCode, "address": l.Address, "preview": l.Preview}))
	if errors.Is(err, model.ErrNotFound) {
		return refusal{http.StatusConflict, "This login was accepted or denied in the meantime.", err}
	}
	if err == nil {
		h.write(w, http.StatusOK, "message", done)
	}
	return err
}
