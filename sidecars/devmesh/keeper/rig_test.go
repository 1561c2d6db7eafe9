package keeper_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"switchyard.dev/routeserver/table"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/sidecars/redirect"
	"switchyard.dev/sidecars/redirect/spec"
	"switchyard.dev/tools/envoy"
	"switchyard.dev/xds/routingkey/keytest"
	"switchyard.dev/xds/serve"
	"switchyard.dev/xds/xdstest"
)

// The test process runs again in a network namespace of its own, as the node;
// each rig has another one, as the pod, joined to it by a cable.
const (
	isolated    = "SWITCHYARD_TEST_ISOLATED"
	programPath = "SWITCHYARD_TEST_PROGRAM"
	patience    = 10 * time.Second
)

var customer = table.Workload{Kind: "Deployment", Namespace: "hotrod", Name: "customer"}

func TestMain(m *testing.M) {
	if os.Getenv(isolated) != "" {
		if err := bringUp("lo", ""); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	code, err := runIsolated()
	if err != nil {
		fmt.Fprintln(os.Stderr, "these tests need root, to make network namespaces:", err)
		code = 1
	}
	os.Exit(code)
}

// runIsolated builds the sidecar's program and runs this test in a new network
// namespace.
func runIsolated() (int, error) {
	dir, err := os.MkdirTemp("", "devmesh-test-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "devmesh")
	if out, err := exec.Command("go", "build", "-o", program, "switchyard.dev/sidecars/cmd/devmesh").CombinedOutput(); err != nil {
		return 0, fmt.Errorf("build the program: %w: %s", err, out)
	}
	envoyPath, err := envoy.Find(context.Background())
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Env = append(os.Environ(), isolated+"=1", programPath+"="+program, "ENVOY="+envoyPath)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return exit.ExitCode(), nil
		}
		return 0, err
	}
	return 0, nil
}

func bringUp(device, cidr string) error {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return fmt.Errorf("find %s: %w", device, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", device, err)
	}
	if cidr == "" {
		return nil
	}
	address, err := netlink.ParseAddr(cidr)
	if err != nil {
		return err
	}
	if address.IP.To4() == nil {
		address.Flags = unix.IFA_F_NODAD // usable at once
	}
	if err := netlink.AddrAdd(link, address); err != nil && !errors.Is(err, syscall.EEXIST) {
		return fmt.Errorf("give %s the address %s: %w", device, cidr, err)
	}
	return nil
}

// rig is a pod with a baseline application and a sidecar, and a node with an
// xDS server and forks.
type rig struct {
	t       *testing.T
	pod     netns.NsHandle
	address string // of the pod
	ipv6    string // of the pod
	node    string // address of the node
	run     string // the sidecar's folder
	Board   *xdstest.Board
	XDS     *serve.Server
	grpc    *grpc.Server
}

var rigs atomic.Int32

// newRig makes a pod in which the applications that rig.app starts can listen.
// There is no xDS server and no sidecar yet.
func newRig(t *testing.T) *rig {
	t.Helper()
	i := rigs.Add(1)
	run, err := os.MkdirTemp("", "dm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(run) })
	r := &rig{
		t: t, run: run, Board: xdstest.NewBoard(t),
		address: fmt.Sprintf("10.79.%d.2", i), node: fmt.Sprintf("10.79.%d.1", i),
		ipv6: fmt.Sprintf("fd79:%d::2", i),
	}
	if err := os.WriteFile(filepath.Join(run, "token"), []byte("pod@customer\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.must(onThread(func() error {
		home, err := netns.Get()
		if err != nil {
			return err
		}
		defer home.Close()
		if r.pod, err = netns.New(); err != nil {
			return err
		}
		return netns.Set(home)
	}))
	t.Cleanup(func() { _ = r.pod.Close() })
	cable := fmt.Sprintf("pod%d", i)
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: cable}, PeerName: "eth0", PeerNamespace: netlink.NsFd(r.pod)}
	r.must(netlink.LinkAdd(veth))
	t.Cleanup(func() { _ = netlink.LinkDel(veth) })
	r.must(bringUp(cable, r.node+"/24"))
	r.must(bringUp(cable, fmt.Sprintf("fd79:%d::1/64", i)))
	r.inPod(func() error {
		if err := errors.Join(bringUp("lo", ""), bringUp("eth0", r.address+"/24"), bringUp("eth0", r.ipv6+"/64")); err != nil {
			return err
		}
		if err := netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(r.node)}); err != nil {
			return err
		}
		_, err := redirect.Apply(spec.Spec{All: true, Except: []uint16{devmesh.ReadinessPort}, To: devmesh.ListenerPort}, redirect.Config{})
		return err
	})
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// inPod runs f on a thread in the pod's network namespace.
func (r *rig) inPod(f func() error) {
	r.t.Helper()
	r.must(onThread(func() error {
		if err := netns.Set(r.pod); err != nil {
			return err
		}
		return f()
	}))
}

