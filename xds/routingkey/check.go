package routingkey

import (
	"fmt"
	"strings"
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
