package certificates

import (
	"context"
	"crypto"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/go-acme/lego/v5/acme"
	"github.com/go-acme/lego/v5/acme/api"
	"github.com/go-acme/lego/v5/certcrypto"
	"github.com/go-acme/lego/v5/certificate"
	"github.com/go-acme/lego/v5/challenge/dns01"
	"github.com/go-acme/lego/v5/lego"
	"github.com/go-acme/lego/v5/registration"

	"switchyard.dev/eventbus/wake"
)

// issuer has certificates of an ACME server in the store, and orders them.
type issuer struct {
	cfg    *ACME
	store  Store
	now    func() time.Time
	logger *slog.Logger
	// me is this process in leases.
	me string
	// windows are the renewal windows that the server suggests, by domain.
	windows map[string]window
}

// window is when a server suggests to renew a certificate; nil: it suggests nothing.
type window struct {
	read time.Time
	info *certificate.RenewalInfo
}

const (
	// requestWithin bounds a request to the server, saveWithin the writes of a result to the store.
	requestWithin, saveWithin = 30 * time.Second, time.Minute
	// windowEvery is the pause between two reads of a renewal window.
	windowEvery = 6 * time.Hour
)

// check returns the certificate of a domain, after an order if one is due.
func (i *issuer) check(ctx context.Context, was entry) entry {
	domain := was.domain
	r, version, err := i.read(ctx, domain)
	if err != nil {
		return was.with(was.cert, i.now(), err)
	}
	pair, damaged := r.pair()
	s, err := i.cfg.read()
	if err == nil && r.due(i.now(), s.digest, pair == nil || i.renews(ctx, s, domain, pair)) {
		if r, err = i.order(ctx, domain, version, r, pair, s); err == nil {
			pair, damaged = r.pair()
		}
	}
	if err = errors.Join(err, damaged); err != nil {
		return was.with(pair, i.now(), err)
	}
	return entry{domain: domain, cert: pair, failed: r.Failed, reason: r.Reason}
}

// with is an entry with a certificate and an error that is no failed order. Failed stays as long as the error does.
func (e entry) with(cert *tls.Certificate, now time.Time, err error) entry {
	next := entry{domain: e.domain, cert: cert, failed: now, reason: oneLine(err)}
	if next.reason == e.reason {
		next.failed = e.failed
	}
	return next
}

// oneLine is the text of an error without line breaks.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// recordOf names the record of a domain in the store. Each server has its own: replicas with other settings, as during an
// upgrade, do not replace it.
func (i *issuer) recordOf(domain string) string {
	return "certificate " + i.cfg.Directory + " " + domain
}

func (i *issuer) read(ctx context.Context, domain string) (record, int64, error) {
	value, version, err := i.store.Certificate(ctx, i.recordOf(domain))
	if err != nil {
		return record{}, 0, fmt.Errorf("read the certificate of %s in the store: %w", domain, err)
	}
	r, err := parse(value)
	return r, version, err
}

// renews reports whether two thirds of the lifetime have passed, or the server suggests to renew now.
func (i *issuer) renews(ctx context.Context, s *settings, domain string, pair *tls.Certificate) bool {
	now := i.now()
	if !now.Before(renewAt(pair.Leaf.NotBefore, pair.Leaf.NotAfter)) {
		return true
	}
	w := i.windows[domain]
	if now.Sub(w.read) >= windowEvery {
		w = window{read: now}
		client, err := i.client(s, &account{})
		if err == nil {
			ctx, cancel := context.WithTimeout(ctx, requestWithin)
			defer cancel()
			w.info, err = client.Certificate.GetRenewalInfo(ctx, pair.Leaf)
		}
		if err != nil {
			i.logger.Debug("the ACME server suggests no renewal window", "domain", domain, "error", err)
		}
		i.windows[domain] = w
	}
	return w.info != nil && w.info.ShouldRenewAt(now, 0) != nil
}

