package runners_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	core "k8s.io/client-go/kubernetes/typed/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/reconcilers/runners"
	testrunners "switchyard.dev/tests/runners"
	"switchyard.dev/tests/world"
	"switchyard.dev/workflows/jobexec/client"
	"switchyard.dev/workflows/jobexec/layout"
	"switchyard.dev/workflows/jobexec/ticket"
)

func TestMain(m *testing.M) { world.Main(m) }

// scene is the service at an API server, and a group in a namespace.
type scene struct {
	*world.World
	*testrunners.Service
	ns    string
	group *crdv1.JobRunnerGroup
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{World: world.Shared(t)}
	s.ns = s.NewNamespace("jobs")
	s.Accounts(s.ns, "default", "ada", "eve")
	s.Service = testrunners.Serve(s.World, s.NewNamespace("operator"), "system:serviceaccount:"+s.ns+":agent")
	s.group = s.newGroup("tests")
	return s
}

func (s *scene) newGroup(name string) *crdv1.JobRunnerGroup {
	g := &crdv1.JobRunnerGroup{}
	s.Make(g, "metadata: {namespace: "+s.ns+", name: "+name+"}\nspec: {image: i}")
	return g
}

// pod creates a pod with the owner and labels of a runner.
func (s *scene) pod(name string, of *crdv1.JobRunnerGroup) *corev1.Pod {
	s.Helper()
	p := testrunners.Pod(of, name)
	return s.RunPod(p, corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "127.0.0.9", PodIPs: []corev1.PodIP{{IP: "127.0.0.9"}}})
}

// record records pods as those that the operator has created.
func (s *scene) record(pods ...*corev1.Pod) {
	s.Helper()
	var all []crdv1.RunnerPod
	for _, p := range pods {
		all = append(all, s.Record(s.group, p))
	}
	s.write(all...)
}

// write writes records into the status of the group.
func (s *scene) write(all ...crdv1.RunnerPod) {
	s.Helper()
	s.group.Status.Runners = all
	s.Must(s.Client.Status().Update(s.Context(), s.group))
}

func shows(ctx context.Context, token string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

// enrol asks for a certificate with a new key.
func (s *scene) enrol(token string) (*jobexecv1.Enrolled, *ecdsa.PrivateKey, error) {
	s.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s.Must(err)
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	s.Must(err)
	got, err := s.Runners().Enrol(shows(s.Context(), token), &jobexecv1.EnrolRequest{PublicKey: public})
	return got, key, err
}

func (s *scene) refuses(what string, err error, code codes.Code, says string) {
	s.Helper()
	if status.Code(err) != code || !strings.Contains(status.Convert(err).Message(), says) {
		s.Errorf("%s: %v, want %s with %q", what, err, code, says)
	}
}

func TestARunnerGetsACertificateForItsPodOnly(t *testing.T) {
	s := newScene(t)
	pod := s.pod("one", s.group)
	token := s.Token(s.ns, "default", layout.Audience, pod)
	_, _, err := s.enrol(token)
	s.refuses("a pod that is not recorded yet", err, codes.PermissionDenied, "is no runner")
	s.record(pod)
	got, key, err := s.enrol(token)
	s.Must(err)
	block, rest := pem.Decode(got.GetCertificate())
	cert, err := x509.ParseCertificate(block.Bytes)
	s.Must(err)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(got.GetAuthority()) || len(rest) > 0 {
		t.Fatalf("%+v", got)
	}
	for usage, good := range map[x509.ExtKeyUsage]bool{x509.ExtKeyUsageServerAuth: true, x509.ExtKeyUsageClientAuth: false} {
		if _, err := cert.Verify(x509.VerifyOptions{DNSName: client.Name(string(pod.UID)), Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}}); (err == nil) != good {
			t.Errorf("usage %d: %v", usage, err)
		}
	}
	if !key.PublicKey.Equal(cert.PublicKey) || cert.IsCA || len(cert.DNSNames) != 1 || len(cert.IPAddresses) > 0 || cert.NotAfter.Sub(cert.NotBefore) > 25*time.Hour || !got.GetExpires().AsTime().Equal(cert.NotAfter) {
		t.Errorf("%+v", cert)
	}
	if got.GetTicketKeys() == nil || strings.Contains(string(got.GetTicketKeys()), `"d"`) {
		t.Errorf("the keys of tickets are %s", got.GetTicketKeys())
	}
}

