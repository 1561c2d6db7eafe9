package v1

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Longest names that Kubernetes takes.
const (
	// MaxServiceName is the limit of a Service's name, of a label's value and of
	// one part of a host name.
	MaxServiceName = 63
	// MaxObjectName is the limit of most other names.
	MaxObjectName = 253
)

// minObjectName is the shortest name that ObjectName makes: one letter, a dash
// and the hash.
const minObjectName = 2 + hashLength

// hashLength is the number of hexadecimal digits at the end of a name.
const hashLength = 8

// ObjectName makes the name of an object from parts, for people to recognise:
// the parts joined with "-", in lower case, other characters than letters and
// digits replaced by "-", cut where limit demands, and at the end eight
// hexadecimal digits of a hash of the parts as they were given. So different
// parts give different names even where they look the same after cutting, and
// the same parts always give the same name.
//
// The name has at most limit characters (limits below 10 count as 10, above 253
// as 253) and is a DNS label in form: it begins with a letter and ends with a
// letter or digit. With limit up to MaxServiceName it is a legal name for every
// kind. Nothing may read the parts out of a name again.
func ObjectName(limit int, parts ...string) string {
	limit = max(minObjectName, min(limit, MaxObjectName))
	prefix := cut(label(parts), limit-hashLength-1)
	return prefix + "-" + hash(parts)
}

// LabelValue makes any text a legal value of a label. A text that is legal
// stays as it is; any other is cleaned and cut, with a hash of the text at the
// end, so that different texts have different values.
func LabelValue(text string) string {
	if len(validation.IsValidLabelValue(text)) == 0 {
		return text
	}
	return ObjectName(MaxServiceName, text)
}

// label joins the parts into a DNS label of any length. It is never empty: a label that does
// not begin with a letter gets one.
func label(parts []string) string {
	var b strings.Builder
	for i, part := range parts {
		if i > 0 {
			b.WriteByte('-')
		}
		// A part that is far too long is cut before it is cleaned, which keeps
		// the work small for any input.
		clean(&b, part[:min(len(part), MaxObjectName)])
	}
	name := strings.Trim(b.String(), "-")
	if name == "" || name[0] < 'a' {
		return "x" + name
	}
	return name
}

// clean writes the text to b in lower case; of the rest each run becomes one
// dash.
func clean(b *strings.Builder, text string) {
	dashed := false
	for i := range len(text) {
		c := text[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if isAlphanumeric(c) {
			b.WriteByte(c)
			dashed = false
		} else if !dashed {
			b.WriteByte('-')
			dashed = true
		}
	}
}

// cut shortens a label to a length at which it does not end with a dash.
func cut(name string, length int) string {
	return strings.TrimRight(name[:min(len(name), length)], "-")
}

// hash returns hexadecimal digits for the parts. The length of every part goes
// before it, so that ("a", "b") and ("a-b") differ.
func hash(parts []string) string {
	h := sha256.New()
	for _, part := range parts {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	return hex.EncodeToString(h.Sum(nil))[:hashLength]
}

// isAlphanumeric reports whether the byte is a lower-case letter or a digit.
func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9'
}
