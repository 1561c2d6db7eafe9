package iocontext

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Bounds of a termination message. Kubernetes keeps 12 KiB for all containers of a pod, in equal
// shares, and truncates longer ones: up to six containers have room for maxEnding.
const (
	MaxTail    = 1 << 10
	maxMessage = 512
	maxEnding  = 2000
)

// Encode returns the termination message of an ending: valid JSON that Kubernetes does not
// truncate.
func (e Ending) Encode() []byte {
	e.Message, e.Tail = printable(e.Message), printable(e.Tail)
	if len(e.Message) > maxMessage {
		e.Message = e.Message[:boundary(e.Message, maxMessage)]
	}
	e.Tail = Last(e.Tail, MaxTail)
	for {
		var text strings.Builder
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(e); err != nil {
			return nil // texts and numbers can be encoded
		}
		out := strings.TrimSpace(text.String())
		if len(out) <= maxEnding || e.Tail == "" {
			return []byte(out)
		}
		// Quoting takes more bytes than the text has.
		e.Tail = Last(e.Tail, len(e.Tail)-max(1, (len(out)-maxEnding)/2))
	}
}

// DecodeEnding reads a termination message, also one that was truncated; false when it is not in
// this format.
func DecodeEnding(message string) (Ending, bool) {
	var e Ending
	if !strings.HasPrefix(message, `{"reason":`) && !strings.HasPrefix(message, `{"exitCode":`) {
		return e, false
	}
	if json.Unmarshal([]byte(message), &e) == nil {
		return e, true
	}
	// The fields are in order: only the end of the last one, or its name, is truncated.
	for cut := len(message); cut > max(0, len(message)-maxCut); cut-- {
		for _, end := range []string{`"}`, `}`} {
			if e = (Ending{}); json.Unmarshal([]byte(message[:cut]+end), &e) == nil {
				return e, true
			}
		}
	}
	return Ending{}, false
}

// maxCut is the longest incomplete part at the end of a truncated message: an escape, or a field
// name.
const maxCut = 16

// Last returns the end of a text: at most so many bytes, beginning with a whole rune, and with a
// whole line if one begins soon.
func Last(text string, most int) string {
	if len(text) <= most {
		return text
	}
	from := len(text) - most
	for from < len(text) && !utf8.RuneStart(text[from]) {
		from++
	}
	text = text[from:]
	if line := strings.IndexByte(text, '\n'); line >= 0 && line < len(text)/4 {
		return text[line+1:]
	}
	return text
}

// boundary returns the position at which to cut a text so that at most so many bytes are left.
func boundary(text string, most int) int {
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return most
}

// printable replaces bytes that are not text: invalid UTF-8, and control characters except line
// feeds and tabs.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}
