package authority

import (
	"crypto/x509"
	"slices"
	"time"
)

// Pair is a certificate with its key.
type Pair struct {
	// Cert is the parsed certificate.
	Cert *x509.Certificate
	// CertPEM and KeyPEM are both as they stand in the Secret.
	CertPEM, KeyPEM []byte
}

// State is what the Secret holds.
type State struct {
	// Current is the authority that signs leaves.
	Current *Pair
	// Next is the authority that will, nil while no change is under way.
	Next *Pair
	// NextPublished is when Next was first seen in the published bundle; zero
	// when it was not.
	NextPublished time.Time
	// Retired are authorities that do not sign any more but are still trusted.
	Retired []*Pair
	// Promoted is when Current took over from the last of Retired.
	Promoted time.Time
	// Leaf is what the webhook serves.
	Leaf *Pair
}

// Observed is the input of Plan.
type Observed struct {
	State State
	// Published are the certificates in the caBundles of our webhooks and in the Secrets
	// of our programs: those that are in all of them.
	Published []*x509.Certificate
	// Registered reports whether there is a webhook configuration or a program. If not, nothing
	// can be published and there are no callers.
	Registered bool
}

// Policy is how long certificates live and bundles are published before use, and what the
// leaf is for.
type Policy struct {
	// Authority and Leaf are lives of certificates; each is renewed at half.
	Authority, Leaf time.Duration
	// Settle is how long a bundle must be published before it is relied on: longer than API
	// servers and the kubelet take to see it, and as long as a sidecar may be cut off
	// without missing it.
	Settle time.Duration
	// Hosts are the names and addresses the leaf is for.
	Hosts []string
}

// Step is one thing to do.
type Step string

// The steps. Begin, Announce, Note, Promote, Forget and Issue change the
// Secret; Publish writes the bundle into the webhook configuration.
const (
	Begin    Step = "begin with a new authority"
	Announce Step = "announce the next authority"
	Note     Step = "note that the next authority is published"
	Promote  Step = "promote the next authority"
	Forget   Step = "forget authorities that no leaf needs"
	Issue    Step = "issue a leaf"
	Publish  Step = "publish the bundle"
)

// Plan returns what to do now, in order. Nothing to do is nil.
func Plan(now time.Time, o Observed, p Policy) []Step {
	s, steps := o.State, authoritySteps(now, o, p)
	changed := slices.Contains(steps, Begin) || slices.Contains(steps, Promote)
	if changed || leafNeeded(now, s, p) {
		steps = append(steps, Issue)
	}
	forgettable := slices.ContainsFunc(s.Retired, func(a *Pair) bool { return !now.Before(a.Cert.NotAfter) })
	if len(s.Retired) > 0 && !slices.Contains(steps, Begin) &&
		(forgettable || !changed && !now.Before(s.Promoted.Add(2*p.Leaf))) {
		steps = append(steps, Forget)
	}
	if o.Registered && (len(steps) > 0 && !onlyLeaf(steps) || !sameCertificates(bundle(s), o.Published)) {
		steps = append(steps, Publish)
	}
	return steps
}

// authoritySteps returns the steps for the authorities.
func authoritySteps(now time.Time, o Observed, p Policy) []Step {
	s := o.State
	usable := func(a *Pair) bool { return a != nil && now.Before(a.Cert.NotAfter) && !now.Before(a.Cert.NotBefore) }
	switch {
	case !usable(s.Current) && usable(s.Next):
		return []Step{Promote} // late, but better than an expired one
	case !usable(s.Current):
		return []Step{Begin}
	case !usable(s.Next):
		if pastHalf(now, s.Current) {
			return []Step{Announce}
		}
		return nil
	case !o.Registered:
		return []Step{Promote} // no callers, so no bundle must be published first
	case !slices.ContainsFunc(o.Published, s.Next.Cert.Equal):
		return nil // Publish comes
	case s.NextPublished.IsZero():
		return []Step{Note}
	case !now.Before(s.NextPublished.Add(p.Settle)):
		return []Step{Promote}
	}
	return nil
}

// leafNeeded reports whether the leaf is missing, half spent, of another
// authority, or for other hosts.
func leafNeeded(now time.Time, s State, p Policy) bool {
	if s.Leaf == nil || s.Current == nil || pastHalf(now, s.Leaf) || now.Before(s.Leaf.Cert.NotBefore) {
		return true
	}
	if s.Leaf.Cert.CheckSignatureFrom(s.Current.Cert) != nil {
		return true
	}
	return slices.ContainsFunc(p.Hosts, func(host string) bool { return s.Leaf.Cert.VerifyHostname(host) != nil })
}

// programLeafNeeded is leafNeeded for a program's leaf.
func programLeafNeeded(now time.Time, s State, leaf *Pair, hosts []string) bool {
	return leafNeeded(now, State{Current: s.Current, Leaf: leaf}, Policy{Hosts: hosts})
}

func pastHalf(now time.Time, p *Pair) bool {
	life := p.Cert.NotAfter.Sub(p.Cert.NotBefore)
	return !now.Before(p.Cert.NotBefore.Add(life / 2))
}

// bundle is what callers are to trust.
func bundle(s State) []*x509.Certificate {
	var trusted []*x509.Certificate
	for _, a := range slices.Concat([]*Pair{s.Current, s.Next}, s.Retired) {
		if a != nil {
			trusted = append(trusted, a.Cert)
		}
	}
	return trusted
}

// onlyLeaf reports whether steps leave the bundle as it is.
func onlyLeaf(steps []Step) bool {
	return !slices.ContainsFunc(steps, func(s Step) bool { return s != Issue && s != Note })
}

func sameCertificates(a, b []*x509.Certificate) bool {
	if len(a) != len(b) {
		return false
	}
	return !slices.ContainsFunc(a, func(c *x509.Certificate) bool { return !slices.ContainsFunc(b, c.Equal) })
}
