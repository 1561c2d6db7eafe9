package proxy

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/metadata"

	"switchyard.dev/eventbus/jwks"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/wake"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/workflows/jobexec/client"
	"switchyard.dev/workflows/jobexec/ticket"
)

// Enrolment is how a runner gets its certificate and the keys that check tickets.
type Enrolment struct {
	// Address is that of the manager's service Runners, as host:port; its certificate has to be for the host.
	Address string
	// Roots verify the manager.
	Roots *trust.Roots
	// TokenFile has the token of the pod; it is read for each request, since the kubelet replaces it.
	TokenFile string
	// Again is the least time between two enrolments because of a ticket with an unknown key. Default: a minute.
	Again time.Duration
}

// Pauses between two attempts to enrol, and how long one can take.
const (
	firstPause  = 200 * time.Millisecond
	lastPause   = 10 * time.Second
	enrolWithin = 10 * time.Second
)

// identity is what a runner has from its enrolment. Its private key is in memory only.
type identity struct {
	cfg    Enrolment
	podUID string
	logger *slog.Logger
	// key is the private key, in PEM, and public the other one.
	key, public []byte
	// again asks for another enrolment.
	again chan struct{}

	mu      sync.Mutex
	cert    *tls.Certificate
	keys    ticket.Keys
	problem error
}

func newIdentity(cfg Enrolment, podUID string, logger *slog.Logger) (*identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	private, failed := x509.MarshalPKCS8PrivateKey(key)
	if err := errors.Join(err, failed); err != nil {
		return nil, err
	}
	cfg.Again = cmp.Or(cfg.Again, time.Minute)
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	return &identity{cfg: cfg, podUID: podUID, logger: logger, key: text, public: public, again: make(chan struct{}, 1),
		problem: errors.New("the runner has not been enrolled yet")}, nil
}

// run keeps the certificate valid until ctx ends: it is renewed at half of its life.
func (i *identity) run(ctx context.Context) error {
	host, _, err := net.SplitHostPort(i.cfg.Address)
	if err != nil {
		return fmt.Errorf("the address of the manager: %w", err)
	}
	conn, err := trust.Dial(i.cfg.Address, host, i.cfg.Roots)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // its calls have ended
	runners := jobexecv1.NewRunnersClient(conn)
	for pause := firstPause; ctx.Err() == nil; {
		expires, err := i.enrol(ctx, runners)
		wait := time.Until(expires) / 2
		if err != nil {
			i.logger.Warn("the runner cannot be enrolled; it is tried again", "manager", i.cfg.Address, "in", pause.String(), "error", errors.Join(err, i.cfg.Roots.Refusal()))
			wait, pause = pause, min(2*pause, lastPause)
		} else {
			pause = firstPause
		}
		i.record(err)
		if wait = max(wait-mathrand.N(wait/5+1), firstPause/2); wait <= i.cfg.Again {
			wake.Sleep(ctx, wait)
			continue
		}
		wake.Sleep(ctx, i.cfg.Again)
		select {
		case <-time.After(wait - i.cfg.Again):
		case <-i.again:
		case <-ctx.Done():
		}
	}
	return nil
}

// enrol gets a certificate and keys, and returns when the certificate expires.
func (i *identity) enrol(ctx context.Context, runners jobexecv1.RunnersClient) (expires time.Time, err error) {
	token, err := os.ReadFile(i.cfg.TokenFile)
	if err != nil {
		return expires, fmt.Errorf("the token of the pod: %w", err)
	}
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+strings.TrimSpace(string(token))), enrolWithin)
	defer cancel()
	got, err := runners.Enrol(ctx, &jobexecv1.EnrolRequest{PublicKey: i.public})
	if err != nil {
		return expires, err
	}
	keys, err := ticket.ParseKeys(got.GetTicketKeys())
	if err != nil {
		return expires, err
	}
	cert, err := i.certificate(got.GetCertificate())
	if err != nil {
		return expires, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.cert, i.keys = cert, keys
	i.logger.Info("the runner is enrolled", "name", client.Name(i.podUID), "expires", cert.Leaf.NotAfter)
	return cert.Leaf.NotAfter, nil
}

// certificate returns the certificate in PEM, if it is for the key and the name of this runner.
func (i *identity) certificate(chain []byte) (*tls.Certificate, error) {
	cert, err := tls.X509KeyPair(chain, i.key)
	if err == nil {
		err = cert.Leaf.VerifyHostname(client.Name(i.podUID))
	}
	if err != nil {
		return nil, fmt.Errorf("the certificate of the manager's answer: %w", err)
	}
	return &cert, nil
}

// record keeps why the last enrolment has failed.
func (i *identity) record(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.problem = err
}

// unready returns why the runner has no certificate; empty: it has one.
func (i *identity) unready() string {
	if _, err := i.shown(nil); err != nil {
		return err.Error()
	}
	return ""
}

// shown returns the certificate, unless it has expired.
func (i *identity) shown(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.cert == nil || !time.Now().Before(i.cert.Leaf.NotAfter) {
		return nil, fmt.Errorf("this runner has no valid certificate: %w", i.problem)
	}
	return i.cert, nil
}

// check returns the claims of a ticket.
func (i *identity) check(text string) (ticket.Claims, error) {
	i.mu.Lock()
	keys := i.keys
	i.mu.Unlock()
	c, err := keys.Check(text, i.podUID, time.Now())
	if errors.As(err, new(*jwks.UnknownKeyError)) {
		wake.Notify(i.again) // the key may be newer
	}
	return c, err
}
