package server_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"switchyard.dev/eventbus/callers/tokens"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/trust/trusttest"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/world"
	"switchyard.dev/workflows/engine"
	"switchyard.dev/workflows/execunit"
	"switchyard.dev/workflows/grant"
	"switchyard.dev/workflows/iocontext"
	"switchyard.dev/workflows/iocontext/server"
	"switchyard.dev/workflows/iocontext/store"
	"switchyard.dev/workflows/iocontext/unit"
)

func TestMain(m *testing.M) { world.Main(m) }

// site is a cluster with an IO context server, which has the rights that the chart gives it.
type site struct {
	*world.World
	main      *server.Main
	store     store.Store // as the administrator has it
	logs      *background.Output
	ca        string
	namespace string // of pods
	authority *trusttest.Authority
	http      *http.Client
}

func newSite(t *testing.T, settings ...func(*server.Config)) *site {
	t.Helper()
	s := &site{World: world.Shared(t), logs: &background.Output{}}
	operator := s.NewNamespace("operator")
	s.namespace = s.NewNamespace("units")
	s.Accounts(s.namespace, "default", "other")
	var err error
	s.store, err = store.Open(s.Config, operator)
	s.Must(err)

	user := "io-context-server-" + operator
	s.Grant(user, operator, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "create", "delete"}})
	s.Grant(user, "",
		rbacv1.PolicyRule{APIGroups: []string{crdv1.Group}, Resources: []string{"signadotobjectlifecyclemethods"}, Verbs: []string{"get"}},
		rbacv1.PolicyRule{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}})
	access := s.As(user)
	access.QPS = -1
	c := server.Config{Address: "127.0.0.1:0", MetricsAddress: "127.0.0.1:0", Penalty: time.Millisecond, Logger: slog.New(slog.NewTextHandler(s.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	c.Store, err = store.Open(access, operator)
	s.Must(err)
	c.Tokens, err = tokens.New(tokens.Config{Reviews: kubernetes.NewForConfigOrDie(access).AuthenticationV1().TokenReviews(), Audience: iocontext.Audience})
	s.Must(err)
	dir, authority := t.TempDir(), trusttest.New(t, "authority")
	authority.Write(t, dir, authority.Leaf(t, "127.0.0.1"))
	s.ca, s.authority = string(authority.Bundle()), authority
	c.TLS, err = trust.Open(trust.Config{Dir: dir, Name: "127.0.0.1"})
	s.Must(err)
	for _, set := range settings {
		set(&c)
	}
	s.main, err = server.New(c)
	s.Must(err)
	s.serve(t)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.Bundle())
	s.http = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}, MaxIdleConnsPerHost: 64}, Timeout: time.Minute}
	t.Cleanup(s.http.CloseIdleConnections)
	return s
}

func (s *site) serve(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.main.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
}

// pod makes a pod.
func (s *site) pod(name string) *corev1.Pod {
	s.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: corev1.PodSpec{ServiceAccountName: "default", Containers: []corev1.Container{{Name: "main", Image: "main"}}}}
	s.Create(pod)
	return pod
}

// named is a status in which the name of a pod is recorded for a unit, and its UID is not.
func named(unit string, pod *corev1.Pod) crdv1.WorkUnitStatus {
	return crdv1.WorkUnitStatus{Name: unit, Phase: crdv1.UnitStarting, ExecUnit: &crdv1.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}}
}

// token returns the token of a pod as the kubelet would project it.
func (s *site) token(pod *corev1.Pod) string {
	s.Helper()
	return s.Token(pod.Namespace, "default", iocontext.Audience, pod)
}

// running is a status in which the operator has granted a unit to a pod, which runs it.
func (s *site) running(of *crdv1.SignadotObjectLifecycleMethods, unit string, pod *corev1.Pod) crdv1.WorkUnitStatus {
	s.Helper()
	st := forged(unit, pod)
	var err error
	i := slices.IndexFunc(of.Spec.PreStart, func(u crdv1.WorkUnit) bool { return u.Name == unit })
	form := engine.Form(of.Spec.PreStart[i])
	st.Grant, err = grant.Sign(grant.Grant{
		Lifecycle: of.UID, Unit: unit, Attempt: st.Attempt, Form: form, Namespace: pod.Namespace, Pod: pod.Name, PodUID: string(pod.UID),
		Rights: execunit.Rights{Namespace: pod.Namespace},
	}, s.authority.Sign)
	s.Must(err)
	return st
}

// forged is a status in which a pod runs a unit without a grant, as any user with the right can write it.
func forged(unit string, pod *corev1.Pod) crdv1.WorkUnitStatus {
	return crdv1.WorkUnitStatus{Name: unit, Phase: crdv1.UnitRunning, Attempt: 1, PodUID: string(pod.UID),
		ExecUnit: &crdv1.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}}
}

