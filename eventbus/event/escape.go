package event

import (
	"encoding/hex"
	"errors"
	"strings"
)

// escapeValue writes a header value as the CloudEvents bindings demand: per
// cent and hexadecimal digits for a space, a double quote, a per cent sign and
// all that is not printable ASCII.
func escapeValue(s string) string {
	return escape(s, '%', func(c byte) bool { return c > ' ' && c <= '~' && c != '"' && c != '%' })
}

// unescapeValue reads back a header value.
func unescapeValue(s string) (string, error) { return unescape(s, '%') }

const upperHex = "0123456789ABCDEF"

// escape writes a mark and two hexadecimal digits for each byte of a text that is not plain.
func escape(text string, mark byte, plain func(c byte) bool) string {
	var b strings.Builder
	b.Grow(len(text))
	for i := range len(text) {
		if c := text[i]; plain(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte(mark)
			b.WriteByte(upperHex[c>>4])
			b.WriteByte(upperHex[c&15])
		}
	}
	return b.String()
}

var errEscape = errors.New("a per cent sign is not followed by two hexadecimal digits")

// unescape reads back what escape wrote. Other writers may use lower-case digits; they are
// read as well.
func unescape(text string, mark byte) (string, error) {
	before, rest, escaped := strings.Cut(text, string(mark))
	if !escaped {
		return text, nil
	}
	var b strings.Builder
	for escaped {
		c, err := hex.DecodeString(rest[:min(2, len(rest))])
		if err != nil || len(c) == 0 {
			return "", errEscape
		}
		b.WriteString(before)
		b.WriteByte(c[0])
		before, rest, escaped = strings.Cut(rest[2:], string(mark))
	}
	b.WriteString(before)
	return b.String(), nil
}