func TestAPodThatIsNoRunnerGetsNothing(t *testing.T) {
	s := newScene(t)
	runner := s.pod("runner", s.group)
	s.record(runner)
	other := s.newGroup("other")
	free := testrunners.Pod(s.group, "free")
	free.OwnerReferences = nil
	s.Create(free)
	taken := s.pod("taken", other) // recorded in a group that does not own it
	s.record(runner, taken)
	elsewhere := s.NewNamespace("elsewhere")
	s.Accounts(elsewhere, "default")
	foreign := testrunners.Pod(s.group, "runner")
	foreign.Namespace = elsewhere
	s.Create(foreign)
	for what, pod := range map[string]*corev1.Pod{
		"a pod with forged labels and owner": s.pod("forged", s.group), "one without an owner": free, "one of another group": taken, "one of another namespace": foreign,
	} {
		_, _, err := s.enrol(s.Token(pod.Namespace, "default", layout.Audience, pod))
		s.refuses(what, err, codes.PermissionDenied, "is no runner")
	}
	good := s.Token(s.ns, "default", layout.Audience, runner)
	for what, token := range map[string]string{
		"a token for another audience": s.Token(s.ns, "default", "switchyard", runner), "one for the API server": s.Token(s.ns, "default", "", runner),
		"a forged one": good[:len(good)-8] + "AAAAAAAA", "junk": "junk", "none": "",
	} {
		_, _, err := s.enrol(token)
		s.refuses(what, err, codes.Unauthenticated, "")
	}
	_, _, err := s.enrol(s.Token(s.ns, "default", layout.Audience, nil))
	s.refuses("a token of no pod", err, codes.PermissionDenied, "of no pod")
	_, err = s.Runners().Enrol(shows(s.Context(), good), &jobexecv1.EnrolRequest{PublicKey: []byte("x")})
	s.refuses("a key that is none", err, codes.InvalidArgument, "PKIX")
	_, err = s.Runners().Enrol(s.Context(), &jobexecv1.EnrolRequest{})
	s.refuses("no token", err, codes.Unauthenticated, "show one token")
	s.Remove(runner)
	again := s.pod("runner", s.group) // with another UID
	_, _, err = s.enrol(s.Token(s.ns, "default", layout.Audience, again))
	s.refuses("a pod with the name of a runner", err, codes.PermissionDenied, "is no runner")
}

// A user who can write the status of a group, and create pods, makes no runner of them: the proof of another pod, of
// another group, of other keys or none is not enough.
func TestAForgedStatusMakesNoRunner(t *testing.T) {
	s := newScene(t)
	runner, forged, other := s.pod("runner", s.group), s.pod("forged", s.group), s.newGroup("other")
	stranger := &runners.Keeper{Secrets: s.Kube.CoreV1().Secrets(s.NewNamespace("stranger")), Logger: world.Quiet}
	s.Must(stranger.Ensure(s.Context()))
	foreign, err := stranger.Signer()
	s.Must(err)
	token := s.Token(s.ns, "default", layout.Audience, forged)
	for what, proof := range map[string][]byte{
		"none": nil, "junk": []byte("junk"), "of another pod": s.Record(s.group, runner).Proof,
		"of another group": s.Record(other, forged).Proof, "of other keys": foreign(s.group.UID, forged.UID),
	} {
		s.write(s.Record(s.group, runner), crdv1.RunnerPod{Name: forged.Name, UID: forged.UID, Version: "v", Proof: proof})
		_, _, err := s.enrol(token)
		s.refuses("a proof "+what, err, codes.PermissionDenied, "is no runner")
	}
	s.record(runner, forged)
	if _, _, err := s.enrol(token); err != nil {
		t.Errorf("the operator's own proof: %v", err)
	}
	was := s.Record(s.group, runner)
	s.Remove(runner)
	again := s.pod("runner", s.group)
	was.UID = again.UID
	s.write(was)
	_, _, err = s.enrol(s.Token(s.ns, "default", layout.Audience, again))
	s.refuses("the proof of a pod of this name that was deleted", err, codes.PermissionDenied, "is no runner")
	if _, err := (&runners.Keeper{}).Signer(); err == nil || !strings.Contains(err.Error(), "try again") {
		t.Errorf("without keys: %v", err)
	}
}

