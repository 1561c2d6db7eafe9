package tokens_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"switchyard.dev/eventbus/callers/tokens"
)

func token(claims string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

func TestATokenIsLookedAtBeforeAnybodyIsAsked(t *testing.T) {
	now := time.Unix(1000, 0)
	for text, want := range map[string]bool{
		token(`{"aud":["us"],"exp":2000}`):   true,
		token(`{"aud":["them","us"]}`):       true,
		token(`{"aud":"us"}`):                true,
		token(`{"aud":["us"],"exp":900}`):    true, // clocks differ
		token(`{"aud":["us"],"exp":600}`):    false,
		token(`{"aud":["them"],"exp":2000}`): false,
		token(`{"exp":2000}`):                false,
		token(`{"aud":7}`):                   false,
		token(`{"aud":["us"]`):               false,
		token(`{"aud":["us"]}`) + ".more":    false,
		"e30.%.c2ln":                         false,
		"junk":                               false,
		"":                                   false,
		token(`{"aud":["us"]}`) + strings.Repeat("s", 20<<10):           false,
		token(`{"aud":["us"],"x":"` + strings.Repeat("y", 9999) + `"}`): true,
	} {
		if got := tokens.MadeFor(text, "us", now); got != want {
			t.Errorf("%.60s: %t", text, got)
		}
	}
}
