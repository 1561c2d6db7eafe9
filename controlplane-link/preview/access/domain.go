package access

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// CheckDomain returns an error for a preview domain that is an IP address, or shares its registrable domain with the page of
// logins: scripts and cookies of a preview have rights there. The registrable domain of an IP address, of localhost and
// of another public suffix is the name itself; that of app.localhost is app.localhost.
func CheckDomain(domain, page string) error {
	u, err := url.Parse(page)
	if err != nil {
		return fmt.Errorf("the origin of the page of logins, %q, is not valid: %w", page, err)
	}
	_, isName := netip.ParseAddr(domain)
	host := strings.ToLower(u.Hostname())
	switch {
	case isName == nil:
		return fmt.Errorf("%s cannot be a preview domain: write a DNS name such as preview.example.net", domain)
	case host != "" && (registrable(domain) == registrable(host) || strings.HasSuffix(host, "."+domain)):
		return fmt.Errorf("preview domain %s and the page of logins, %s, share the registrable domain %s: code of previews would have rights on the page; use a domain that is registered apart", domain, host, registrable(host))
	}
	return nil
}

// registrable returns the registrable domain of a host.
func registrable(host string) string {
	if _, err := netip.ParseAddr(host); err == nil {
		return host
	}
	if d, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return d
	}
	return host
}
