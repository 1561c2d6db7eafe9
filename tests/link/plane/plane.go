// Package plane has a control plane beside the one-node cluster: a link server on a machine of its own, which the
// cluster can connect to, and which cannot connect to the cluster.
//
//	New         the machine and the files of the server
//	Serve       the server, in this process
//	Config      the same for a process of its own, which was started on the machine
package plane

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
	"strconv"
	"time"

	"github.com/vishvananda/netns"

	"switchyard.dev/controlplane-link/linkserver"
	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/controlplane-link/server"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/tests/podnet"
	"switchyard.dev/tests/selfsigned"
	"switchyard.dev/tools/demo/local"
)

// Organisation is that of the clusters and of the user.
const Organisation = "acme"

// Cluster returns a cluster as the control plane knows it.
func Cluster(name string) registry.Cluster {
	return registry.Cluster{Organisation: Organisation, Name: name}
}

// Plane is a link server on a machine of its own.
type Plane struct {
	Machine *local.Machine
	// Link is the server, once Serve was called.
	Link *server.Server
	// Folder has its files.
	Folder string
	// Tokens are the tokens of the clusters, and Key is the API key of the user jo, with role dev, for all of them.
	Tokens map[string]string
	Key    string

	end func() error
}

// The ports of its listeners.
const (
	Agents   = 7443
	Users    = 8443
	Replicas = 7444
	Metrics  = 9090
)

// New makes a machine that the cluster reaches, and that reaches nothing of the cluster, and the files of a link
// server with these clusters. The caller calls Remove, also after an error.
func New(ctx context.Context, clusters ...string) (p *Plane, err error) {
	p = &Plane{Machine: local.NewMachine("controlplane", 63), Tokens: map[string]string{}, Key: secret(), end: func() error { return nil }}
	for _, name := range clusters {
		p.Tokens[name] = secret()
	}
	if p.Folder, err = os.MkdirTemp("", "switchyard-link-"); err != nil {
		return p, err
	}
	if err := p.Machine.Add(ctx, "default"); err != nil {
		return p, err
	}
	for _, chain := range []string{"INPUT", "FORWARD"} {
		rule := chain + " -i " + p.Machine.Link + " -m conntrack --ctstate NEW -j DROP"
		_ = local.Line(ctx, "iptables -D "+rule) // of a story that was cut off
		if err := local.Line(ctx, "iptables -I "+rule); err != nil {
			return p, err
		}
	}
	return p, p.files()
}

// Address returns the address of a listener.
func (p *Plane) Address(port int) string { return at(p.Machine.Address, port) }

func at(address string, port int) string { return net.JoinHostPort(address, strconv.Itoa(port)) }

// Serve runs the link server in this process until Remove.
func (p *Plane) Serve(ctx context.Context) error {
	main, err := p.listen()
	if err != nil {
		return err
	}
	p.Link = main.Link()
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- main.Run(ctx) }()
	p.end = func() error { stop(); return <-ended }
	return nil
}

// secret returns the text of 32 random bytes.
func secret() string { return rand.Text() + rand.Text() }

// File returns the path of one of its files.
func (p *Plane) File(name string) string { return filepath.Join(p.Folder, name) }

// KeyFile is the file with the API key.
const KeyFile = "api.key"

// files writes the files of the link server.
func (p *Plane) files() error {
	signing, err := signingKey()
	if err != nil {
		return err
	}
	pair, err := selfsigned.New("controlplane", net.ParseIP(p.Machine.Address))
	if err != nil {
		return err
	}
	if err := pair.Write(p.Folder); err != nil {
		return err
	}
	credentials := fmt.Appendf(nil, "apiKeys: [{sha256: %x, organisation: %s, user: jo, roles: [dev], clusters: ['*']}]\nclusterTokens:\n", sha256.Sum256([]byte(p.Key)), Organisation)
	for name, token := range p.Tokens {
		credentials = fmt.Appendf(credentials, "- {sha256: %x, organisation: %s, clusters: [%s]}\n", sha256.Sum256([]byte(token)), Organisation, name)
	}
	for name, text := range map[string][]byte{
		"signing.key": signing, KeyFile: []byte(p.Key), "credentials.yaml": credentials,
	} {
		if err := os.WriteFile(p.File(name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Config returns the configuration of a link server with the files of a folder, at the address of its machine. It
// serves other replicas as well.
func Config(folder, address string, logger *slog.Logger) (linkserver.Config, error) {
	files, err := trust.Open(trust.Config{Dir: folder, Name: address})
	if err != nil {
		return linkserver.Config{}, err
	}
	return linkserver.Config{
		AgentsAddress: at(address, Agents), UsersAddress: at(address, Users), MetricsAddress: at(address, Metrics), ReplicasAddress: at(address, Replicas),
		Credentials: filepath.Join(folder, "credentials.yaml"), SigningKey: filepath.Join(folder, "signing.key"), TLS: files, Logger: logger,
		Server: server.Config{Replica: at(address, Replicas), Replicas: files.Mutual()},
	}, nil
}

// listen opens the listeners of the link server on its machine.
func (p *Plane) listen() (m *linkserver.Main, err error) {
	c, err := Config(p.Folder, p.Machine.Address, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		return nil, err
	}
	err = podnet.OnOwnThread(func() error {
		ns, err := netns.GetFromName(p.Machine.Name)
		if err != nil {
			return fmt.Errorf("find the network of the control plane: %w", err)
		}
		defer ns.Close()
		if err := netns.Set(ns); err != nil {
			return fmt.Errorf("enter the network of the control plane: %w", err)
		}
		m, err = linkserver.New(c)
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

// Remove ends the control plane and takes its machine away.
func (p *Plane) Remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := p.end()
	for _, chain := range []string{"INPUT", "FORWARD"} {
		err = errors.Join(err, local.Line(ctx, "iptables -D "+chain+" -i "+p.Machine.Link+" -m conntrack --ctstate NEW -j DROP"))
	}
	p.Machine.Remove(ctx)
	return errors.Join(err, os.RemoveAll(p.Folder))
}
