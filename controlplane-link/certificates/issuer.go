package certificates

import (
	"context"
	"crypto"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-acme/lego/v5/acme"
	"github.com/go-acme/lego/v5/certcrypto"
	"github.com/go-acme/lego/v5/certificate"
	"github.com/go-acme/lego/v5/challenge/dns01"
	"github.com/go-acme/lego/v5/lego"
	"github.com/go-acme/lego/v5/registration"

	"switchyard.dev/eventbus/wake"
)

// issuer has certificates of an ACME server in the store, and orders them.
type issuer struct {
	cfg   *ACME
	store Store
	now   func() time.Time
	// me is this process in leases.
	me string
}

// requestWithin bounds a request to the server, saveWithin the writes of a result to the store.
const requestWithin, saveWithin = 30 * time.Second, time.Minute

// check returns the certificate of a domain, after an order if one is due and may be sent.
func (i *issuer) check(ctx context.Context, was entry, order bool) entry {
	domain := was.Domain
	r, version, err := i.read(ctx, domain)
	if err != nil {
		return was.with(was.cert, i.now(), err)
	}
	pair, damaged := r.pair()
	s, err := i.cfg.read()
	if err == nil && order && r.due(i.now(), s.digest, pair == nil || !i.now().Before(renewAt(pair.Leaf))) {
		if r, err = i.order(ctx, domain, version, r, s); err == nil {
			pair, damaged = r.pair()
		}
	}
	if err = errors.Join(err, damaged); err != nil {
		return was.with(pair, i.now(), err)
	}
	return entry{State{Domain: domain, Failed: r.Failed, Reason: r.Reason}, pair}
}

// with is an entry with a certificate and an error that is no failed order. Failed stays as long as the error does.
func (e entry) with(cert *tls.Certificate, now time.Time, err error) entry {
	next := entry{State{Domain: e.Domain, Failed: now, Reason: oneLine(err)}, cert}
	if next.Reason == e.Reason {
		next.Failed = e.Failed
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

// order orders a certificate, unless another replica was faster, and returns the record that is in the store then.
func (i *issuer) order(ctx context.Context, domain string, version int64, r record, s *settings) (record, error) {
	leased, err := i.store.SwapCertificate(ctx, i.recordOf(domain), version, r.leased(i.me, i.now()).text())
	if err != nil || !leased {
		return r, err
	}
	chain, key, err := i.obtain(ctx, domain, s)
	limited, _ := errors.AsType[*acme.RateLimitedError](err)
	switch {
	case err == nil:
		r = r.succeeded(i.now(), chain, key)
	case ctx.Err() != nil:
		r = r.released()
	case limited != nil:
		r = r.faulted(i.now(), s.digest, err, limited.RetryAfter)
	default:
		r = r.faulted(i.now(), s.digest, err, 0)
	}
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
func (i *issuer) obtain(ctx context.Context, domain string, s *settings) (chain, key []byte, err error) {
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
	web := &http.Client{Timeout: requestWithin, Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: s.roots},
	}}
	client, err := lego.NewClient(&lego.Config{CADirURL: i.cfg.Directory, User: who, HTTPClient: web, Certificate: lego.CertificateConfig{Timeout: 2 * time.Minute}})
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
	got, err := client.Certificate.Obtain(ctx, certificate.ObtainRequest{Domains: []string{"*." + domain}, KeyType: certcrypto.EC256, Bundle: true})
	if err != nil {
		return nil, nil, err
	}
	return got.Certificate, got.PrivateKey, nil
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
