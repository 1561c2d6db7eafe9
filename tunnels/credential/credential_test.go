package credential_test

import (
	"strings"
	"testing"
	"time"

	"switchyard.dev/tunnels/credential"
)

func TestAPasswordIsGoodForOneUserAndSomeMinutes(t *testing.T) {
	key, now := []byte(strings.Repeat("k", 32)), time.Unix(1_800_000_000, 0)
	password, expires, err := credential.Issue(key, "ada", now)
	if err != nil || len(password) > 255 {
		t.Fatal(password, err)
	}
	later, _, err := credential.Issue(key, "ada", now.Add(time.Second))
	if err != nil || later == password {
		t.Fatal(later, err)
	}
	flipped := []byte(password)
	flipped[3]++
	for name, c := range map[string]struct {
		key            []byte
		user, password string
		at             time.Time
		want           string
	}{
		"good":            {key, "ada", password, now, ""},
		"at its end":      {key, "ada", password, expires.Add(-time.Second), ""},
		"expired":         {key, "ada", password, expires, "expired at 20"},
		"of another user": {key, "bob", password, now, "not that of the user"},
		"another key":     {[]byte(strings.Repeat("x", 32)), "ada", password, now, "another key"},
		"no key":          {nil, "ada", password, now, "none that"},
		"longer life":     {key, "ada", string(flipped), now, "not that of the user"},
		"mixed":           {key, "ada", later[:11] + password[11:], now, "not that of the user"},
		"cut":             {key, "ada", password[:20], now, "none that"},
		"none":            {key, "ada", "", now, "none that"},
		"no user":         {key, "", password, now, "none that"},
	} {
		err := credential.Check(c.key, c.user, c.password, c.at)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, not %q", name, err, c.want)
		}
		if err != nil && c.password != "" && strings.Contains(err.Error(), c.password) {
			t.Errorf("%s: the error has the password", name)
		}
	}
	for _, user := range []string{"", strings.Repeat("u", 256)} {
		if _, _, err := credential.Issue(key, user, now); err == nil {
			t.Errorf("one is issued for a user of %d bytes", len(user))
		}
	}
}

func FuzzCheck(f *testing.F) {
	key := []byte(strings.Repeat("k", 32))
	good, _, _ := credential.Issue(key, "ada", time.Unix(1_800_000_000, 0))
	f.Add("ada", good[:30])
	f.Fuzz(func(t *testing.T, user, password string) {
		if (user != "ada" || password != good) && credential.Check(key, user, password, time.Unix(1_800_000_000, 0)) == nil {
			t.Fatalf("%q may come in with %q", user, password)
		}
	})
}
