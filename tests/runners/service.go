package runners

import (
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/callers/tokens"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/trust/trusttest"
	crdv1 "switchyard.dev/protos/crd/v1"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/reconcilers/runners"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/world"
	"switchyard.dev/tunnels/access"
	"switchyard.dev/workflows/jobexec/layout"
	"switchyard.dev/workflows/jobexec/results"
	"switchyard.dev/workflows/jobpod"
)

// TrafficManager is the name in certificates of the traffic-manager for which a Service issues tickets.
const TrafficManager = "traffic-manager.signadot.svc"

// Service is the real service of a manager at a real API server.
type Service struct {
	// Address is where it is served, with a certificate of CA, in PEM. Keys are its keys.
	Address, CA string
	Keys        *runners.Keeper
	// Authority is that of CA.
	Authority *trusttest.Authority

	w        *world.World
	operator string
}

// Serve serves it for an operator's namespace until the test ends. Accounts are users that get any ticket.
func Serve(w *world.World, operator string, accounts ...string) *Service {
	w.Helper()
	return ServeStored(w, operator, nil, accounts...)
}

// ServeStored is Serve of an operator with a bucket.
func ServeStored(w *world.World, operator string, bucket *results.Kept, accounts ...string) *Service {
	w.Helper()
	kube, err := kubernetes.NewForConfig(w.As(""))
	w.Must(err)
	keys := kube.Discovery().RESTClient()
	verifier, err := tokens.New(tokens.Config{Reviews: kube.AuthenticationV1().TokenReviews(), Audience: layout.Audience, Keys: tokens.PublishedKeys(keys)})
	w.Must(err)
	users, err := access.New(access.Config{Tokens: kube.AuthenticationV1().TokenReviews(), Rights: kube.AuthorizationV1().SubjectAccessReviews(), Issuer: tokens.NewIssuer(keys, nil)})
	w.Must(err)
	authority := trusttest.New(w, "operator")
	leaf := authority.Leaf(w, "127.0.0.1")
	pair, err := tls.X509KeyPair(leaf.Cert, leaf.Key)
	w.Must(err)
	s := &Service{Authority: authority, CA: string(authority.Bundle()), Keys: &runners.Keeper{Secrets: kube.CoreV1().Secrets(operator), ConfigMaps: kube.CoreV1().ConfigMaps(operator), Logger: slog.New(slog.DiscardHandler)}, w: w, operator: operator}
	w.Must(s.Keys.Ensure(w.Context()))
	main, err := runners.New(runners.Config{
		Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }, Keys: s.Keys, Live: w.Client, Tokens: verifier,
		Users: users, Rights: access.NewReviews(kube.AuthorizationV1().SubjectAccessReviews(), time.Now), Accounts: accounts,
		Results: bucket, Metrics: prometheus.NewRegistry(), Address: "127.0.0.1:0", TrafficManager: TrafficManager, Authority: func() string { return s.CA },
	})
	w.Must(err)
	s.Address = main.Address()
	background.Run(w, main.Start)
	return s
}

// Record returns the record of a pod in the status of a group, with the proof of the service's keys.
func (s *Service) Record(g *crdv1.JobRunnerGroup, p *corev1.Pod) crdv1.RunnerPod {
	s.w.Helper()
	proof, err := s.Keys.Signer()
	s.w.Must(err)
	return crdv1.RunnerPod{Name: p.Name, UID: p.UID, Version: "v", Proof: proof(g.UID, p.UID)}
}

// CaptureKeys returns the public keys of tickets for captures, as the service publishes them.
func (s *Service) CaptureKeys() []byte {
	s.w.Helper()
	published := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.operator, Name: runners.TicketKeysName}}
	s.w.Must(client.IgnoreAlreadyExists(s.w.Client.Create(s.w.Context(), published)))
	s.w.Must(s.Keys.Ensure(s.w.Context()))
	s.w.Get(published)
	return []byte(published.Data[runners.TicketKeysFile])
}

// Runners returns a client of the service.
func (s *Service) Runners() jobexecv1.RunnersClient {
	s.w.Helper()
	return jobexecv1.NewRunnersClient(s.Dial())
}

// Dial returns a connection to the service.
func (s *Service) Dial() *grpc.ClientConn {
	s.w.Helper()
	roots := trust.NewRoots("the test")
	s.w.Must(roots.Set([]byte(s.CA)))
	conn, err := trust.Dial(s.Address, s.Address, roots)
	s.w.Must(err)
	s.w.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Pod returns a pod of a group, as the operator creates it.
func Pod(g *crdv1.JobRunnerGroup, name string) *corev1.Pod {
	p := jobpod.Pod(g, name, jobpod.Settings{InitImage: "i", ProxyImage: "p", OperatorNamespace: "signadot", Authority: "a:1", CA: "ca"})
	p.Namespace = g.Namespace
	p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(g, crdv1.GroupVersion().WithKind(crdv1.KindJobRunnerGroup))}
	return p
}
