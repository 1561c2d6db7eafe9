// Package label has the hosts of previews: the first label is the name of an endpoint, two hyphens, and the name of
// its owner, a sandbox or a route group. It is pure.
package label

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

const (
	separator = "--"
	// maxLabel is the maximum length of a label of DNS, maxHost that of a host, and maxDomain that of a domain below
	// which each label makes a host; in bytes.
	maxLabel, maxHost = 63, 253
	maxDomain         = maxHost - maxLabel - 1
)

// Label names the endpoint of a preview. Upper and lower case are the same in a host.
type Label struct{ Endpoint, Owner string }

// part is a name in a label, or a label of a domain.
var part = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?$`)

// Parse returns the label of a host below a domain, in lower case. The host is that of a request: any case, with or
// without a port and a final dot. The domain is as Domain returns it.
func Parse(host, domain string) (Label, error) {
	name, port, has := strings.Cut(host, ":")
	if len(host) > maxHost+len(".:65535") || has && (port == "" || strings.Trim(port, "0123456789") != "") {
		return Label{}, errors.New("the host is not valid")
	}
	first, below := strings.CutSuffix(lower(strings.TrimSuffix(name, ".")), "."+domain)
	endpoint, owner, two := strings.Cut(first, separator)
	if domain == "" || !below || !two || Check(endpoint, owner) != nil {
		return Label{}, fmt.Errorf("the host is no preview: it has to be ENDPOINT--SANDBOX.%s", domain)
	}
	return Label{Endpoint: endpoint, Owner: owner}, nil
}

// lower returns a text in lower case; other characters than those of ASCII stay, so that none becomes one of them.
func lower(text string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, text)
}

// Host returns the host of a label that Check accepts, below a domain.
func (l Label) Host(domain string) string { return lower(l.Endpoint+separator+l.Owner) + "." + domain }

// Check returns an error if an endpoint of a sandbox or a route group makes no label. The text continues a sentence
// that begins with the field of the endpoint's name, and has the remedy.
func Check(endpoint, owner string) error {
	const rule = "a name in the host of a preview has letters, digits and single hyphens between them"
	valid := func(name string) bool { return part.MatchString(name) && !strings.Contains(name, separator) }
	switch n := len(endpoint) + len(separator) + len(owner); {
	case !valid(endpoint):
		return fmt.Errorf("is %q; %s", endpoint, rule)
	case !valid(owner):
		return fmt.Errorf("is that of an endpoint of %q; %s: give the owner of the endpoint another name", owner, rule)
	case strings.EqualFold(endpoint, "xn"):
		return fmt.Errorf("is %q; hosts that begin with xn-- are those of international names: use another name", endpoint)
	case n > maxLabel:
		return fmt.Errorf("is %q; %s in the host of a preview has %d characters, the limit is %d: use a shorter name", endpoint, endpoint+separator+owner, n, maxLabel)
	}
	return nil
}

// Domain returns a domain for previews in the form that Parse takes: in lower case, without a final dot.
func Domain(text string) (string, error) {
	domain := lower(strings.TrimSuffix(text, "."))
	labels := strings.Split(domain, ".")
	for _, l := range labels {
		if len(l) > maxLabel || !part.MatchString(l) {
			return "", fmt.Errorf("%q is no domain: write one such as preview.example.net", text)
		}
	}
	if len(labels) < 2 || len(domain) > maxDomain {
		return "", fmt.Errorf("%q cannot be a domain for previews: it needs two labels or more, and at most %d characters", text, maxDomain)
	}
	return domain, nil
}
