package login

import (
	"errors"
	"net/http"
	"net/url"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/preview/access"
)

// preview redirects a person with a session to a preview of the person's organisation, with a code. To others it shows
// how to log in.
func (h *Handler) preview(w http.ResponseWriter, r *http.Request) error {
	if l, is := access.Embedded(h.Keys, r.Form); is {
		return h.frame(w, r, l)
	}
	ask, is := access.Asked(h.Keys, r.Form, h.now())
	site := access.Site{}
	if is = is && h.Previews != nil; is {
		site, is = h.Previews(ask.Host)
	}
	if !is {
		return refusal{http.StatusNotFound, "There is no such preview, or its request has expired. Open its URL again.", errors.New("no such preview")}
	}
	v, err := h.Visitor(r)
	switch {
	case errors.Is(err, model.ErrNotFound):
		h.write(w, http.StatusOK, "start", page{Preview: site.Host, Start: StartURL(r.URL.RequestURI()), Issuer: h.Settings.Issuer})
		return nil
	case err != nil:
		return err
	case v.Org != site.Organisation:
		return refusal{http.StatusForbidden, "This preview is of another organisation than your session.", errors.New("a preview of another organisation")}
	}
	http.Redirect(w, r, ask.URL(h.Keys, site, v.Session(), h.now()), http.StatusSeeOther)
	return nil
}

// frame adds the login of an embedded preview, and redirects to the page on which the person accepts it.
func (h *Handler) frame(w http.ResponseWriter, r *http.Request, l model.DeviceLogin) error {
	_, err := h.Visitor(r)
	if errors.Is(err, model.ErrNotFound) {
		h.write(w, http.StatusOK, "start", page{Preview: l.Preview, Start: StartURL(r.URL.RequestURI()), Issuer: h.Settings.Issuer})
		return nil
	}
	if err == nil {
		err = h.Store.CreateDeviceLogin(r.Context(), l)
	}
	if err != nil && !errors.Is(err, model.ErrExists) { // the person has opened it before
		return err
	}
	http.Redirect(w, r, devicePath+"?"+url.Values{codeField: {l.UserCode}}.Encode(), http.StatusSeeOther)
	return nil
}
