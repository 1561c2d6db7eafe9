package login

import (
	"errors"
	"net/http"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/preview/access"
)

// preview redirects a person with a session to a preview of the person's organisation, with a code. To others it shows
// how to log in.
func (h *Handler) preview(w http.ResponseWriter, r *http.Request) error {
	ask, err := access.ParseAsk(r.Form)
	site, is := access.Site{}, false
	if err == nil && h.Previews != nil {
		site, is = h.Previews(ask.Host)
	}
	if !is {
		return refusal{http.StatusNotFound, "There is no such preview. Open its URL again.", errors.Join(errors.New("no such preview"), err)}
	}
	v, err := h.Visitor(r)
	switch {
	case errors.Is(err, model.ErrNotFound):
		h.write(w, http.StatusOK, "start", page{Preview: site.Host, Start: StartURL(access.LoginPath + "?" + ask.Query()), Issuer: h.Settings.Issuer})
		return nil
	case err != nil:
		return err
	case v.Org != site.Organisation:
		return refusal{http.StatusForbidden, "This preview is of another organisation than your session.", errors.New("a preview of another organisation")}
	}
	code := access.Code{Ask: ask, Session: v.Session(), Until: h.now().Add(access.CodeFor)}
	http.Redirect(w, r, code.URL(h.Keys, site), http.StatusSeeOther)
	return nil
}
