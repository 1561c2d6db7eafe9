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
	ask, site, err := h.asked(r)
	if err != nil {
		return err
	}
	v, err := h.Visitor(r)
	switch {
	case errors.Is(err, model.ErrNotFound):
		h.write(w, http.StatusOK, "start", page{Preview: site.Host, Start: startPath + "?" + ask.Query(), Issuer: h.Settings.Issuer})
		return nil
	case err != nil:
		return err
	case v.Org != site.Organisation:
		return refusal{http.StatusForbidden, "This preview is of another organisation than your session.", errors.New("a preview of another organisation")}
	}
	code := access.Code{Ask: ask, Session: model.DigestOf(v.secret), Until: h.now().Add(access.CodeFor)}
	http.Redirect(w, r, code.URL(h.Keys, site), http.StatusSeeOther)
	return nil
}

// asked returns what a preview asks for, and the preview.
func (h *Handler) asked(r *http.Request) (access.Ask, access.Site, error) {
	ask, err := access.ParseAsk(r.Form)
	if err == nil && h.Previews != nil {
		if site, is := h.Previews(ask.Host); is {
			return ask, site, nil
		}
	}
	return ask, access.Site{}, refusal{http.StatusNotFound, "There is no such preview. Open its URL again.", errors.Join(errors.New("no such preview"), err)}
}

// next returns the page after a login that a request starts.
func (h *Handler) next(r *http.Request) (string, error) {
	if to := pathOf(r.Form.Get(toField)); to != "" {
		return to, nil
	}
	if !r.Form.Has("host") {
		return devicePath + "?" + url.Values{codeField: {codeOf(r)}}.Encode(), nil
	}
	ask, _, err := h.asked(r)
	return access.LoginPath + "?" + ask.Query(), err
}
