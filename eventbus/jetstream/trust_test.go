package jetstream_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"switchyard.dev/eventbus/connect"
)

// trustCertificates has servers take the accounts as the README has them, and know users by
// their certificates.
func (c *cluster) trustCertificates(t *testing.T) {
	t.Helper()
	c.trustCertificatesIn(t, readmeAccounts(t))
}

// trustCertificatesIn does so with these accounts.
func (c *cluster) trustCertificatesIn(t *testing.T, accounts string) {
	t.Helper()
	ca, secure := c.encrypt(t)
	for _, user := range []string{manager, routeServer} {
		c.certify(t, ca, user)
	}
	c.account = "SWITCHYARD"
	file := filepath.Join(c.dir, "accounts.conf")
	write(t, file, []byte(accounts))
	c.options = func(t *testing.T) *server.Options {
		t.Helper()
		o, err := server.ProcessConfigFile(file)
		if err != nil {
			t.Fatal(err)
		}
		common(o, secure)
		o.TLSMap = true
		return o
	}
	c.identify = func(config *connect.Config, user string) {
		config.CertFile, config.KeyFile = filepath.Join(c.dir, user+".pem"), filepath.Join(c.dir, user+".key")
	}
}

// trustTokens makes servers accept the same accounts from JWTs, and identify users by theirs.
// They require a certificate too, which is the same for all.
func (c *cluster) trustTokens(t *testing.T) {
	t.Helper()
	ca, secure := c.encrypt(t)
	c.certify(t, ca, "client")
	operator, system := newKey(t, nkeys.CreateOperator), newKey(t, nkeys.CreateAccount)
	accounts := &server.MemAccResolver{}
	store := func(claims *jwt.AccountClaims) {
		if err := accounts.Store(claims.Subject, encode(t, claims, operator)); err != nil {
			t.Fatal(err)
		}
	}
	store(jwt.NewAccountClaims(system.public))
	keys := map[string]key{}
	for name, written := range parsedAccounts(t) {
		keys[name] = newKey(t, nkeys.CreateAccount)
		for _, u := range written.Users {
			c.user(t, u.name(), keys[name], u.permissions())
		}
		if written.JetStream != "" {
			c.account = keys[name].public
			c.user(t, admin, keys[name], jwt.Permissions{})
		}
	}
	for name, written := range parsedAccounts(t) {
		store(written.claims(t, name, keys))
	}
	trust := &server.Options{
		TrustedOperators: []*jwt.OperatorClaims{jwt.NewOperatorClaims(operator.public)},
		AccountResolver:  accounts, SystemAccount: system.public,
	}
	common(trust, secure)
	c.options = func(*testing.T) *server.Options { return trust.Clone() }
	c.identify = func(config *connect.Config, user string) {
		config.CredentialsFile = filepath.Join(c.dir, user+".creds")
		config.CertFile, config.KeyFile = filepath.Join(c.dir, "client.pem"), filepath.Join(c.dir, "client.key")
	}
}

// common sets the options that do not concern permissions.
func common(o *server.Options, secure *tls.Config) {
	o.JetStream, o.SyncAlways, o.NoLog, o.NoSigs = true, true, true, true
	o.JetStreamMaxStore, o.JetStreamMaxMemory = 4<<30, 256<<20
	o.TLSConfig, o.TLSTimeout = secure, 5
}

// user writes the credentials of a user of an account to a file of its name.
func (c *cluster) user(t *testing.T, name string, account key, may jwt.Permissions) {
	t.Helper()
	user := newKey(t, nkeys.CreateUser)
	seed, err := user.pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	claims := jwt.NewUserClaims(user.public)
	claims.Permissions = may
	credentials, err := jwt.FormatUserConfig(encode(t, claims, account), seed)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(c.dir, name+".creds"), credentials)
}

// encrypt makes an authority and the certificate of the servers.
func (c *cluster) encrypt(t *testing.T) (*authority, *tls.Config) {
	t.Helper()
	ca := newAuthority(t)
	write(t, filepath.Join(c.dir, "ca.pem"), ca.pem)
	pair, err := tls.X509KeyPair(ca.issue(t, "bus", x509.ExtKeyUsageServerAuth))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	return ca, &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}
}

// certify writes the certificate of a client and its key to files of its name.
func (c *cluster) certify(t *testing.T, ca *authority, name string) {
	t.Helper()
	cert, private := ca.issue(t, name, x509.ExtKeyUsageClientAuth)
	write(t, filepath.Join(c.dir, name+".pem"), cert)
	write(t, filepath.Join(c.dir, name+".key"), private)
}

func write(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

type key struct {
	pair   nkeys.KeyPair
	public string
}

func newKey(t *testing.T, create func() (nkeys.KeyPair, error)) key {
	t.Helper()
	pair, err := create()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return key{pair, public}
}

func encode(t *testing.T, claims interface {
	Encode(nkeys.KeyPair) (string, error)
}, by key) string {
	t.Helper()
	token, err := claims.Encode(by.pair)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// authority is a certificate authority that lives as long as the test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, private, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// issue returns a certificate for loopback and its key.
func (a *authority) issue(t *testing.T, name string, usage x509.ExtKeyUsage) (cert, private []byte) {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{usage}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, own.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}
