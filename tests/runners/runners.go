// Package runners runs real runners of jobs: job-executor and job-executor-proxy as processes of this
// machine, at loopback addresses of their own, with certificates of a test authority.
package runners

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
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
	"switchyard.dev/tests/program"
	"switchyard.dev/workflows/jobexec/client"
	"switchyard.dev/workflows/jobexec/layout"
	"switchyard.dev/workflows/jobexec/ticket"
)

// Build builds the programs into a folder, once for a test binary.
var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "runners")
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-o", dir+"/", "switchyard.dev/workflows/cmd/job-executor", "switchyard.dev/workflows/cmd/job-executor-proxy") //nolint:noctx // it ends
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, text)
	}
	return dir, nil
})

// Clean deletes the programs: a TestMain calls it at the end.
func Clean() {
	if dir, err := build(); err == nil {
		_ = os.RemoveAll(dir)
	}
}

// Authority is the service Runners of a manager, and signs tickets. The token of a pod is its UID.
type Authority struct {
	jobexecv1.UnimplementedRunnersServer
	ca      *x509.Certificate
	key     *ecdsa.PrivateKey
	tickets ed25519.PrivateKey
	keys    ticket.Keys
	address string
	roots   string
	token   func(podUID string) string
}

// At returns the service Runners of another program, at an address with a certificate of roots. The test gives the
// tokens of pods. It signs nothing.
func At(address, roots string, token func(podUID string) string) *Authority {
	return &Authority{address: address, roots: roots, token: token}
}

// NewAuthority serves an authority until the test ends.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	public, tickets, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	keys, err := ticket.KeysOf(public)
	must(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "runners"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	ca, err := x509.ParseCertificate(der)
	must(t, err)
	a := &Authority{ca: ca, key: key, tickets: tickets, keys: keys, token: func(uid string) string { return uid }}
	operator, dir := trusttest.New(t, "operator"), t.TempDir()
	operator.Write(t, dir, operator.Leaf(t, "127.0.0.1"))
	folder, err := trust.Open(trust.Config{Dir: dir, Name: "127.0.0.1"})
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // of a test
	must(t, err)
	server := grpc.NewServer(grpc.Creds(trust.ServerCredentials(folder.Server(), false)))
	jobexecv1.RegisterRunnersServer(server, a)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	a.address, a.roots = l.Addr().String(), string(operator.Bundle())
	return a
}

