package spec

import (
	"strings"
	"testing"
)

func TestVersionsHaveABound(t *testing.T) {
	for n, fits := range map[int]bool{maxVersion: true, maxVersion + 1: false, 1 << 20: false} {
		_, err := ParsePluginName("p@1.0.0-" + strings.Repeat("a", n-len("1.0.0-")))
		if (err == nil) != fits {
			t.Errorf("a version of %d characters: %.200v", n, err)
		}
		if err != nil && len(err.Error()) > 1000 {
			t.Errorf("the error has %d bytes", len(err.Error()))
		}
	}
}
