package identity

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// A label that is no text, or too long, would have the tunnel proxy refuse the workstation.
func TestALabelIsText(t *testing.T) {
	for text, want := range map[string]string{"laptop": "laptop", "lap\xfftop": "laptop", "x" + strings.Repeat("é", 200): "x" + strings.Repeat("é", 127)} {
		if got := cut(text); got != want || !utf8.ValidString(got) {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}
