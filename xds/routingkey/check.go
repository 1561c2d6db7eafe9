package routingkey

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"switchyard.dev/eventbus/lists"
)

// Form is a kind of header that can carry a routing key.
type Form string

// The forms, first in precedence first.
const (
	FormBaggage    Form = Baggage
	FormTracestate Form = Tracestate
	FormCustom     Form = "custom headers"
)

// Forms returns all forms, first in precedence first.
func Forms() []Form { return []Form{FormBaggage, FormTracestate, FormCustom} }

// ends returns the characters at which a value ends in the form.
func (f Form) ends() string {
	if f == FormBaggage {
		return separator + property
	}
	return separator
}

// Header returns the value of a header of this form that holds the key and nothing else.
func (f Form) Header(key string) string {
	if f == FormCustom {
		return key
	}
	return Member + "=" + key
}

// Defect is the reason why a form cannot carry a key.
type Defect struct {
	Form Form
	// Why goes on from the key: `contains ",", which ends a value`.
	Why string
}

// Check returns a Defect for each form that cannot carry the key, in the order of Forms.
// A form carries a key when Of reads the key, byte for byte, from a request with the
// form's Header, and HTTP allows that header.
func Check(key string) []Defect {
	var out []Defect
	for _, f := range Forms() {
		if why := f.defect(key); why != "" {
			out = append(out, Defect{f, why})
		}
	}
	return out
}

// defect returns why the form cannot carry the key, or "". What holds in every form comes
// first, so that forms agree on the reason where they can.
func (f Form) defect(key string) string {
	switch {
	case key == "":
		return "is empty"
	case len(key) >= MaxLength:
		return fmt.Sprintf("has %d bytes, and readers stop at %d", len(key), MaxLength-1)
	}
	if i := strings.IndexFunc(key, isControl); i >= 0 {
		return fmt.Sprintf("contains the control character %q, which HTTP allows in no header", key[i:i+1])
	}
	if trimmed := trim(key); trimmed != key {
		end, white := "begins", key[:1]
		if strings.HasPrefix(key, trimmed) && trimmed != "" {
			end, white = "ends", key[len(key)-1:]
		}
		return fmt.Sprintf("%s with %q, which is no part of a value", end, white)
	}
	for _, end := range f.ends() {
		if strings.ContainsRune(key, end) {
			return fmt.Sprintf("contains %q, which ends a value", string(end))
		}
	}
	return ""
}

// isControl reports whether HTTP allows the character in no header: all control
// characters of ASCII but the tab.
func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// A token of RFC 9110, as header names are.
var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// notCustom are headers that cannot carry a key as their whole value: they have a format of
// their own, end at the next hop, or occur in requests without a key, which a sandbox could
// then capture by choosing a common value as its key.
var notCustom = []string{
	Baggage, Tracestate, "host", "connection", "transfer-encoding",
	"te", "upgrade", "keep-alive", "trailer",
	"cookie", // HTTP/2 sends it in pieces, joined otherwise
	"authorization", "b3", "cache-control", "dnt", "expect", "forwarded", "from", "origin",
	"pragma", "priority", "range", "referer", "traceparent", "upgrade-insecure-requests",
	"user-agent", "via", "x-real-ip", "x-request-id", "x-requested-with",
}

// notCustomAs are how names of headers begin that clients and proxies send of their own
// accord.
var notCustomAs = []string{"accept", "content-", "grpc-", "if-", "proxy-", "sec-", "x-b3-", "x-envoy-", "x-forwarded-"}

// ReservedPrefixes returns how the names begin, in lower case, of the headers that
// CheckHeader refuses beside those of Reserved.
func ReservedPrefixes() []string { return slices.Clone(notCustomAs) }

// Reserved returns the names, in lower case, of the headers that CheckHeader refuses
// although HTTP allows them.
func Reserved() []string { return slices.Clone(notCustom) }

// CheckHeader returns an error with the reason if the header of this name cannot carry a
// routing key as its whole value.
func CheckHeader(name string) error {
	switch {
	case !headerName.MatchString(name):
		return fmt.Errorf("%q is not the name of a request header", name)
	case slices.Contains(notCustom, strings.ToLower(name)), slices.ContainsFunc(notCustomAs, begins(name)):
		return fmt.Errorf("header %q cannot carry a routing key: it has a meaning for clients, proxies or servers; choose a plain request header", name)
	}
	return nil
}

// usable returns the custom headers that can carry a key, in lower case.
func usable(custom []string) []string {
	return lists.Map(lists.Filter(custom, func(name string) bool { return CheckHeader(name) == nil }), strings.ToLower)
}

// begins reports of the beginning of a name, in lower case, whether a name has it.
func begins(name string) func(beginning string) bool {
	return func(beginning string) bool { return strings.HasPrefix(strings.ToLower(name), beginning) }
}
