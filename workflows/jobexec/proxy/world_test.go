package proxy_test

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/trust/trusttest"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/tests/port"
	"switchyard.dev/tests/program"
	"switchyard.dev/tools/wait"
	"switchyard.dev/workflows/jobexec/client"
	"switchyard.dev/workflows/jobexec/layout"
	"switchyard.dev/workflows/jobexec/ticket"
)

// programs is the folder with the built programs.
var programs string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "runner")
	if err != nil {
		panic(err)
	}
	programs = dir
	build := exec.Command("go", "build", "-trimpath", "-o", dir+"/", "switchyard.dev/workflows/cmd/job-executor", "switchyard.dev/workflows/cmd/job-executor-proxy") //nolint:noctx // it ends
	if text, err := build.CombinedOutput(); err != nil {
		panic(fmt.Sprint(err, string(text)))
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

const (
	podUID = "11111111-2222-3333-4444-555555555555"
	token  = "the-token-of-the-pod"
)

// manager is the service Runners, with real certificates.
type manager struct {
	jobexecv1.UnimplementedRunnersServer
	ca   *x509.Certificate
	key  *ecdsa.PrivateKey
	keys ticket.Keys

	mu sync.Mutex
	// life is that of certificates, enrolled counts them; change changes one before it is signed, and others is signed
	// for if it is not nil.
	life     time.Duration
	enrolled int
	change   func(*x509.Certificate)
	others   any
}

// Enrol implements jobexecv1.RunnersServer.
func (m *manager) Enrol(ctx context.Context, r *jobexecv1.EnrolRequest) (*jobexecv1.Enrolled, error) {
	if got := metadata.ValueFromIncomingContext(ctx, "authorization"); len(got) != 1 || got[0] != "Bearer "+token {
		return nil, status.Errorf(codes.Unauthenticated, "the token is %q", got)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	public, err := x509.ParsePKIXPublicKey(r.GetPublicKey())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if m.others != nil {
		public = m.others
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(int64(m.enrolled + 2)), DNSNames: []string{client.Name(podUID)}, NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(m.life),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	if m.change != nil {
		m.change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, m.ca, public, m.key)
	if err != nil {
		return nil, err
	}
	m.enrolled++
	return &jobexecv1.Enrolled{Certificate: certificatePEM(der), TicketKeys: []byte(m.keys.String()), Authority: certificatePEM(m.ca.Raw), Expires: timestamppb.New(template.NotAfter)}, nil
}

func certificatePEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// world is a runner of the real programs, beside a manager.
type world struct {
	testing.TB
	// dir has everything; volume is what both containers mount, and store what the proxy has alone.
	dir, volume, store string
	manager            *manager
	managerAddress, ca string
	tickets            ed25519.PrivateKey
	executor, proxy    *program.Program
	address, health    string
	// routing is the address of the HTTP proxy of scripts.
	routing string
	// tokenFile has the token of the pod; empty: token in dir.
	tokenFile string
	// more are flags of the proxy, and env is added to its environment.
	more, env []string
	// executorEnv is added to the environment of the executor, and before executes it; empty: nothing.
	executorEnv, before []string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{TB: t, dir: t.TempDir(), store: filepath.Join(t.TempDir(), "store")}
	w.volume = filepath.Join(w.dir, "volume")
	public, private, err := ed25519.GenerateKey(rand.Reader)
	w.must(err)
	keys, err := ticket.KeysOf(public)
	w.must(err)
	w.tickets = private
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.must(err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "runners"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	w.must(err)
	ca, err := x509.ParseCertificate(der)
	w.must(err)
	w.manager = &manager{ca: ca, key: key, keys: keys, life: time.Hour}
	w.serve()
	free, err := port.Free("127.0.0.1")
	w.must(err)
	w.address = fmt.Sprint("127.0.0.1:", free)
	free, err = port.Free("127.0.0.1")
	w.must(err)
	w.health = fmt.Sprint("127.0.0.1:", free)
	free, err = port.Free("127.0.0.1")
	w.must(err)
	w.routing = fmt.Sprint("127.0.0.1:", free)
	w.must(os.WriteFile(filepath.Join(w.dir, "token"), []byte(token+"\n"), 0o600))
	w.must(os.MkdirAll(filepath.Join(w.dir, "home"), 0o700))
	w.must(w.program("job-executor", "install", w.volume).Run())
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// serve serves the manager.
func (w *world) serve() {
	authority, dir := trusttest.New(w, "operator"), w.TempDir()
	authority.Write(w, dir, authority.Leaf(w, "127.0.0.1"))
	folder, err := trust.Open(trust.Config{Dir: dir, Name: "127.0.0.1"})
	w.must(err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	w.must(err)
	server := grpc.NewServer(grpc.Creds(trust.ServerCredentials(folder.Server(), false)))
	jobexecv1.RegisterRunnersServer(server, w.manager)
	go func() { _ = server.Serve(l) }()
	w.Cleanup(server.Stop)
	w.managerAddress, w.ca = l.Addr().String(), string(authority.Bundle())
}

func (w *world) program(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(programs, name), args...) //nolint:noctx // it is ended
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(w.dir, "home"), "WORLD=" + w.dir}
	return cmd
}

// startExecutor starts the executor, which is the main container, and startProxy the proxy.
func (w *world) startExecutor() {
	w.Helper()
	cmd := w.program("job-executor", "serve", w.volume)
	cmd.Env = append(cmd.Env, w.executorEnv...)
	if len(w.before) > 0 {
		args := append(slices.Clone(w.before[1:]), cmd.Args...)
		env := cmd.Env
		cmd = exec.Command(w.before[0], args...) //nolint:noctx // it is ended
		cmd.Env = env
	}
	p, err := program.Start(w.dir, "executor", cmd, nil)
	w.must(err)
	w.executor = p
	w.Cleanup(p.Kill)
}

func (w *world) startProxy() {
	w.Helper()
	cmd := w.program("job-executor-proxy", append([]string{"-address", w.address, "-health-address", w.health, "-routing-address", w.routing, "-store", w.store,
		"-socket", filepath.Join(w.volume, "run/executor.sock"), "-token", cmp.Or(w.tokenFile, filepath.Join(w.dir, "token")), "-log-level", "debug"}, w.more...)...)
	cmd.Env = append(cmd.Env, layout.EnvPodUID+"="+podUID, layout.EnvAuthority+"="+w.managerAddress, layout.EnvCA+"="+w.ca)
	cmd.Env = append(cmd.Env, w.env...)
	p, err := program.Start(w.dir, "proxy", cmd, nil)
	w.must(err)
	w.proxy = p
	w.Cleanup(p.Kill)
}

// begin starts both, and returns a client of the controller.
func begin(t testing.TB) (*world, *client.Client) {
	w := newWorld(t)
	w.startExecutor()
	w.startProxy()
	c := w.controller()
	w.ready(c)
	return w, c
}

// ready waits until the runner is ready.
func (w *world) ready(c *client.Client) *jobexecv1.RunnerStatus {
	w.Helper()
	var got *jobexecv1.RunnerStatus
	wait.Eventually(w, time.Minute, "the runner is ready", func() (err error) {
		if got, err = c.Runner(w.Context(), &jobexecv1.RunnerRequest{}); err == nil && !got.GetReady() {
			err = errors.New(got.GetProblem())
		}
		return err
	})
	return got
}

// controller returns a client with a ticket for everything.
func (w *world) controller() *client.Client {
	return w.client(w.address, ticket.Claims{PodUID: podUID, JobUID: ticket.AnyJob, User: "controller", Verbs: []ticket.Verb{ticket.Run}})
}

// client returns a client at an address, with a ticket.
func (w *world) client(address string, claims ticket.Claims) *client.Client {
	w.Helper()
	c, err := client.New(client.Runner{Address: address, PodUID: podUID, Authority: certificatePEM(w.manager.ca.Raw), Patience: time.Minute,
		Ticket: func(context.Context) (string, time.Time, error) { return ticket.Issue(w.tickets, claims, time.Now()) }})
	w.must(err)
	w.Cleanup(func() { _ = c.Close() })
	return c
}

// request returns a request to run a script.
func request(job string, lines ...string) *jobexecv1.RunRequest {
	return &jobexecv1.RunRequest{Ref: &jobexecv1.ExecutionRef{JobUid: job, Execution: 1}, Fence: &jobexecv1.Fence{PodUid: podUID}, JobName: job,
		Script: strings.Join(append([]string{"#!/bin/sh"}, lines...), "\n")}
}

// run runs a request as the controller does: again until it is answered, or refused for good.
func (w *world) run(c *client.Client, r *jobexecv1.RunRequest) {
	w.Helper()
	wait.Eventually(w, time.Minute, "the execution begins", func() error {
		_, err := c.Run(w.Context(), r)
		if status.Code(err) == codes.InvalidArgument {
			w.Fatal(err)
		}
		return err
	})
}

// end waits for the end of an execution, as the controller does: again when a watch is interrupted.
func (w *world) end(c *client.Client, r *jobexecv1.ExecutionRef) *jobexecv1.Status {
	w.Helper()
	var last *jobexecv1.Status
	wait.Eventually(w, 2*time.Minute, "the execution ends", func() error {
		ctx, cancel := context.WithTimeout(w.Context(), 2*time.Minute)
		defer cancel()
		stream, err := c.Watch(ctx, r)
		if err != nil {
			return err
		}
		for {
			s, err := stream.Recv()
			if err != nil {
				return errors.Join(err, fmt.Errorf("the last status is %v", last))
			}
			if last = s; s.GetPhase() == jobexecv1.Status_TERMINATED && s.GetArtifactsComplete() {
				return nil
			}
		}
	})
	return last
}

// logs returns a stream of output.
func (w *world) logs(c *client.Client, r *jobexecv1.ExecutionRef, kind jobexecv1.LogsRequest_Kind) string {
	w.Helper()
	var text strings.Builder
	_, err := c.Logs(w.Context(), &jobexecv1.LogsRequest{Ref: r, Kind: kind}, client.To(&text, 0, true))
	w.must(err)
	return text.String()
}

// logged returns the log of a program.
func (w *world) logged(name string) string {
	w.Helper()
	text, err := os.ReadFile(filepath.Join(w.dir, name+".log"))
	w.must(err)
	return string(text)
}
