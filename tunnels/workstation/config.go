package workstation

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	dice "math/rand/v2"
	"net"
	"time"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/tunnels/workstation/consent"
	"switchyard.dev/tunnels/workstation/reconnect"
)

// Road dials port 7777 of a tunnel proxy. An error that Final marks ends a first connection.
type Road interface {
	Dial(ctx context.Context) (net.Conn, error)
}

// Token returns the user's token for the cluster. again: the last one was refused, so that a
// cached one must not be returned.
type Token func(ctx context.Context, again bool) (string, error)

// Config configures a Workstation.
type Config struct {
	// Road dials a proxy. Required.
	Road Road
	// Name is the name that the proxies' certificates are for, and Roots the authorities that
	// they are verified against. Required.
	Name  string
	Roots *trust.Roots
	// Refresh reads Roots again, before the first connection and when a certificate was not
	// trusted. May be nil.
	Refresh func(context.Context) error
	// Token is the user's. Required.
	Token Token
	// RenewEvery is how often a session reads the token again, to send the proxy a newer one.
	// Default: half a minute.
	RenewEvery time.Duration
	// Labels describe the workstation to people, as in tunnelv1.Hello.
	Labels map[string]string
	// Policy are the pauses between attempts; reconnect.DefaultPolicy when it is zero.
	Policy reconnect.Policy
	// Session is the name of the session; a random one when it is empty.
	Session string
	// Consent decides which local addresses are opened to the cluster. It must not block, and
	// Reconsider has to be called when its answers may have changed. Default: the zero
	// consent.Policy.
	Consent func(consent.Request) consent.Decision
	// Opened is called for each connection that a local address accepted. May be nil.
	Opened func(Opening)
	// Log logs connections and problems. Default: none.
	Log *slog.Logger
	// Chance returns a number from 0 to 1; by default a random one.
	Chance func() float64
}

func (c *Config) setDefaults() error {
	if c.Road == nil || c.Roots == nil || c.Token == nil || c.Name == "" {
		return errors.New("workstation: a Road, Roots, a Name and a Token are required")
	}
	if c.Policy == (reconnect.Policy{}) {
		c.Policy = reconnect.DefaultPolicy()
	}
	if c.Consent == nil {
		c.Consent = consent.Policy{}.Decide
	}
	if c.Opened == nil {
		c.Opened = func(Opening) {}
	}
	c.Session, c.RenewEvery = cmp.Or(c.Session, rand.Text()), cmp.Or(c.RenewEvery, renewEvery)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Chance == nil {
		c.Chance = dice.Float64
	}
	return nil
}

// Part is the part of a connection that failed.
type Part string

// The parts, in the order in which they are needed.
const (
	PartRoad        Part = "road"
	PartCertificate Part = "certificate"
	PartToken       Part = "token"
	PartSession     Part = "session"
)

// Trouble is why there is no session.
type Trouble struct {
	// Part is the part that failed.
	Part Part
	// Final: trying again does not help before the problem is fixed.
	Final bool
	// Err is the problem.
	Err error
}

// Error implements error.
func (t *Trouble) Error() string { return t.Err.Error() }

// Unwrap returns the problem.
func (t *Trouble) Unwrap() error { return t.Err }

// final is an error that trying again does not fix.
type final struct{ error }

// Unwrap returns the error that was marked.
func (f final) Unwrap() error { return f.error }

// Final marks an error as one that trying again does not fix; nil stays nil.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return final{err}
}

func isFinal(err error) bool {
	var f final
	return errors.As(err, &f)
}

// attemptTime is how long one attempt to connect may take.
const attemptTime = 20 * time.Second