// onThread runs f on a thread that nobody else uses afterwards.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	return <-done
}

// app listens on a port in the pod, as the baseline's application.
func (r *rig) app(port int) net.Listener {
	r.t.Helper()
	var l net.Listener
	r.inPod(func() (err error) {
		l, err = net.Listen("tcp", fmt.Sprintf(":%d", port))
		return err
	})
	r.t.Cleanup(func() { _ = l.Close() })
	return l
}

// fork listens at an address of the node's own, as a sandbox's Service.
func (r *rig) fork(address string) net.Listener {
	r.t.Helper()
	host, _, err := net.SplitHostPort(address)
	r.must(err)
	r.must(bringUp("lo", host+"/32"))
	l, err := net.Listen("tcp4", address)
	r.must(err)
	r.t.Cleanup(func() { _ = l.Close() })
	return l
}

const xdsPort = "7779"

// serveXDS starts an xDS server on the board; it may be stopped and another one
// started.
func (r *rig) serveXDS() {
	r.t.Helper()
	r.serveView(r.Board.View)
}

// serveView starts an xDS server on any view.
func (r *rig) serveView(view serve.View) {
	r.t.Helper()
	sessions, err := serve.FromView(serve.ViewConfig{View: view, Identify: identify})
	r.must(err)
	r.XDS, err = serve.New(serve.Config{Sessions: sessions})
	r.must(err)
	l, err := net.Listen("tcp", net.JoinHostPort(r.node, xdsPort))
	r.must(err)
	r.grpc = grpc.NewServer(serve.ServerOptions()...)
	r.XDS.Register(r.grpc)
	go func(g *grpc.Server) { _ = g.Serve(l) }(r.grpc)
	r.t.Cleanup(r.grpc.Stop)
}

// identify reads tokens of the form pod@workload.
func identify(_ context.Context, token string) (serve.Peer, error) {
	pod, workload, ok := strings.Cut(token, "@")
	if !ok {
		return serve.Peer{}, status.Error(codes.Unauthenticated, "unknown token")
	}
	return serve.Peer{
		Workload:  table.Workload{Kind: "Deployment", Namespace: "hotrod", Name: workload},
		Namespace: "hotrod", Pod: pod, UID: "uid-" + pod,
	}, nil
}

// sidecar starts the program in the pod and gives the process. It is killed at
// the end of the test.
func (r *rig) sidecar() *exec.Cmd {
	r.t.Helper()
	cmd := exec.Command(os.Getenv(programPath))
	cmd.Env = append(os.Environ(),
		devmesh.EnvWorkloadKind+"=Deployment", devmesh.EnvWorkloadNamespace+"=hotrod", devmesh.EnvWorkloadName+"=customer",
		devmesh.EnvXDSAddress+"="+net.JoinHostPort(r.node, xdsPort),
		devmesh.EnvCustomHeaders+"="+strings.Join(keytest.CustomHeaders(), ", "),
		devmesh.EnvPodNamespace+"=hotrod", devmesh.EnvPodName+"=pod",
		devmesh.EnvRunPath+"="+r.run, devmesh.EnvTokenFile+"="+filepath.Join(r.run, "token"),
	)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r.inPod(cmd.Start)
	r.t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	return cmd
}

// ready waits until the sidecar says that it takes connections.
func (r *rig) ready() {
	r.t.Helper()
	r.eventually("the sidecar is ready", func() error {
		response, err := (&http.Client{Timeout: time.Second}).Get(
			fmt.Sprintf("http://%s:%d%s", r.address, devmesh.ReadinessPort, devmesh.ReadinessPath))
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	})
}

// acked waits until the server knows that the sidecar has what there is.
func (r *rig) acked() {
	r.t.Helper()
	r.eventually("the sidecar has acknowledged", func() error {
		newest, _ := r.Board.View.Current()
		want, err := newestVersion(newest)
		if err != nil {
			return err
		}
		acks := r.XDS.Acks()
		if len(acks) != 1 || acks[0].Acked != want {
			return fmt.Errorf("%+v, want %s", acks, want)
		}
		return nil
	})
}

// eventually waits until f gives nil.
func (r *rig) eventually(what string, f func() error) {
	r.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("in vain: %s: %v", what, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
