package job_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/runners"
	"switchyard.dev/tests/selfsigned"
	"switchyard.dev/workflows/jobexec/client"
	"switchyard.dev/workflows/jobexec/layout"
)

// impostor is a pod with the labels and the owner of a runner, which a user has created, with a server in place of the
// runner. It has a certificate of its own for the name of the runner.
type impostor struct {
	pod *corev1.Pod
	// met counts handshakes that clients began, requests those that arrived.
	met, requests atomic.Int64
}

func (s *scene) impostor(name string, of *crdv1.Job) *impostor {
	s.Helper()
	p := runners.Pod(s.group, name)
	p.Labels[crdv1.AssignedJobLabel] = string(of.UID)
	ip := fmt.Sprintf("127.%d.%d.%d", 2+rand.IntN(250), rand.IntN(250), 2+rand.IntN(250)) //nolint:gosec // no secret
	i := &impostor{pod: s.RunPod(p, corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{
			{Name: "main", Ready: true, ContainerID: "test://" + name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
			{Name: "job-executor-proxy", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		},
	})}
	pair, err := selfsigned.New(client.Name(string(i.pod.UID)))
	s.Must(err)
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	s.Must(err)
	l, err := tls.Listen("tcp", ip+":"+strconv.Itoa(layout.Port), &tls.Config{NextProtos: []string{"h2"}, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { //nolint:gosec // it is the attacker
		i.met.Add(1)
		return &cert, nil
	}})
	s.Must(err)
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { i.requests.Add(1) }), ErrorLog: log.New(io.Discard, "", 0)} //nolint:gosec // of a test
	go func() { _ = server.Serve(l) }()
	s.Cleanup(func() { _ = server.Close() })
	return i
}

// A pod with forged labels and owner gets no job. If a user writes it into the status of the group too, it is given one,
// and gets neither its script nor a ticket, since it has no certificate.
func TestAForgedPodGetsNoJob(t *testing.T) {
	s := newScene(t, "reusePods: true")
	s.gate.reset(0)
	s.manage()
	one := s.submit("one", "echo one >> $LEDGER")
	s.waits(one, "PodsNotReady")
	forged := s.impostor("forged", one)
	genuine, _ := s.pod("genuine")
	two := s.submit("two", "echo two >> $LEDGER")
	for _, j := range []*crdv1.Job{one, two} {
		if got := s.ended(j); !got.Success || j.Status.Execution.PodUID != string(genuine.UID) {
			t.Errorf("%+v in %+v", got, j.Status.Execution)
		}
	}
	version := forged.pod.ResourceVersion
	if s.Get(forged.pod); forged.pod.ResourceVersion != version || forged.met.Load() > 0 {
		t.Errorf("the forged pod was written, or called %d times", forged.met.Load())
	}
	s.change(func(g *crdv1.JobRunnerGroup) {
		g.Status.Runners = []crdv1.RunnerPod{{Name: forged.pod.Name, UID: forged.pod.UID, Version: "v"}}
	})
	three := s.submit("three", "echo three >> $LEDGER", "env: [{name: PASSWORD, value: secret}]")
	s.Eventually("the status states that the pod does not answer", func() error {
		s.Get(three)
		if r := three.Status.State; r == nil || r.Running == nil || r.Running.Reason != "PodSilent" {
			return fmt.Errorf("%+v", r)
		}
		return nil
	})
	if forged.met.Load() == 0 || forged.requests.Load() > 0 {
		t.Errorf("the impostor was met %d times, and received %d requests", forged.met.Load(), forged.requests.Load())
	}
	if len(s.lines()) != 2 {
		t.Errorf("the ledger has %q", s.lines())
	}
}