// job creates a job of the group, which runs in a pod unless that is nil.
func (s *scene) job(name string, in *corev1.Pod) *crdv1.Job {
	s.Helper()
	j := &crdv1.Job{}
	s.Make(j, "metadata: {name: "+s.ns+"-"+name+"}\nspec: {canceled: false, content: {command: [x]}, runnerGroup: {namespace: "+s.ns+", name: tests}}")
	if in != nil {
		j.Status.Execution = &crdv1.JobExecution{Count: 2, PodUID: string(in.UID), Begun: true}
		s.Must(s.Client.Status().Update(s.Context(), j))
	}
	return j
}

func (s *scene) ticket(job, token string) (*jobexecv1.TicketAnswer, error) {
	return s.Runners().Ticket(shows(s.Context(), token), &jobexecv1.TicketRequest{Job: job})
}

func TestTickets(t *testing.T) {
	s := newScene(t)
	s.Accounts(s.ns, "agent", "zoe")
	pod := s.pod("one", s.group)
	s.record(pod)
	j, waits := s.job("runs", pod), s.job("waits", nil)
	account := func(name string) string { return s.Token(s.ns, name, "", nil) }
	ada, eve, agent := account("ada"), account("eve"), account("agent")
	logs := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods/log"}}
	s.Grant("system:serviceaccount:"+s.ns+":ada", s.ns, logs)
	elsewhere := s.NewNamespace("elsewhere")
	s.Grant("system:serviceaccount:"+s.ns+":eve", elsewhere, logs)
	s.Grant("system:serviceaccount:"+s.ns+":eve", s.ns, rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}})

	enrolled, _, err := s.enrol(s.Token(s.ns, "default", layout.Audience, pod))
	s.Must(err)
	keys, err := ticket.ParseKeys(enrolled.GetTicketKeys())
	s.Must(err)
	for user, want := range map[string][]ticket.Verb{ada: {ticket.Read}, agent: {ticket.Read, ticket.Collect}} {
		got, err := s.ticket(j.Name, user)
		s.Must(err)
		c, err := keys.Check(got.GetTicket(), string(pod.UID), time.Now())
		if err != nil || c.JobUID != string(j.UID) || len(c.Verbs) != len(want) || c.Verbs[0] != want[0] || !strings.HasPrefix(c.User, "system:serviceaccount:"+s.ns) {
			t.Errorf("%+v, %v", c, err)
		}
		if got.GetPodIp() != "127.0.0.9" || got.GetPodName() != "one" || got.GetPodNamespace() != s.ns || got.GetPodUid() != string(pod.UID) || got.GetJobUid() != string(j.UID) ||
			got.GetExecution() != 2 || string(got.GetAuthority()) != string(enrolled.GetAuthority()) || time.Until(got.GetExpires().AsTime()) > ticket.Lifetime {
			t.Errorf("%+v", got)
		}
		if _, err := keys.Check(got.GetTicket(), string(waits.UID), time.Now()); err == nil {
			t.Error("the ticket is good for another pod")
		}
	}
	const no = "or there is no such job"
	for what, name := range map[string]string{"a user without the right": j.Name, "the same user for a job that does not exist": "missing"} {
		_, err := s.ticket(name, eve)
		s.refuses(what, err, codes.PermissionDenied, no)
	}
	s.Grant("system:serviceaccount:"+s.ns+":zoe", "", logs)
	nowhere := &crdv1.Job{}
	s.Make(nowhere, "metadata: {name: "+s.ns+"-nowhere}\nspec: {canceled: false, content: {command: [x]}, runnerGroup: {namespace: \"\", name: tests}}")
	_, err = s.ticket(nowhere.Name, account("zoe"))
	s.refuses("a job of no namespace", err, codes.PermissionDenied, no)
	_, err = s.ticket(j.Name, s.Token(s.ns, "default", layout.Audience, pod))
	s.refuses("a runner", err, codes.Unauthenticated, "")
	_, err = s.ticket(j.Name, "junk")
	s.refuses("junk", err, codes.Unauthenticated, "")
	_, err = s.ticket("", ada)
	s.refuses("no job", err, codes.InvalidArgument, "name the Job")
	_, err = s.ticket(waits.Name, ada)
	s.refuses("a job that waits", err, codes.FailedPrecondition, "has not begun")
	_, err = s.ticket("missing", agent)
	s.refuses("the agent, for a job that does not exist", err, codes.NotFound, "no Job")

	_, forged, err := ed25519.GenerateKey(rand.Reader)
	s.Must(err)
	text, _, err := ticket.Issue(forged, ticket.Claims{PodUID: string(pod.UID), JobUID: string(j.UID), User: "eve", Verbs: []ticket.Verb{ticket.Run}}, time.Now())
	s.Must(err)
	if _, err := keys.Check(text, string(pod.UID), time.Now()); err == nil {
		t.Error("a forged ticket is good")
	}
	s.Remove(pod)
	again := s.pod("one", s.group)
	_, err = s.ticket(j.Name, ada)
	s.refuses("a pod that was replaced by one of its name", err, codes.NotFound, "was deleted")
	s.record(again)
	_, err = s.ticket(j.Name, ada)
	s.refuses("a pod that is recorded no more", err, codes.NotFound, "was deleted")
	s.record() // its pod is none of the operator's any more
	_, err = s.ticket(j.Name, ada)
	s.refuses("a pod that is not recorded", err, codes.NotFound, "was deleted")
}

