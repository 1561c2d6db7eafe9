package access

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/routeserver/page"
)

// authority returns the host of a request with its port, as in an origin.
func authority(r *http.Request) string { return strings.TrimSuffix(strings.ToLower(r.Host), ":443") }

func origin(r *http.Request) string { return "https://" + authority(r) }

// isUpgrade reports whether a request opens a WebSocket, or another protocol.
func isUpgrade(r *http.Request) bool {
	return r.Method == http.MethodConnect || len(r.Header["Upgrade"]) > 0
}

// crossSite reports whether a page outside of the preview domain has sent a write: cookies are sent with forms of the same
// site, which can have previews of other organisations, and of all sites if previews are embedded. Writes of other
// previews of the domain have their Origin, which is the application's to check.
func crossSite(r *http.Request, s Site) bool {
	if slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, r.Method) {
		return false
	}
	from := r.Header.Get("Sec-Fetch-Site")
	return from == "cross-site" || (from == "same-site" || from == "" && r.Header.Get("Origin") != "") && !ofPreview(r, s)
}

// ofPreview reports whether the Origin of a request is a preview of the same domain.
func ofPreview(r *http.Request, s Site) bool {
	from, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && from.Scheme == "https" && strings.HasSuffix(from.Hostname(), "."+s.Domain)
}

// isNavigation reports whether a browser loads a page; its window can be a frame.
func isNavigation(r *http.Request) bool {
	mode := r.Header.Get("Sec-Fetch-Mode")
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && !isUpgrade(r) && page.AcceptsHTML(r) && (mode == "" || mode == "navigate")
}

// isFramed reports whether a page loads in a frame of another one.
func isFramed(r *http.Request) bool {
	return slices.Contains([]string{"iframe", "frame", "embed", "object", "fencedframe"}, r.Header.Get("Sec-Fetch-Dest"))
}

// isPreflight reports whether a browser asks whether a script of another origin can send a request.
func isPreflight(r *http.Request) bool {
	h := r.Header
	return r.Method == http.MethodOptions && h.Get("Origin") != "" && h.Get("Access-Control-Request-Method") != "" && r.ContentLength == 0 && len(r.TransferEncoding) == 0 && !isUpgrade(r)
}

// preflight lets a preflight pass, with the headers of a preflight alone, or answers it.
func (a *Access) preflight(r *http.Request, s Site) (Visitor, http.Handler) {
	leave, err := a.preflights.Enter(callers.Behind(r.RemoteAddr, a.Forwards))
	if err != nil {
		return Visitor{Guesses: true}, reply(http.StatusTooManyRequests, "Too many requests", "Too many preflights come from your address. Try again in ten seconds.")
	}
	context.AfterFunc(r.Context(), leave) // the server ends it after the answer
	if a.AnswersPreflights {
		return Visitor{Preflight: true}, allowed(s)
	}
	for name := range r.Header {
		if name != "Origin" && !strings.HasPrefix(name, "Access-Control-Request-") {
			delete(r.Header, name)
		}
	}
	return Visitor{Preflight: true, WhileValid: func(ctx context.Context) { <-ctx.Done() }}, nil
}

// allowed answers a preflight: other previews of the domain can then send any request.
func allowed(s Site) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Vary", "Origin, Access-Control-Request-Method, Access-Control-Request-Headers")
		if ofPreview(r, s) {
			h.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
			h.Set("Access-Control-Allow-Credentials", "true")
			h.Set("Access-Control-Allow-Methods", r.Header.Get("Access-Control-Request-Method"))
			h.Set("Access-Control-Max-Age", "600")
			h["Access-Control-Allow-Headers"] = r.Header["Access-Control-Request-Headers"]
		}
		w.WriteHeader(http.StatusNoContent)
	})
}
