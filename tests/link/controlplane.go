package link

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"time"

	"github.com/vishvananda/netns"

	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/controlplane-link/server"
	"switchyard.dev/tests/podnet"
	"switchyard.dev/tools/demo/local"
)

// linked is the cluster as the control plane knows it.
var linked = registry.Cluster{Organisation: "acme", Name: "demo"}

// controlPlane is a control plane on a machine of its own.
type controlPlane struct {
	machine *local.Machine
	server  *server.Server
	token   string // of the cluster
	ca      []byte // PEM
	address string
	end     func() error
}

// newControlPlane begins a control plane on a machine that the cluster reaches, and that reaches
// nothing of the cluster. The caller ends it, also after an error.
func newControlPlane(ctx context.Context) (p *controlPlane, err error) {
	p = &controlPlane{machine: local.NewMachine("controlplane", 63), token: rand.Text(), end: func() error { return nil }}
	if err := p.machine.Add(ctx, "default"); err != nil {
		return p, err
	}
	for _, chain := range []string{"INPUT", "FORWARD"} {
		rule := chain + " -i " + p.machine.Link + " -m conntrack --ctstate NEW -j DROP"
		_ = local.Line(ctx, "iptables -D "+rule) // of a story that was cut off
		if err := local.Line(ctx, "iptables -I "+rule); err != nil {
			return p, err
		}
	}
	certificate, err := p.certificate()
	if err != nil {
		return p, err
	}
	tokens := &registry.MemoryTokens{}
	tokens.Add(p.token, registry.Token{ID: "demo", Cluster: linked})
	p.server, err = server.New(server.Config{
		TLS:      &tls.Config{Certificates: []tls.Certificate{certificate}},
		Registry: &registry.Memory{}, Tokens: tokens, Replica: "one",
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return p, err
	}
	listener, err := p.listen()
	if err != nil {
		return p, err
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- p.server.Serve(ctx, listener) }()
	p.end = func() error { stop(); return <-ended }
	return p, nil
}

// listen returns a listener on the machine.
func (p *controlPlane) listen() (l net.Listener, err error) {
	err = podnet.OnOwnThread(func() error {
		ns, err := netns.GetFromName(p.machine.Name)
		if err != nil {
			return fmt.Errorf("find the network of the control plane: %w", err)
		}
		defer ns.Close()
		if err := netns.Set(ns); err != nil {
			return fmt.Errorf("enter the network of the control plane: %w", err)
		}
		l, err = net.Listen("tcp", net.JoinHostPort(p.machine.Address, "443"))
		return err
	})
	if err == nil {
		p.address = l.Addr().String()
	}
	return l, err
}

// certificate makes the control plane's certificate, which is its own authority.
func (p *controlPlane) certificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "control plane of the demo"},
		IPAddresses: []net.IP{net.ParseIP(p.machine.Address)},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	p.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// remove ends the control plane and takes its machine away.
func (p *controlPlane) remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := p.end()
	for _, chain := range []string{"INPUT", "FORWARD"} {
		err = errors.Join(err, local.Line(ctx, "iptables -D "+chain+" -i "+p.machine.Link+" -m conntrack --ctstate NEW -j DROP"))
	}
	p.machine.Remove(ctx)
	return err
}
