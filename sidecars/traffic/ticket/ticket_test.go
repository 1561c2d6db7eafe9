package ticket_test

import (
	"crypto/ed25519"
	"slices"
	"strings"
	"testing"
	"time"

	jobticket "switchyard.dev/workflows/jobexec/ticket"

	"switchyard.dev/sidecars/traffic/ticket"
)

var (
	now    = time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)
	claims = ticket.Claims{Namespace: "shop", Capture: "c-1", User: "ada"}
)

func key(t *testing.T, seed byte) (ed25519.PrivateKey, ticket.Keys) {
	t.Helper()
	private := ed25519.NewKeyFromSeed(slices.Repeat([]byte{seed}, ed25519.SeedSize))
	keys, err := ticket.KeysOf(private.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := ticket.ParseKeys([]byte(keys.String()))
	if err != nil {
		t.Fatal(err)
	}
	return private, *parsed
}

func TestATicketIsForOneCapture(t *testing.T) {
	private, keys := key(t, 1)
	text, expires, err := ticket.Issue(private, claims, now)
	if err != nil || !expires.Equal(now.Add(ticket.Lifetime)) {
		t.Fatal(expires, err)
	}
	got, err := keys.Check(text, now.Add(ticket.Lifetime-time.Second))
	if err != nil || got != claims {
		t.Fatal(got, err)
	}
	for _, c := range []struct {
		namespace, capture string
		permitted          bool
	}{{"shop", "c-1", true}, {"shop", "c-2", false}, {"other", "c-1", false}, {"", "", false}, {"shop", "", false}} {
		if err := got.Permits(c.namespace, c.capture); (err == nil) != c.permitted {
			t.Errorf("%s/%s: %v", c.namespace, c.capture, err)
		}
	}
	if _, err := keys.Check(text, now.Add(ticket.Lifetime)); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("an expired ticket: %v", err)
	}
	if _, _, err := ticket.Issue(private, ticket.Claims{Namespace: "shop", User: "ada"}, now); err == nil {
		t.Error("a ticket without a capture was issued")
	}
}

// The key signs tickets of jobs too.
func TestOtherTokensOfTheKeyAndOtherKeysAreRefused(t *testing.T) {
	private, keys := key(t, 1)
	job, _, err := jobticket.Issue(private, jobticket.Claims{PodUID: "traffic-manager", JobUID: "j", User: "ada", Verbs: []jobticket.Verb{jobticket.Read}}, now)
	if err != nil {
		t.Fatal(err)
	}
	other, _ := key(t, 2)
	foreign, _, err := ticket.Issue(other, claims, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{job, foreign, "", "a.b.c"} {
		if got, err := keys.Check(text, now); err == nil {
			t.Errorf("%.40q permits %+v", text, got)
		}
	}
	jobKeys, err := jobticket.KeysOf(private.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	own, _, err := ticket.Issue(private, claims, now)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := jobKeys.Check(own, "traffic-manager", now); err == nil {
		t.Errorf("a ticket of a capture permits %+v of jobs", got)
	}
}
