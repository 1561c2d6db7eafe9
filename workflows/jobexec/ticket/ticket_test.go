package ticket_test

import (
	"crypto/ed25519"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"switchyard.dev/eventbus/jwks"
	"switchyard.dev/workflows/jobexec/ticket"
)

var (
	now  = time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)
	read = ticket.Claims{PodUID: "pod-1", JobUID: "job-1", User: "ada", Verbs: []ticket.Verb{ticket.Read}}
)

// key returns a private key, and the set with its public half, as a runner receives it.
func key(t *testing.T, seed byte) (ed25519.PrivateKey, ticket.Keys) {
	t.Helper()
	private := ed25519.NewKeyFromSeed(slices.Repeat([]byte{seed}, ed25519.SeedSize))
	keys, err := ticket.KeysOf(private.Public().(ed25519.PublicKey))
	if err == nil {
		keys, err = ticket.ParseKeys([]byte(keys.String()))
	}
	if err != nil {
		t.Fatal(err)
	}
	return private, keys
}

func issue(t *testing.T, k ed25519.PrivateKey, c ticket.Claims) string {
	t.Helper()
	text, expires, err := ticket.Issue(k, c, now)
	if err != nil || !expires.Equal(now.Add(ticket.Lifetime)) {
		t.Fatalf("expires at %s: %v", expires, err)
	}
	return text
}

func TestATicketIsForItsPodItsJobAndItsVerbs(t *testing.T) {
	private, keys := key(t, 1)
	run, all := read, read
	run.Verbs, all.Verbs, all.JobUID = []ticket.Verb{ticket.Run}, []ticket.Verb{ticket.Run}, ticket.AnyJob
	collect := read
	collect.Verbs = []ticket.Verb{ticket.Read, ticket.Collect}
	for _, c := range []struct {
		claims ticket.Claims
		job    string
		verb   ticket.Verb
		want   string
	}{
		{read, "job-1", ticket.Read, ""}, {read, "job-1", ticket.Run, `permits ["read"]`}, {read, "job-1", ticket.Collect, `permits ["read"]`},
		{read, "job-2", ticket.Read, `for job "job-1"`}, {read, ticket.AnyJob, ticket.Read, `for job "job-1"`}, {read, "", ticket.Read, `for job "job-1"`},
		{run, "job-1", ticket.Read, ""}, {run, "job-1", ticket.Collect, ""}, {run, "job-2", ticket.Run, `for job "job-1"`},
		{collect, "job-1", ticket.Collect, ""}, {collect, "job-1", ticket.Run, "permits"},
		{all, "job-7", ticket.Run, ""}, {all, ticket.AnyJob, ticket.Run, ""}, {all, "", ticket.Run, "for job"},
	} {
		got, err := keys.Check(issue(t, private, c.claims), "pod-1", now.Add(ticket.Lifetime-time.Second))
		if err != nil || got.User != "ada" {
			t.Fatalf("%+v: %v", got, err)
		}
		if err := got.Permits(c.job, c.verb); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v for %s of %q: %v", c.claims, c.verb, c.job, err)
		}
	}
}

func TestForgedTicketsAreRefused(t *testing.T) {
	private, keys := key(t, 1)
	other, _ := key(t, 2)
	good, another := issue(t, private, read), issue(t, private, ticket.Claims{PodUID: "pod-1", JobUID: "job-2", User: "eve", Verbs: []ticket.Verb{ticket.Run}})
	parts, swapped := strings.Split(good, "."), strings.Split(another, ".")
	claims := func(change func(*jwt.Claims)) jwt.Claims {
		c := jwt.Claims{Issuer: "switchyard:jobs", Subject: "eve", Audience: jwt.Audience{"pod-1"}, IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(time.Minute))}
		change(&c)
		return c
	}
	sign := func(typ string, change func(*jwt.Claims), more map[string]any) string {
		text, err := jwks.Kind{Type: typ}.Sign(private, claims(change), more)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	const typ = "switchyard-job-ticket+jwt"
	valid, same := map[string]any{"job": "job-1", "verbs": []string{"read"}}, func(*jwt.Claims) {}
	if _, err := keys.Check(sign(typ, same, valid), "pod-1", now); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		ticket, pod string
		at          time.Time
		want        string
	}{
		"expired":           {good, "pod-1", now.Add(ticket.Lifetime), "expired at"},
		"of another pod":    {good, "pod-2", now, `is for pod ["pod-1"]`},
		"of no pod":         {good, "", now, "is for pod"},
		"of another key":    {issue(t, other, read), "pod-1", now, "no key of the operator"},
		"another's payload": {parts[0] + "." + swapped[1] + "." + parts[2], "pod-1", now, "signature"},
		"unsigned":          {parts[0] + "." + parts[1] + ".", "pod-1", now, ""},
		"alg none":          {"eyJhbGciOiJub25lIn0." + parts[1] + ".", "pod-1", now, "not a token"},
		"empty":             {"", "pod-1", now, "not a token"},
		"of the tunnels":    {sign("switchyard-credential+jwt", same, valid), "pod-1", now, "no ticket"},
		"of another issuer": {sign(typ, func(c *jwt.Claims) { c.Issuer = "x" }, valid), "pod-1", now, "no ticket"},
		"for an hour":       {sign(typ, func(c *jwt.Claims) { c.Expiry = jwt.NewNumericDate(now.Add(time.Hour)) }, valid), "pod-1", now, "at most 10m"},
		"of a clock ahead": {sign(typ, func(c *jwt.Claims) {
			c.IssuedAt, c.Expiry = jwt.NewNumericDate(now.Add(2*time.Minute)), jwt.NewNumericDate(now.Add(3*time.Minute))
		}, valid), "pod-1", now, "not valid before"},
		"without an end":        {sign(typ, func(c *jwt.Claims) { c.Expiry = nil }, valid), "pod-1", now, "does not state"},
		"for two pods":          {sign(typ, func(c *jwt.Claims) { c.Audience = append(c.Audience, "pod-2") }, valid), "pod-1", now, "is for pod"},
		"without a job":         {sign(typ, same, map[string]any{"verbs": []string{"read"}}), "pod-1", now, "no job"},
		"without a verb":        {sign(typ, same, map[string]any{"job": "job-1"}), "pod-1", now, "verbs"},
		"of another verb":       {sign(typ, same, map[string]any{"job": "job-1", "verbs": []string{"exec"}}), "pod-1", now, "verbs"},
		"for all jobs, reading": {sign(typ, same, map[string]any{"job": "*", "verbs": []string{"read"}}), "pod-1", now, "all jobs"},
	} {
		if got, err := keys.Check(c.ticket, c.pod, c.at); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
	var unknown *jwks.UnknownKeyError
	if _, err := (ticket.Keys{}).Check(good, "pod-1", now); !errors.As(err, &unknown) {
		t.Errorf("without keys: %v", err)
	}
}
