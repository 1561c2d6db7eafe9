// Package ticket issues and checks the tickets with which clients authenticate to the runner of a job: tokens that the
// operator signs (eventbus/jwks), each for one pod and one job, valid for at most ten minutes. It is pure: the clock is
// an argument. A runner checks a ticket with public keys that it has from its enrolment, and asks no other service.
package ticket

import (
	"crypto/ed25519"
	"fmt"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"switchyard.dev/eventbus/jwks"
)

// Lifetime is how long a ticket is valid, and the longest that is accepted.
const Lifetime = 10 * time.Minute

// Verb is what a ticket permits.
type Verb string

// The verbs. Run is for the Job controller and includes the others; Collect is for the control plane, which deletes
// output that it has collected.
const (
	Run     Verb = "run"
	Read    Verb = "read"
	Collect Verb = "collect"
)

// signer is who signs tickets, in messages.
const signer = "the operator"

var kind = jwks.Kind{Type: "switchyard-job-ticket+jwt", Issuer: "switchyard:jobs", Lifetime: Lifetime, Name: "ticket", Signer: signer}

// Claims are what a ticket states.
type Claims struct {
	// PodUID is that of the runner's pod, JobUID that of the Job; AnyJob for verb Run alone.
	PodUID, JobUID string
	// User is the name in the log of the runner.
	User  string
	Verbs []Verb
}

// AnyJob is the job of a ticket for all jobs of a pod.
const AnyJob = "*"

// private are the claims of a ticket beside iss, sub, aud, iat and exp.
type private struct {
	Job   string `json:"job"`
	Verbs []Verb `json:"verbs"`
}

// Issue returns a ticket, and when it expires.
func Issue(key ed25519.PrivateKey, c Claims, now time.Time) (ticket string, expires time.Time, err error) {
	if err := c.valid(); err != nil {
		return "", time.Time{}, err
	}
	expires = now.Add(Lifetime).Truncate(time.Second)
	ticket, err = kind.Sign(key, jwt.Claims{
		Issuer: kind.Issuer, Subject: c.User, Audience: jwt.Audience{c.PodUID}, IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(expires),
	}, private{c.JobUID, c.Verbs})
	return ticket, expires, err
}

// valid returns why no ticket has these claims.
func (c Claims) valid() error {
	switch {
	case c.PodUID == "" || c.JobUID == "" || c.User == "":
		return fmt.Errorf("the ticket has no pod, no job or no user: pod %.64q, job %.64q, user %.253q", c.PodUID, c.JobUID, c.User)
	case len(c.Verbs) == 0 || slices.ContainsFunc(c.Verbs, func(v Verb) bool { return v != Run && v != Read && v != Collect }):
		return fmt.Errorf("the ticket has the verbs %.64q: %s, %s and %s are known", c.Verbs, Run, Read, Collect)
	case c.JobUID == AnyJob && !slices.Contains(c.Verbs, Run):
		return fmt.Errorf("a ticket for all jobs has to have verb %s", Run)
	}
	return nil
}

// Keys are the public keys of the operator. The zero value has none.
type Keys struct{ jwks.Set }

// KeysOf returns a set of public keys.
func KeysOf(public ...ed25519.PublicKey) (Keys, error) {
	set, err := jwks.Of(signer, public...)
	return Keys{set}, err
}

// ParseKeys reads a JSON Web Key Set, as jwks.Parse does.
func ParseKeys(text []byte) (Keys, error) {
	set, err := jwks.Parse(signer, text)
	return Keys{set}, err
}

// Check returns the claims of a ticket that a runner in the pod accepts now. The caller checks with Permits whether it is
// for the call.
func (k Keys) Check(ticket, podUID string, now time.Time) (Claims, error) {
	var more private
	got, err := kind.Check(k.Set, ticket, now, &more)
	if err != nil {
		return Claims{}, err
	}
	c := Claims{PodUID: podUID, JobUID: more.Job, User: got.Subject, Verbs: more.Verbs}
	if podUID == "" || len(got.Audience) != 1 || got.Audience[0] != podUID {
		return Claims{}, fmt.Errorf("the ticket is for pod %.64q, and this is pod %.64q", got.Audience, podUID)
	}
	return c, c.valid()
}

// Permits returns nil if the claims permit one of the verbs for a job, or for AnyJob, and otherwise why they do not.
func (c Claims) Permits(jobUID string, verbs ...Verb) error {
	if jobUID == "" || c.JobUID != jobUID && c.JobUID != AnyJob {
		return fmt.Errorf("the ticket is for job %.64q, and this is about job %.64q", c.JobUID, jobUID)
	}
	if slices.Contains(c.Verbs, Run) || slices.ContainsFunc(verbs, func(v Verb) bool { return slices.Contains(c.Verbs, v) }) {
		return nil
	}
	return fmt.Errorf("the ticket permits %q, and this needs %q", c.Verbs, verbs)
}
