package certificates

import (
	"context"
	"crypto"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/go-acme/lego/v5/acme"
	"github.com/go-acme/lego/v5/certcrypto"
	"github.com/go-acme/lego/v5/certificate"
	"github.com/go-acme/lego/v5/lego"
	"github.com/go-acme/lego/v5/registration"

	"switchyard.dev/eventbus/trust"
)

// issuer has certificates of an ACME server in the store, and orders them.
type issuer struct {
	*ACME
	store Store
	now   func() time.Time
}

// requestWithin bounds a request to the server, saveWithin the write of a result to the store.
const requestWithin, saveWithin = 30 * time.Second, time.Minute

// check returns the certificate of a domain, after an order if one is due and may be sent.
func (i *issuer) check(ctx context.Context, was State, order bool) State {
	r, version, err := i.read(ctx, was.Domain)
	if err != nil {
		return was.with(was.cert, i.now(), err)
	}
	cert := r.cert()
	d, err := readDNS(i.RFC2136)
	if err == nil && order && (cert == nil || !i.now().Before(renewAt(cert.Leaf))) && r.due(i.now(), d.changed) {
		if r, err = i.order(ctx, was.Domain, version, r, d); err == nil {
			cert = r.cert()
		}
	}
	if err != nil {
		return was.with(cert, i.now(), err)
	}
	return State{Domain: was.Domain, Failed: r.Failed, Reason: r.Reason, cert: cert}
}

// recordOf names the record of a domain in the store. Each server has its own: replicas with other settings, as during an
// upgrade, do not replace it.
func (i *issuer) recordOf(domain string) string {
	return "certificate " + i.Directory + " " + domain
}

func (i *issuer) read(ctx context.Context, domain string) (r record, version int64, err error) {
	value, version, err := i.store.Certificate(ctx, i.recordOf(domain))
	if err == nil && version != 0 {
		err = json.Unmarshal([]byte(value), &r)
	}
	if err != nil {
		err = fmt.Errorf("read the certificate of %s in the store: %w", domain, err)
	}
	return r, version, err
}

// swap replaces the record of a domain if it has a version, and returns false if it has another one.
func (i *issuer) swap(ctx context.Context, domain string, version int64, r record) (bool, error) {
	value, _ := json.Marshal(r) // texts, times and numbers
	return i.store.SwapCertificate(ctx, i.recordOf(domain), version, string(value))
}

// order orders a certificate, unless another replica was faster, and returns the new record.
func (i *issuer) order(ctx context.Context, domain string, version int64, r record, d *DNS) (record, error) {
	leased, err := i.swap(ctx, domain, version, r.leased(i.now()))
	if err != nil || !leased {
		return r, err
	}
	got, err := i.obtain(ctx, domain, d)
	switch {
	case err == nil:
		r = r.succeeded(i.now(), got.Certificate, got.PrivateKey)
	case ctx.Err() == nil: // else r is the record without the lease
		r = r.faulted(i.now(), d.changed, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveWithin)
	defer cancel()
	_, err = i.swap(ctx, domain, version+1, r) // false: the lease has ended, and the next check reads what another replica has saved
	return r, err
}

// obtain orders a certificate from the server.
func (i *issuer) obtain(ctx context.Context, domain string, d *DNS) (got *certificate.Resource, err error) {
	ctx, cancel := context.WithTimeout(ctx, orderWithin)
	defer cancel()
	client, err := i.client(ctx)
	if err == nil {
		err = d.solve(client)
	}
	if err == nil {
		got, err = client.Certificate.Obtain(ctx, certificate.ObtainRequest{Domains: []string{"*." + domain}, KeyType: certcrypto.EC256, Bundle: true})
	}
	if err != nil {
		return nil, fmt.Errorf("order a certificate for *.%s at %s: %w", domain, i.Directory, err)
	}
	return got, nil
}

// client returns a client of the server, with the account.
func (i *issuer) client(ctx context.Context) (*lego.Client, error) {
	key, err := i.accountKey(ctx)
	if err != nil {
		return nil, err
	}
	roots, err := trust.Pool(i.CAFile)
	if err != nil {
		return nil, fmt.Errorf("authorities of the ACME server: %w", err)
	}
	web := &http.Client{Timeout: requestWithin, Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
	}}
	client, err := lego.NewClient(&lego.Config{CADirURL: i.Directory, User: &account{i.Email, key}, HTTPClient: web, Certificate: lego.CertificateConfig{Timeout: 2 * time.Minute}})
	if err == nil { // the server returns the account that a key has already
		_, err = client.Registration.Register(ctx, registration.RegisterOptions{TermsOfServiceAgreed: i.AcceptTerms})
	}
	return client, err
}

// accountKey returns the key of the account that all replicas share. The first one creates it.
func (i *issuer) accountKey(ctx context.Context) (crypto.Signer, error) {
	name := "account " + i.Directory + " " + i.Email
	value, version, err := i.store.Certificate(ctx, name)
	if err == nil && version == 0 {
		key, wrong := certcrypto.GeneratePrivateKey(certcrypto.EC256)
		if wrong != nil {
			return nil, wrong
		}
		if _, err = i.store.SwapCertificate(ctx, name, 0, string(certcrypto.PEMEncode(key))); err == nil {
			value, _, err = i.store.Certificate(ctx, name) // another replica can have been faster
		}
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
