// Package captured is the pod of a fork under capture, without a node: its objects in a real API server, traffic-manager in
// a process of its own, and the program of the traffic container.
package captured

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"switchyard.dev/eventbus/trust"
	crdv1 "switchyard.dev/protos/crd/v1"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/manager"
	"switchyard.dev/sidecars/traffic/record"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/port"
	"switchyard.dev/tests/process"
	"switchyard.dev/tests/program"
	"switchyard.dev/tests/selfsigned"
	"switchyard.dev/tools/wait"
)

// Role is that of the process of traffic-manager, which calls Manage.
const Role = "traffic-manager"

const (
	setting  = "CAPTURED_MANAGER"
	host     = "traffic-manager.signadot.svc"
	capture  = "capture"
	patience = 2 * time.Minute
)

// settings are those of the process of traffic-manager.
type settings struct {
	API        apiserver.Access
	Address    string
	TLS, Store string
	Bytes      int64
	Readers    []string
}

// Manage is traffic-manager, until the process is killed.
func Manage() error {
	var s settings
	if err := json.Unmarshal([]byte(os.Getenv(setting)), &s); err != nil {
		return err
	}
	folder, err := trust.Open(trust.Config{Dir: s.TLS, Name: host})
	if err != nil {
		return err
	}
	main, err := manager.New(manager.Config{
		REST: s.API.Config(), TLS: folder, Readers: s.Readers, Store: s.Store, StoreBytes: s.Bytes, Replica: "replica-0",
		Address: s.Address, HealthAddress: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	return main.Run(context.Background())
}

// Site is the pod of a fork in a namespace, with one capture.
type Site struct {
	// Address is that of traffic-manager, and Dir has the files of both programs and their logs.
	Address, Dir string

	settings settings
	client   client.Client
	object   *crdv1.TrafficCapture
	pod      *corev1.Pod
	reader   string
	conn     *grpc.ClientConn
}

// New creates the objects of a site. Its capture is attached to nothing. bytes is the size of the ring, and
// percent the share of traces that is captured.
func New(ctx context.Context, api *apiserver.Server, namespace, dir string, bytes int64, percent int32) (*Site, error) {
	s := &Site{Dir: dir}
	kube, err := kubernetes.NewForConfig(api.Config)
	if err != nil {
		return nil, err
	}
	if s.client, err = api.Client(); err != nil {
		return nil, err
	}
	if s.Address, err = Free(); err != nil {
		return nil, err
	}
	s.settings = settings{
		API: api.Access(), Address: s.Address, TLS: filepath.Join(dir, "tls"), Store: filepath.Join(dir, "store"), Bytes: bytes, Readers: []string{namespace + ":collector"},
	}
	fork := &crdv1.ForkedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fork"}}
	fork.Spec.Baseline = crdv1.ObjectRef{Kind: "Deployment", Name: "baseline"}
	s.object = &crdv1.TrafficCapture{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: capture}, Spec: crdv1.TrafficCaptureSpec{Sandbox: "sandbox", SamplePercent: percent}}
	if err := api.Create(ctx, apiserver.Namespace(namespace), apiserver.Account(namespace, "default"), apiserver.Account(namespace, "collector"), fork, s.object); err != nil {
		return nil, err
	}
	fork.Status.Fork = &crdv1.ForkStatus{ObjectRef: &crdv1.ObjectRef{Kind: "Deployment", Namespace: namespace, Name: "fork"}}
	if err := s.client.Status().Update(ctx, fork); err != nil {
		return nil, err
	}
	set, err := apiserver.ReplicaSet(ctx, kube, namespace, "Deployment", "fork")
	if err != nil {
		return nil, err
	}
	if s.pod, err = apiserver.Pod(ctx, kube, set, "fork-a", "default"); err != nil {
		return nil, err
	}
	own, err := apiserver.Token(ctx, kube, namespace, "default", manager.Audience, s.pod)
	if err != nil {
		return nil, err
	}
	if s.reader, err = apiserver.Token(ctx, kube, namespace, "collector", manager.Audience, nil); err != nil {
		return nil, err
	}
	pair, err := selfsigned.New(host, net.IPv4(127, 0, 0, 1))
	if err != nil {
		return nil, err
	}
	if err := errors.Join(pair.Write(s.settings.TLS), os.WriteFile(s.file("token"), []byte(own), 0o600), os.WriteFile(s.file("ca"), pair.Cert, 0o600)); err != nil {
		return nil, err
	}
	roots, err := trust.ReadRoots(s.file("ca"), "the test")
	if err != nil {
		return nil, err
	}
	s.conn, err = trust.Dial(s.Address, host, roots)
	return s, err
}

// Free returns an address of this machine where nothing listens.
func Free() (string, error) {
	free, err := port.Free()
	return fmt.Sprintf("127.0.0.1:%d", free), err
}

func (s *Site) file(name string) string { return filepath.Join(s.Dir, name) }

// Store is the folder of the ring.
func (s *Site) Store() string { return s.settings.Store }

// Close closes the connection of the reader.
func (s *Site) Close() error { return s.conn.Close() }

// Attach attaches the capture to ports of the pod.
func (s *Site) Attach(ctx context.Context, ports ...crdv1.CapturedPort) error {
	s.object.Status.RoutingKey = "key"
	s.object.Status.Pods = []crdv1.CapturedPod{{Name: s.pod.Name, UID: s.pod.UID, Workload: "w", Ports: ports}}
	return s.client.Status().Update(ctx, s.object)
}

// StartManager starts traffic-manager on the store that there is.
func (s *Site) StartManager() (*program.Program, error) {
	text, err := json.Marshal(s.settings)
	if err != nil {
		return nil, err
	}
	cmd, err := process.Command(Role, setting+"="+string(text))
	if err != nil {
		return nil, err
	}
	cmd.Stderr = nil // the log
	return program.Start(s.Dir, Role, cmd, nil)
}

// StartContainer starts a built program as the traffic container of the pod, with traffic-manager at an address.
func (s *Site) StartContainer(built, manager string) (*program.Program, error) {
	cmd := exec.Command(built, "-manager", manager, "-token", s.file("token"), "-ca", s.file("ca"), "-state", s.file("state")) //nolint:gosec // of the caller
	return program.Start(s.Dir, "traffic-sidecar", cmd, nil)
}

// Counts returns the identity of the capture, or an error if it does not hold.
func (s *Site) Counts(ctx context.Context) (*trafficv1.Counts, error) {
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+s.reader)
	one, err := trafficv1.NewReadersClient(s.conn).Counts(ctx, &trafficv1.CountsRequest{CaptureNamespace: s.object.Namespace, Capture: capture})
	if err != nil {
		return nil, err
	}
	return record.Merge(one), nil
}

// Applied waits until the container of the pod applies the capture.
func (s *Site) Applied(ctx context.Context) error {
	return wait.Until(ctx, patience, "the container applies the capture", func() error {
		counts, err := s.Counts(ctx)
		if err == nil && !slices.ContainsFunc(counts.GetPods(), (*trafficv1.PodCounts).GetApplied) {
			err = errors.New("it does not yet")
		}
		return err
	})
}

// Settled waits until nothing is pending and a number of exchanges is seen, and returns the identity.
func (s *Site) Settled(ctx context.Context, seen uint64) (counts *trafficv1.Counts, err error) {
	err = wait.Until(ctx, patience, "the exchanges are counted", func() (err error) {
		if counts, err = s.Counts(ctx); err == nil && (counts.GetPending() > 0 || counts.GetSeen() < seen) {
			err = errors.New(counts.String())
		}
		return err
	})
	return counts, err
}
