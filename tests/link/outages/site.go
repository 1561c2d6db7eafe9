package outages

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/tests/devmesh/control"
	"switchyard.dev/tests/podnet"
	"switchyard.dev/tests/program"
	"switchyard.dev/tests/selfsigned"
	"switchyard.dev/tests/sidecar"
	"switchyard.dev/tools/wait"
)

// Names of every control plane here.
const (
	serverName   = "control-plane.test"
	organisation = "acme"
	clusterName  = "prod"
	userName     = "jo"
)

// Ports of link servers.
const (
	agentsPort  = "7443"
	usersPort   = "8443"
	metricsPort = "9090"
)

// secret returns the text of 32 random bytes.
func secret() string { return rand.Text() + rand.Text() }

func entry(of, rest string) string {
	return fmt.Sprintf("- {sha256: %x, organisation: %s, %s}\n", sha256.Sum256([]byte(of)), organisation, rest)
}

// files are those of a link server: a folder with its certificate and credentials.
type files struct {
	folder string
	pair   selfsigned.Pair
	key    string // of the user
}

// newFiles writes the files of a link server at addresses.
func (w *world) newFiles(name string, addresses ...net.IP) (f files, err error) {
	f = files{folder: filepath.Join(w.dir, name), key: secret()}
	if f.pair, err = selfsigned.New(serverName, addresses...); err != nil {
		return f, err
	}
	return f, f.pair.Write(f.folder)
}

// credentials writes the credentials, with the tokens of clusters by their names.
func (f files) credentials(tokens map[string]string) error {
	var text strings.Builder
	text.WriteString("apiKeys:\n" + entry(f.key, "user: "+userName+", clusters: ['*']") + "clusterTokens:\n")
	for name, token := range tokens {
		text.WriteString(entry(token, "clusters: ["+name+"]"))
	}
	next := filepath.Join(f.folder, "credentials.next")
	if err := os.WriteFile(next, []byte(text.String()), 0o600); err != nil {
		return err
	}
	return os.Rename(next, filepath.Join(f.folder, "credentials.yaml"))
}

// site is a control plane on a machine of its own, and the agent of a cluster.
type site struct {
	*world
	files
	name  string
	token string
	pod   *podnet.Pod
	line  *line
	// agents is the address for agents, and users that for users, which needs no line.
	agents, users string
	server, agent *program.Program
	user          *user
}

// newSite makes a machine, with the number of its pod, on which startServer starts a link server.
func (w *world) newSite(name string, number byte) (s *site, err error) {
	s = &site{world: w, name: name, token: secret()}
	if s.pod, err = w.newPod(number); err != nil {
		return s, err
	}
	l, err := s.pod.NewLine(number)
	if err != nil {
		return s, err
	}
	s.line = begin(l)
	w.lines = append(w.lines, s.line)
	s.agents, s.users = net.JoinHostPort(l.IP.String(), agentsPort), net.JoinHostPort(s.pod.IP.String(), usersPort)
	if s.files, err = w.newFiles(name, l.IP, s.pod.IP); err != nil {
		return s, err
	}
	s.user = w.newUser(s.users, s.key, clusterName, s.pair.Cert)
	return s, s.credentials(map[string]string{clusterName: s.token})
}

// startServer starts the link server, and returns once it serves.
func (s *site) startServer() (err error) {
	cmd := exec.CommandContext(context.WithoutCancel(s.ctx), sidecar.Built(serverProgram), //nolint:gosec // a built program
		"--agents-address", s.agents, "--users-address", s.users, "--metrics-address", net.JoinHostPort(s.pod.IP.String(), metricsPort),
		"--tls-dir", s.folder, "--tls-name", serverName, "--credentials", filepath.Join(s.folder, "credentials.yaml"))
	if s.server, err = program.Start(filepath.Join(s.dir, "logs"), s.name+"-linkserver", cmd, s.pod.Do); err != nil {
		return err
	}
	return wait.Until(s.ctx, patience, "the link server is ready", func() error {
		if err := s.server.Running(); err != nil {
			return err
		}
		return sidecar.Healthy(s.ctx, "http://"+net.JoinHostPort(s.pod.IP.String(), metricsPort)+"/readyz")
	})
}

// startAgent starts the agent of a control plane at an address, with further variables.
func (w *world) startAgent(f files, name, address, token string, variables ...string) (*program.Program, error) {
	file := filepath.Join(f.folder, "token")
	if err := errors.Join(os.WriteFile(file, []byte(token), 0o600), os.MkdirAll(filepath.Join(f.folder, "journal"), 0o700)); err != nil {
		return nil, err
	}
	return w.control.Run(control.Part{
		Program: agentProgram, Account: accountName, Name: name + "-agent", Env: variables,
		Args: []string{
			"--control-plane", address, "--ca-file", filepath.Join(f.folder, trust.BundleFile), "--token-file", file, "--journal-dir", filepath.Join(f.folder, "journal"),
			"--health-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0",
			"--namespace", control.System, "--cluster-domain", "cluster.local", "--report-unknown=false",
		},
	})
}

// start starts the link server and an agent at its line, and returns once requests are answered.
func (s *site) start() (err error) {
	if err := s.startServer(); err != nil {
		return err
	}
	if s.agent, err = s.startAgent(s.files, s.name, s.agents, s.token); err != nil {
		return err
	}
	return s.steady()
}

// close ends both programs.
func (s *site) close() {
	s.agent.Kill()
	s.server.Kill()
}

// steady waits until requests are answered, or a program has ended.
func (s *site) steady() error {
	return wait.Until(s.ctx, patience, "requests are answered", func() error {
		if err := s.running(); err != nil {
			return wait.Final(err)
		}
		return s.user.steadily(s.ctx)
	})
}

// running returns an error if a program has ended by itself.
func (s *site) running() error { return errors.Join(s.server.Running(), s.agent.Running()) }

// pause waits for a random part of a duration.
func (w *world) pause(atMost time.Duration) error {
	return wait.For(w.ctx, randomUpTo(atMost))
}
