package event_test

import (
	"regexp"
	"testing"

	"pgregory.net/rapid"

	"switchyard.dev/eventbus/event"
)

func TestKeysAsSubjects(t *testing.T) {
	for _, c := range []struct {
		key     event.Key
		subject string
	}{
		{event.Log, "log"},
		{event.RoutingKey("alice"), "key.alice"},
		{event.RoutingKey("a.b*c>d e"), "key.a=2Eb=2Ac=3Ed=20e"},
		{event.RoutingKey("a/b=é"), "key.a=2Fb=3D=C3=A9"},
		{event.RoutingKey(""), "key.="},
		{event.RoutingKey("/"), "key.=2F"},
		{event.Workload("ForkedWorkload", "shop", "c.v1"), "workload.ForkedWorkload.shop.c=2Ev1"},
		{event.Workload("", "", ""), "workload.=.=.="},
	} {
		if got := c.key.Subject(); got != c.subject {
			t.Errorf("subject of %q is %q, want %q", c.key, got, c.subject)
		}
		back, err := event.KeyOf(c.subject)
		if err != nil || back != c.key {
			t.Errorf("key of %q is %q (%v), want %q", c.subject, back, err, c.key)
		}
	}
}

func TestSubjectsThatNoKeyHasAreRefused(t *testing.T) {
	for _, subject := range []string{
		"", "key.", ".key", "key..a", "key.a.b", "key.a=2eb", "key.a=2", "key.a=GG", "key.=61", "key.a b", "key.a*", "key.>", "key.==",
	} {
		if key, err := event.KeyOf(subject); err == nil {
			t.Errorf("%q is read as %q", subject, key)
		}
	}
}

var validSubject = regexp.MustCompile(`^[A-Za-z0-9_=-]+(\.[A-Za-z0-9_=-]+)*$`)

func checkKey(t interface{ Errorf(string, ...any) }, key event.Key) {
	subject := key.Subject()
	if !validSubject.MatchString(subject) {
		t.Errorf("subject of %q is %q, not a valid one", key, subject)
	}
	// Reading back gives the key again, so no two keys share a subject.
	if back, err := event.KeyOf(subject); err != nil || back != key {
		t.Errorf("%q is written %q and read back as %q: %v", key, subject, back, err)
	}
}

func TestAnyKeyGoesThroughASubjectUnchanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.StringMatching(`[a/.=*> ]{0,5}`)
		checkKey(t, event.RoutingKey(part.Draw(t, "routing key")))
		checkKey(t, event.Workload("ForkedWorkload", part.Draw(t, "namespace"), part.Draw(t, "name")))
		checkKey(t, event.Key(rapid.String().Draw(t, "key")))
	})
}

func FuzzKeySubject(f *testing.F) {
	f.Add("key/alice")
	f.Add("key")
	f.Add("=/.//")
	f.Fuzz(func(t *testing.T, s string) {
		checkKey(t, event.Key(s))
		if key, err := event.KeyOf(s); err == nil && key.Subject() != s {
			t.Errorf("%q is read as %q, which is written %q", s, key, key.Subject())
		}
	})
}
