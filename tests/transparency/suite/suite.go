// Package suite is what the suites of tests/transparency have in common: their targets, and the
// form of their results.
package suite

import "context"

// Target is one way to an application: bare, through the sidecar without a routing
// key, or through it with one.
type Target struct {
	// Address is host:port of the application.
	Address string
	// Key is the routing key that each request is to carry, in baggage; empty for none.
	Key string
	// Host is the host that requests name; empty for a name of the suite.
	Host string
	// Credential is the API key that each request is to carry, in signadot-api-key; empty for none.
	Credential string
}

// CredentialHeader carries the Credential.
const CredentialHeader = "Signadot-Api-Key"

// Seen is what a suite saw, by the name of the case: texts that are equal when the caller could
// not distinguish two targets. Names are stable, since the table of differences in
// sidecars/devmesh/README.md uses them.
type Seen map[string]string

// Choosy is a suite that can run some cases by themselves, one after the other: those that
// differed, which may have been by chance.
type Choosy interface {
	Suite
	// Just returns the suite of these cases.
	Just(cases []string) Suite
}

// Suite is one set of cases.
type Suite interface {
	// Name is a word, the first of the name of each difference: wire, h2spec, grpc.
	Name() string
	// Run runs every case against a target. An error means that the suite could not be
	// run; that a case went badly is something seen.
	Run(ctx context.Context, to Target) (Seen, error)
}

// Passed is the result of a case of a conformance suite that met its specification. A case that
// passes behind the sidecar and fails without it is no harmful difference.
const Passed = "passed"