// Enrol implements jobexecv1.RunnersServer.
func (a *Authority) Enrol(ctx context.Context, r *jobexecv1.EnrolRequest) (*jobexecv1.Enrolled, error) {
	uid, is := strings.CutPrefix(strings.Join(metadata.ValueFromIncomingContext(ctx, "authorization"), ""), "Bearer ")
	public, err := x509.ParsePKIXPublicKey(r.GetPublicKey())
	if !is || err != nil {
		return nil, status.Errorf(codes.Unauthenticated, "the token is %q: %v", uid, err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(mathrand.Int64()), DNSNames: []string{client.Name(uid)}, NotBefore: time.Now().Add(-time.Minute),
		NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, a.ca, public, a.key)
	if err != nil {
		return nil, err
	}
	authority, _ := a.PEM()
	return &jobexecv1.Enrolled{Certificate: block(der), TicketKeys: []byte(a.keys.String()), Authority: authority, Expires: timestamppb.New(template.NotAfter)}, nil
}

func block(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// PEM returns the certificate that signs those of runners.
func (a *Authority) PEM() ([]byte, error) { return block(a.ca.Raw), nil }

// Issue issues a ticket.
func (a *Authority) Issue(c ticket.Claims) (string, time.Time, error) {
	return ticket.Issue(a.tickets, c, time.Now())
}

// Runner is a runner at an address of its own. Its processes are started by Start.
type Runner struct {
	t         testing.TB
	authority *Authority
	// IP is its address, and Dir the folder of its volumes.
	IP, Dir string
	uid     string

	executor, proxy *program.Program
	env             []string
}

// New returns the runner of a pod that does not exist yet. env is added to the environment of scripts.
func New(t testing.TB, a *Authority, env ...string) *Runner {
	t.Helper()
	_, err := build()
	must(t, err)
	return &Runner{t: t, authority: a, Dir: t.TempDir(), env: env,
		IP: fmt.Sprintf("127.%d.%d.%d", 2+mathrand.IntN(250), mathrand.IntN(250), 2+mathrand.IntN(250))}
}

// Start starts both processes for the pod with this UID.
func (r *Runner) Start(uid string) {
	r.t.Helper()
	r.uid = uid
	must(r.t, os.MkdirAll(filepath.Join(r.Dir, "home"), 0o700))
	must(r.t, os.WriteFile(filepath.Join(r.Dir, "token"), []byte(r.authority.token(uid)+"\n"), 0o600))
	must(r.t, r.command("job-executor", "install", r.volume()).Run())
	r.t.Cleanup(r.Kill)
	r.StartExecutor()
	r.StartProxy()
}

// StartExecutor starts the process of the main container.
func (r *Runner) StartExecutor() {
	r.t.Helper()
	cmd := r.command("job-executor", "serve", r.volume())
	cmd.Env = append(cmd.Env, marker+r.Dir)
	p, err := program.Start(r.Dir, "executor", cmd, nil)
	must(r.t, err)
	r.executor = p
}

// StartProxy starts that of the container job-executor-proxy.
func (r *Runner) StartProxy() {
	r.t.Helper()
	cmd := r.command("job-executor-proxy", "-address", fmt.Sprintf("%s:%d", r.IP, layout.Port), "-health-address", fmt.Sprintf("%s:%d", r.IP, layout.HealthPort),
		"-routing-address", "127.0.0.1:0",
		"-store", filepath.Join(r.Dir, "store"), "-socket", filepath.Join(r.volume(), "run/executor.sock"), "-token", filepath.Join(r.Dir, "token"), "-log-level", "debug")
	cmd.Env = append(cmd.Env, layout.EnvPodUID+"="+r.uid, layout.EnvAuthority+"="+r.authority.address, layout.EnvCA+"="+r.authority.roots)
	p, err := program.Start(r.Dir, "proxy", cmd, nil)
	must(r.t, err)
	r.proxy = p
}

// KillExecutor and KillProxy end one of the processes without warning, and Kill both. All that the executor has
// started ends with it, as with process 1 of a container.
func (r *Runner) KillExecutor() {
	r.executor.Kill()
	for len(r.started(true)) > 0 {
		time.Sleep(time.Millisecond)
	}
}

// KillProxy is documented at KillExecutor.
func (r *Runner) KillProxy() { r.proxy.Kill() }

// Kill is documented at KillExecutor.
func (r *Runner) Kill() {
	r.KillExecutor()
	r.proxy.Kill()
}

// PIDs are those of the processes.
func (r *Runner) PIDs() (executor, proxy int) { return r.executor.PID(), r.proxy.PID() }

// Ended reports which of the processes have ended.
func (r *Runner) Ended() (executor, proxy bool) {
	return r.executor.Running() != nil, r.proxy.Running() != nil
}

// marker is the variable by which processes of the main container are found.
const marker = "TEST_RUNNER="

// Started returns the processes of the main container.
func (r *Runner) Started() []int { return r.started(false) }

func (r *Runner) started(kill bool) (pids []int) {
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	must(r.t, err)
	for _, path := range all {
		text, _ := os.ReadFile(path) // it may have ended
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil || !slices.Contains(strings.Split(string(text), "\x00"), marker+r.Dir) {
			continue
		}
		pids = append(pids, pid)
		if kill {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
	return pids
}

// Terminate ends both processes as a kubelet does: SIGTERM at the same time.
func (r *Runner) Terminate(within time.Duration) {
	var all sync.WaitGroup
	for _, p := range []*program.Program{r.executor, r.proxy} {
		all.Go(func() { _ = p.Terminate(within) })
	}
	all.Wait()
	r.Kill()
}

// Log returns the log of a process: executor or proxy.
func (r *Runner) Log(name string) string {
	text, _ := os.ReadFile(filepath.Join(r.Dir, name+".log")) // it may not have started
	return string(text)
}

func (r *Runner) volume() string { return filepath.Join(r.Dir, "volume") }

func (r *Runner) command(name string, args ...string) *exec.Cmd {
	dir, err := build()
	must(r.t, err)
	cmd := exec.Command(filepath.Join(dir, name), args...) //nolint:noctx // it is ended
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(r.Dir, "home")}, r.env...)
	return cmd
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
