// Package headers changes the headers of requests and answers that pass a preview. It is pure.
//
//   - Request removes each form of a routing key that a request has, and sets the endpoint's key in all published
//     forms. The other members of baggage and tracestate stay.
//   - Applications behind WSGI or CGI take an underscore in the name of a header for a hyphen: so does Request.
//   - It replaces the headers X-Forwarded-* and Forwarded. Credentials are removed before (controlplane-link/preview/access).
//   - Answer drops cookies that other hosts would receive, and those with a name of the control plane's cookies. It
//     drops Network Error Logging too: browsers would report the URLs of all requests, also of logins with their codes.
package headers

import (
	"net/textproto"
	"slices"
	"strings"

	"switchyard.dev/xds/routingkey"
)

// CookiePrefix begins the names of all cookies that the control plane sets at the hosts of previews.
const CookiePrefix = "__Host-switchyard-"

// Preview is what the headers of a request are changed for.
type Preview struct {
	// Key is the endpoint's routing key. Custom are the further headers that carry a key in its cluster.
	Key    string
	Custom []string
	// Host is that of the preview as the client has sent it, and Client is the address of the client.
	Host, Client string
}

// Request changes the headers of a request.
func (p Preview) Request(h textproto.MIMEHeader) {
	keys := slices.Concat(routingkey.Copies(), p.Custom)
	for name := range h {
		like := textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(name, "_", "-"))
		ours := func(one string) bool { return strings.EqualFold(one, like) }
		if strings.HasPrefix(like, "X-Forwarded-") || like == "Forwarded" || like != name && (like == "Signadot-Api-Key" || slices.ContainsFunc(keys, ours)) {
			delete(h, name)
		}
	}
	p.Route(h)
	h.Set("X-Forwarded-For", p.Client)
	h.Set("X-Forwarded-Host", p.Host)
	h.Set("X-Forwarded-Proto", "https")
}

// Route replaces the routing key of a request, and changes no other header.
func (p Preview) Route(h textproto.MIMEHeader) { routingkey.Set(h, p.Key, p.Custom) }

// Answer changes the headers of the answer to a request to a host, which can have a port.
func Answer(h textproto.MIMEHeader, host string) {
	host, _, _ = strings.Cut(host, ":")
	kept := slices.DeleteFunc(h["Set-Cookie"], func(line string) bool {
		return strings.HasPrefix(strings.TrimSpace(line), CookiePrefix) || wider(line, host)
	})
	if h["Set-Cookie"] = kept; len(kept) == 0 {
		delete(h, "Set-Cookie")
	}
	h.Del("NEL")
	h.Del("Report-To")
}

// wider reports whether a cookie is for another domain than a host.
func wider(cookie, host string) bool {
	attributes := strings.Split(cookie, ";")[1:]
	return slices.ContainsFunc(attributes, func(attribute string) bool {
		name, value, _ := strings.Cut(attribute, "=")
		value = strings.TrimPrefix(strings.TrimSpace(value), ".")
		return strings.EqualFold(strings.TrimSpace(name), "Domain") && value != "" && !strings.EqualFold(value, host)
	})
}
