package link

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"github.com/vishvananda/netns"

	"switchyard.dev/controlplane-link/linkserver"
	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/controlplane-link/server"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/tests/podnet"
	"switchyard.dev/tests/selfsigned"
	"switchyard.dev/tools/demo/local"
)

// linked is the cluster as the control plane knows it.
var linked = registry.Cluster{Organisation: "acme", Name: "demo"}

// controlPlane is a link server on a machine of its own.
type controlPlane struct {
	machine *local.Machine
	link    *server.Server
	folder  string // its files
	token   string // of the cluster
	key     string // of the user
	// agents and users are the addresses of its listeners.
	agents, users string
	end           func() error
}

// newControlPlane begins a control plane on a machine that the cluster reaches, and that reaches
// nothing of the cluster. The caller removes it, also after an error.
func newControlPlane(ctx context.Context) (p *controlPlane, err error) {
	p = &controlPlane{machine: local.NewMachine("controlplane", 63), token: secret(), key: secret(), end: func() error { return nil }}
	p.agents, p.users = net.JoinHostPort(p.machine.Address, "443"), net.JoinHostPort(p.machine.Address, "8443")
	if p.folder, err = os.MkdirTemp("", "switchyard-link-"); err != nil {
		return p, err
	}
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
	if err := p.files(); err != nil {
		return p, err
	}
	main, err := p.listen()
	if err != nil {
		return p, err
	}
	p.link = main.Link()
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- main.Run(ctx) }()
	p.end = func() error { stop(); return <-ended }
	return p, nil
}

// secret returns the text of 32 random bytes.
func secret() string { return rand.Text() + rand.Text() }

// file returns the path of one of its files.
func (p *controlPlane) file(name string) string { return filepath.Join(p.folder, name) }

// files writes the files of the link server.
func (p *controlPlane) files() error {
	signing, err := signingKey()
	if err != nil {
		return err
	}
	pair, err := selfsigned.New("control plane of the demo", net.ParseIP(p.machine.Address))
	if err != nil {
		return err
	}
	if err := pair.Write(p.folder); err != nil {
		return err
	}
	for name, text := range map[string][]byte{
		"signing.key": signing, "api.key": []byte(p.key),
		"credentials.yaml": fmt.Appendf(nil, "apiKeys: [{sha256: %x, organisation: acme, user: jo, roles: [dev], clusters: [demo]}]\nclusterTokens: [{sha256: %x, organisation: acme, clusters: [demo]}]\n",
			sha256.Sum256([]byte(p.key)), sha256.Sum256([]byte(p.token))),
	} {
		if err := os.WriteFile(p.file(name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// listen opens the listeners of the link server on its machine.
func (p *controlPlane) listen() (m *linkserver.Main, err error) {
	folder, err := trust.Open(trust.Config{Dir: p.folder, Name: p.machine.Address})
	if err != nil {
		return nil, err
	}
	err = podnet.OnOwnThread(func() error {
		ns, err := netns.GetFromName(p.machine.Name)
		if err != nil {
			return fmt.Errorf("find the network of the control plane: %w", err)
		}
		defer ns.Close()
		if err := netns.Set(ns); err != nil {
			return fmt.Errorf("enter the network of the control plane: %w", err)
		}
		m, err = linkserver.New(linkserver.Config{
			AgentsAddress: p.agents, UsersAddress: p.users, MetricsAddress: net.JoinHostPort(p.machine.Address, "9090"),
			Credentials: p.file("credentials.yaml"), SigningKey: p.file("signing.key"), TLS: folder,
			Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		})
		return err
	})
	return m, err
}

// signingKey makes the private key of credentials.
func signingKey() ([]byte, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
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
	return errors.Join(err, os.RemoveAll(p.folder))
}