// lifecycle creates a SignadotObjectLifecycleMethods: its unit make gives two outputs, and its
// unit use reads one of them, a constant and spoils.
func (s *site) lifecycle(name string, spoils ...crdv1.WorkUnitInput) *crdv1.SignadotObjectLifecycleMethods {
	s.Helper()
	methods := &crdv1.SignadotObjectLifecycleMethods{ObjectMeta: metav1.ObjectMeta{Name: s.namespace + "-" + name}}
	methods.Spec.IOContextName = name
	methods.Spec.PreStart = []crdv1.WorkUnit{{
		Name: "make", Type: "ExecUnit", Outputs: []crdv1.WorkUnitOutput{{Name: "url"}, {Name: "key"}},
		ExecUnitTemplate: template("#!/bin/sh\nprintf '%s' \"$URL\" >OUT/url; head -c 3000 /dev/urandom >OUT/key; cp OUT/key OUT/copy\n", nil,
			crdv1.OutputExport{OutputName: "url", FromPath: "OUT/url"}, crdv1.OutputExport{OutputName: "key", FromPath: "OUT/key"}),
		Inputs: []crdv1.WorkUnitInput{{Name: "url", Value: "postgres://u:" + canary + "@db"}},
	}, {
		Name: "use", Type: "ExecUnit",
		ExecUnitTemplate: template("#!/bin/sh\n", []crdv1.InputInject{
			{InputName: "url", Dst: crdv1.InputDestination{Env: "URL", LocalPath: "/etc/url"}}, {InputName: "name", Dst: crdv1.InputDestination{LocalPath: "/etc/name"}}}),
		Inputs: append([]crdv1.WorkUnitInput{{Name: "url", IOContext: &crdv1.IOContextRef{Key: "make.url"}}, {Name: "name", Value: "constant"}}, spoils...),
	}}
	for i := range methods.Spec.PreStart {
		methods.Spec.PreStart[i].ExecUnitTemplate.PodTemplate.Namespace = s.namespace
	}
	methods.Spec.PreStart[0].ExecUnitTemplate.InputInjects = []crdv1.InputInject{{InputName: "url", Dst: crdv1.InputDestination{Env: "URL"}}}
	s.Create(methods)
	return methods
}

func template(script string, injects []crdv1.InputInject, exports ...crdv1.OutputExport) *crdv1.ExecUnitTemplate {
	t := &crdv1.ExecUnitTemplate{Script: script, InputInjects: injects, OutputExports: exports}
	t.PodTemplate.Spec.Containers = []corev1.Container{{Name: "main", Image: "main"}}
	return t
}

// says writes the status of the units.
func (s *site) says(methods *crdv1.SignadotObjectLifecycleMethods, units ...crdv1.WorkUnitStatus) {
	s.Helper()
	s.Get(methods)
	methods.Status.PreCreate = units
	s.Must(s.Client.Status().Update(s.Context(), methods))
}

// keeps has a value be kept, as a unit that is done gave it.
func (s *site) keeps(methods *crdv1.SignadotObjectLifecycleMethods, key, value string) {
	s.Helper()
	s.Must(s.store.Put(s.Context(), methods, key, []byte(value), store.Giver{Pod: "before"}, func(context.Context) error { return nil }))
}

// kept returns the stored value.
func (s *site) kept(methods *crdv1.SignadotObjectLifecycleMethods, key string) string {
	s.Helper()
	value, found, err := s.store.Get(s.Context(), methods, key)
	s.Must(err)
	if !found {
		return "(none)"
	}
	return string(value)
}

// ask sends a request, and returns the status of the answer, its reason and its body.
func (s *site) ask(method, path, token string, body io.Reader) (status int, reason, text string) {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, "https://"+s.main.Address()+path, body)
	s.Must(err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := s.http.Do(r)
	s.Must(err)
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	s.Must(err)
	var why iocontext.Refusal
	if answer.StatusCode/100 != 2 && (json.Unmarshal(content, &why) != nil || why.Reason == "" || why.Message == "") {
		s.Errorf("%s %s is answered %d without a reason: %.300s", method, path, answer.StatusCode, content)
	}
	return answer.StatusCode, why.Reason, string(content)
}

// asks asks until the answer is another than that it is to be tried again.
func (s *site) asks(method, path, token string, body func() io.Reader) string {
	s.Helper()
	var got string
	s.Eventually("an answer to "+path, func() error {
		status, reason, text := s.ask(method, path, token, body())
		if got = strings.TrimSpace(fmt.Sprint(status, " ", reason)); reason == iocontext.TryAgain {
			return fmt.Errorf("%s", text)
		}
		return nil
	})
	return got
}

func assignment(methods *crdv1.SignadotObjectLifecycleMethods, unit string) string {
	return "/v1/units/" + methods.Name + "/" + unit + "/assignment"
}

func output(methods *crdv1.SignadotObjectLifecycleMethods, unit, output string) string {
	return "/v1/units/" + methods.Name + "/" + unit + "/outputs/" + output
}

// server returns what the containers of a pod know of the server.
func (s *site) server(methods *crdv1.SignadotObjectLifecycleMethods, name, token string) unit.Server {
	s.Helper()
	file := filepath.Join(s.TempDir(), "token")
	s.Must(os.WriteFile(file, []byte(token+"\n"), 0o600))
	return unit.Server{Address: s.main.Address(), CA: s.ca, Lifecycle: methods.Name, Unit: name, TokenFile: file}
}