// order orders a certificate, unless another replica was faster, and returns the record that is in the store then.
func (i *issuer) order(ctx context.Context, domain string, version int64, r record, had *tls.Certificate, s *settings) (record, error) {
	leased, err := i.store.SwapCertificate(ctx, i.recordOf(domain), version, r.leased(i.me, i.now()).text())
	if err != nil || !leased {
		return r, err
	}
	if r.Failures > 0 { // perhaps because the server does not know it any more
		had = nil
	}
	chain, key, err := i.obtain(ctx, domain, had, s)
	limited, _ := errors.AsType[*acme.RateLimitedError](err)
	switch {
	case err == nil:
		r = r.succeeded(chain, key)
	case ctx.Err() != nil:
		r = r.released()
	case limited != nil:
		r = r.faulted(i.now(), s.digest, err, limited.RetryAfter)
	default:
		r = r.faulted(i.now(), s.digest, err, 0)
	}
	delete(i.windows, domain)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveWithin)
	defer cancel()
	for {
		saved, err := i.store.SwapCertificate(ctx, i.recordOf(domain), version+1, r.text())
		if err == nil && !saved { // an earlier attempt has saved it, or the lease has ended
			r, _, err = i.read(ctx, domain)
		}
		if err == nil || !wake.Sleep(ctx, time.Second) {
			return r, err
		}
	}
}

// obtain orders a certificate from the server, and returns its chain and private key in PEM.
func (i *issuer) obtain(ctx context.Context, domain string, had *tls.Certificate, s *settings) (chain, key []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, orderWithin)
	defer cancel()
	defer func() {
		if refused, is := errors.AsType[refusal](err); is {
			err = refused
		}
		if err != nil {
			err = fmt.Errorf("order a certificate for *.%s at %s: %w", domain, i.cfg.Directory, err)
		}
	}()
	who := &account{email: i.cfg.Email}
	if who.key, err = i.accountKey(ctx); err != nil {
		return nil, nil, err
	}
	client, err := i.client(s, who)
	if err != nil {
		return nil, nil, err
	}
	// The server returns the account that a key has already.
	if _, err = client.Registration.Register(ctx, registration.RegisterOptions{TermsOfServiceAgreed: i.cfg.AcceptTerms}); err != nil {
		return nil, nil, err
	}
	dns01.SetDefaultClient(dns01.NewClient(&dns01.Options{RecursiveNameservers: []string{s.dns.Nameserver}, Timeout: updateWithin}))
	if err = client.Challenge.SetDNS01Provider(s.dns, dns01.WrapPreCheck(s.dns.published)); err != nil {
		return nil, nil, err
	}
	request := certificate.ObtainRequest{Domains: []string{"*." + domain}, KeyType: certcrypto.EC256, Bundle: true}
	if had != nil {
		request.ReplacesCertID, _ = api.MakeARICertID(had.Leaf) // empty: the order names no former one
	}
	got, err := client.Certificate.Obtain(ctx, request)
	if err != nil {
		return nil, nil, err
	}
	return got.Certificate, got.PrivateKey, nil
}

// client returns a client of the server. It reads the server's directory.
func (i *issuer) client(s *settings, who *account) (*lego.Client, error) {
	if who.key == nil { // for requests without an account
		var err error
		if who.key, err = certcrypto.GeneratePrivateKey(certcrypto.EC256); err != nil {
			return nil, err
		}
	}
	return lego.NewClient(&lego.Config{CADirURL: i.cfg.Directory, User: who, UserAgent: "switchyard", HTTPClient: &http.Client{
		Timeout:   requestWithin,
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: s.roots}},
	}, Certificate: lego.CertificateConfig{Timeout: 2 * time.Minute}})
}

// accountKey returns the key of the account that all replicas share. The first one creates it.
func (i *issuer) accountKey(ctx context.Context) (crypto.Signer, error) {
	name := "account " + i.cfg.Directory + " " + i.cfg.Email
	value, version, err := i.store.Certificate(ctx, name)
	if err == nil && version == 0 {
		key, err := certcrypto.GeneratePrivateKey(certcrypto.EC256)
		if err != nil {
			return nil, err
		}
		if created, err := i.store.SwapCertificate(ctx, name, 0, string(certcrypto.PEMEncode(key))); err != nil || created {
			return key, err
		}
		value, _, err = i.store.Certificate(ctx, name)
	}
	if err != nil {
		return nil, fmt.Errorf("read the key of the ACME account in the store: %w", err)
	}
	return certcrypto.ParsePEMPrivateKey([]byte(value))
}

// account is an account at the server. It implements registration.User.
type account struct {
	email string
	key   crypto.Signer
}

func (a *account) GetEmail() string                       { return a.email }
func (a *account) GetPrivateKey() crypto.Signer           { return a.key }
func (a *account) GetRegistration() *acme.ExtendedAccount { return nil }