// slow are Secrets of which the first read comes before all writes.
type slow struct {
	core.SecretInterface
	read bool
}

func (s *slow) Get(ctx context.Context, name string, o metav1.GetOptions) (*corev1.Secret, error) {
	if !s.read {
		s.read = true
		return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name)
	}
	return s.SecretInterface.Get(ctx, name, o)
}

// The first keys stay, and are deleted with the installation.
func TestAllReplicasHaveTheSameKeys(t *testing.T) {
	w := world.Shared(t)
	secrets := w.Kube.CoreV1().Secrets(w.NewNamespace("operator"))
	owner, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "webhook-server-cert"}}, metav1.CreateOptions{})
	w.Must(err)
	var all [2]runners.Keeper
	if _, err := all[0].Authority(); err == nil || !strings.Contains(err.Error(), "try again") {
		t.Errorf("without keys: %v", err)
	}
	var logged bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&logged, nil))
	for i := range all {
		all[i].Secrets, all[i].Logger = secrets, logger
		w.Must(all[i].Ensure(t.Context()))
	}
	late := runners.Keeper{Secrets: &slow{SecretInterface: secrets}, Logger: logger} // another replica is faster
	w.Must(late.Ensure(t.Context()))
	if text := logged.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "Delete the pods of runner groups") {
		t.Errorf("logged: %s", text)
	}
	one, err := all[0].Authority()
	w.Must(err)
	two, err := all[1].Authority()
	w.Must(err)
	secret, err := secrets.Get(t.Context(), runners.SecretName, metav1.GetOptions{})
	w.Must(err)
	three, err := late.Authority()
	w.Must(err)
	if string(one) != string(two) || string(one) != string(three) || len(secret.OwnerReferences) != 1 || secret.OwnerReferences[0].UID != owner.UID {
		t.Errorf("%s and %s, of %v", one, two, secret.OwnerReferences)
	}
	for _, name := range []string{runners.TicketKey, runners.AuthorityKey, runners.AuthorityCert} {
		damaged := secret.DeepCopy()
		damaged.Data[name] = []byte("junk")
		_, err := secrets.Update(t.Context(), damaged, metav1.UpdateOptions{})
		w.Must(err)
		if err := all[0].Ensure(t.Context()); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "delete it") {
			t.Errorf("%s is junk: %v", name, err)
		}
		if still, _ := all[0].Authority(); string(still) != string(one) {
			t.Error("the keys were lost")
		}
		secret, err = secrets.Get(t.Context(), runners.SecretName, metav1.GetOptions{})
		w.Must(err)
		secret.Data, err = runners.NewKeys(time.Now())
		w.Must(err)
	}
	mixed, err := runners.NewKeys(time.Now())
	w.Must(err)
	mixed[runners.AuthorityCert] = one
	if _, err := runners.ParseKeys(mixed); err == nil || !strings.Contains(err.Error(), "is not for") {
		t.Errorf("a certificate of another key: %v", err)
	}
}
