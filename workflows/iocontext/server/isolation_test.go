package server_test

import (
	"crypto/ecdsa"
	cryptorand "crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/iocontext"
	"switchyard.dev/workflows/iocontext/server"
)

// Pods request the values of others, in every way, and get none; error responses contain no
// values.
func TestPodsCannotReadValuesOfOthers(t *testing.T) {
	s := newSite(t)
	pod, other := s.pod("p"), s.pod("other")
	mine, others := s.lifecycle("mine"), s.lifecycle("others")
	next, overtaken := s.pod("next"), s.pod("overtaken")
	for _, methods := range []*crdv1.SignadotObjectLifecycleMethods{mine, others} {
		s.keeps(methods, "make.url", canary)
	}
	wrongUID := forged("make", pod)
	wrongUID.PodUID = string(other.UID)
	s.says(mine, s.running(mine, "use", pod), crdv1.WorkUnitStatus{Name: "make", Phase: crdv1.UnitSucceeded,
		PodUID: string(other.UID), ExecUnit: &crdv1.NamespacedName{Namespace: other.Namespace, Name: other.Name}})
	s.says(others, wrongUID, named("use", next))
	spied := s.lifecycle("spied")
	s.keeps(spied, "make.url", canary)
	stolen := s.running(mine, "use", other) // A grant of the operator, for another object.
	s.says(spied, forged("make", pod), stolen)
	nobody := s.lifecycle("nobody")
	s.keeps(nobody, "make.url", canary)
	s.says(nobody, crdv1.WorkUnitStatus{Name: "use", Phase: crdv1.UnitRunning, ExecUnit: &crdv1.NamespacedName{Namespace: s.namespace}})
	good, account := s.token(pod), "default"
	unbound := s.Token(s.namespace, account, iocontext.Audience, nil)
	for what, tt := range map[string]struct {
		path, token, want string
	}{
		"its own":                           {assignment(mine, "use"), good, "200"},
		"another unit's":                    {assignment(mine, "make"), good, "403 NotYours"},
		"another context's":                 {assignment(others, "use"), good, "403 NotYours"},
		"another UID is in the status":      {assignment(others, "make"), good, "403 NotYours"},
		"no status names it":                {assignment(others, "use"), s.token(other), "403 NotYours"},
		"its unit has ended":                {assignment(mine, "make"), s.token(other), "403 NotYours"},
		"not yet":                           {assignment(others, "use"), s.token(next), "409 NotYet"},
		"of an attempt that is over":        {assignment(others, "make"), s.token(overtaken), "403 NotYours"},
		"a status that another has written": {assignment(spied, "make"), good, "403 NotYours"},
		"a grant for another object":        {assignment(spied, "use"), s.token(other), "403 NotYours"},
		"an output by such a status":        {output(spied, "make", "url"), good, "403 NotYours"},
		"no such unit":                      {"/v1/units/" + mine.Name + "/none/assignment", good, "403 NotYours"},
		"no such methods":                   {"/v1/units/none/use/assignment", good, "403 NotYours"},
		"another's name, escaped":           {"/v1/units/" + mine.Name + "/..%2F" + others.Name + "%2Fuse/assignment", good, "400 BadRequest"},
		"a path with dots":                  {"/v1/units/" + mine.Name + "/../" + others.Name + "/use/assignment", good, "403 NotYours"},
		"no token":                          {assignment(mine, "use"), "", "401 TokenRefused"},
		"no token of a pod":                 {assignment(mine, "use"), unbound, "403 NotYours"},
		"no pod in the status either":       {assignment(nobody, "use"), unbound, "403 NotYours"},
		"a forged signature":                {assignment(mine, "use"), good[:len(good)-8] + "AAAAAAAA", "401 TokenRefused"},
		"a token that has expired":          {assignment(mine, "use"), s.resigned(good, func(c claims) { c["exp"] = time.Now().Add(-time.Minute).Unix() }), "401 TokenRefused"},
		"a token of another pod's UID":      {assignment(mine, "use"), s.resigned(good, func(c claims) { c.pod()["uid"] = string(other.UID) }), "401 TokenRefused"},
		"another audience":                  {assignment(mine, "use"), s.Token(s.namespace, account, "api.routeserver.signadot.svc", pod), "401 TokenRefused"},
		"the API server's audience":         {assignment(mine, "use"), s.Token(s.namespace, account, "https://kubernetes.default.svc", pod), "401 TokenRefused"},
		"an output of another unit":         {output(mine, "make", "url"), good, "403 NotYours"},
		"an output that it has not":         {output(mine, "use", "url"), good, "403 OutputUnknown"},
		"an output of another context":      {output(others, "make", "url"), good, "403 NotYours"},
		"an output before it may":           {output(others, "use", "x"), s.token(next), "409 NotYet"},
		"an output with a path for name":    {output(mine, "make", "..%2F..%2Fx"), good, "400 BadRequest"},
	} {
		method := http.MethodGet
		if strings.Contains(tt.path, "/outputs/") {
			method = http.MethodPut
		}
		body := func() io.Reader {
			if method == http.MethodGet {
				return nil
			}
			return strings.NewReader("spoilt")
		}
		if got := s.asks(method, tt.path, tt.token, body); got != tt.want {
			t.Errorf("%s: %s, want %s", what, got, tt.want)
		}
	}
	for _, methods := range []*crdv1.SignadotObjectLifecycleMethods{mine, others, spied} {
		if got := s.kept(methods, "make.url"); got != canary {
			t.Errorf("in %s %q is kept", methods.Name, got)
		}
	}
	if strings.Contains(s.logs.String(), canary) {
		t.Errorf("a value is logged:\n%s", s.logs)
	}
}

// A permission is valid until the status changes, and not a request longer.
func TestAnEndedAttemptMayNothingMore(t *testing.T) {
	s := newSite(t)
	pod, next, methods := s.pod("p"), s.pod("next"), s.lifecycle("db")
	token, give := s.token(pod), func() io.Reader { return strings.NewReader("late") }
	s.says(methods, s.running(methods, "make", pod))
	if got := s.asks("PUT", output(methods, "make", "url"), token, give); got != "204" {
		t.Fatal(got)
	}
	s.says(methods, s.running(methods, "make", next))
	if got := s.asks("PUT", output(methods, "make", "url"), token, give); got != "403 NotYours" {
		t.Errorf("a pod of an earlier attempt: %s", got)
	}
	if got := s.asks("PUT", output(methods, "make", "url"), s.token(next), func() io.Reader { return strings.NewReader("next") }); got != "204" || s.kept(methods, "make.url") != "next" {
		t.Errorf("the next: %s, and %q is kept", got, s.kept(methods, "make.url"))
	}
	s.Remove(next)
	s.says(methods, crdv1.WorkUnitStatus{Name: "make", Phase: crdv1.UnitSucceeded})
	if got := s.kept(methods, "make.url"); got != "next" {
		t.Errorf("when the pod has gone, %q is kept", got)
	}
}

// A pod of an earlier form of its unit receives neither the script nor the inputs of the present one, which
// another user may have written. What its script gives is kept.
func TestAPodOfAnEarlierFormReceivesNothing(t *testing.T) {
	s := newSite(t)
	pod, methods := s.pod("p"), s.lifecycle("db")
	token := s.token(pod)
	s.says(methods, s.running(methods, "make", pod))
	if got := s.asks("GET", assignment(methods, "make"), token, func() io.Reader { return nil }); got != "200" {
		t.Fatal(got)
	}
	methods.Spec.PreStart[0].Inputs[0].Value = "postgres://root:" + canary + "@db"
	s.Must(s.Client.Update(t.Context(), methods))
	if got := s.asks("GET", assignment(methods, "make"), token, func() io.Reader { return nil }); got != "403 UnitChanged" {
		t.Errorf("it is answered %s", got)
	}
	if got := s.asks("PUT", output(methods, "make", "url"), token, func() io.Reader { return strings.NewReader("given") }); got != "204" || s.kept(methods, "make.url") != "given" {
		t.Errorf("its output is answered %s, and %q is kept", got, s.kept(methods, "make.url"))
	}
}

// A client that is refused repeatedly is delayed, and a pod at the same address is not.
func TestAClientRefusedTooOftenIsDelayed(t *testing.T) {
	s := newSite(t, func(c *server.Config) { c.Penalty = time.Hour })
	mine := s.lifecycle("mine")
	s.keeps(mine, "make.url", canary)
	s.keeps(mine, "make.key", canary)
	honest := s.pod("honest")
	s.says(mine, s.running(mine, "use", honest))
	s.http.Timeout = 2 * time.Second
	answered := 0
	for range 100 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.main.Address()+assignment(mine, "use"), http.NoBody)
		s.Must(err)
		answer, err := s.http.Do(r)
		if err != nil {
			break
		}
		s.Must(answer.Body.Close())
		answered++
	}
	if answered < 20 || answered == 100 {
		t.Errorf("a stranger was refused %d times at once", answered)
	}
	s.http.Timeout = time.Minute
	if got := s.asks("GET", assignment(mine, "use"), s.token(honest), func() io.Reader { return nil }); got != "200" {
		t.Errorf("a pod at the same address is answered %s", got)
	}
}

// Thousands of requests that are mostly wrong: each is answered with a reason, none with a value,
// no stored value changes, and an honest pod is served at the same time.
func TestRandomRequestsGetNothing(t *testing.T) {
	const requests, workers = 10_000, 16
	s := newSite(t)
	mine := s.lifecycle("mine")
	s.keeps(mine, "make.url", canary)
	s.keeps(mine, "make.key", "key "+canary)
	honest := s.pod("honest")
	s.says(mine, s.running(mine, "use", honest))
	tokens := []string{"", "x", "e30.e30.e30", s.Token(s.namespace, "default", "others", honest), s.Token(s.namespace, "default", iocontext.Audience, nil)}
	for i := range 12 {
		tokens = append(tokens, s.token(s.pod(fmt.Sprint("pod-", i))))
	}
	good := s.token(honest)
	tokens = append(tokens, good[:len(good)-8]+"AAAAAAAA")
	if got := s.asks("GET", assignment(mine, "use"), good, func() io.Reader { return nil }); got != "200" {
		t.Fatal(got)
	}
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			r := rand.New(rand.NewPCG(17, uint64(worker)))
			for range requests / workers {
				method, path := randomRequest(r, mine.Name)
				status, _, text := s.ask(method, path, tokens[r.IntN(len(tokens))], strings.NewReader(strings.Repeat("x", r.IntN(5000))))
				if status/100 == 2 || strings.Contains(text, canary) {
					t.Errorf("%s %s is answered %d: %.300s", method, path, status, text)
				}
			}
		})
	}
	served := 0
	done := inBackground(func() bool { all.Wait(); return true })
	for over := false; !over; {
		if got := s.asks("GET", assignment(mine, "use"), good, func() io.Reader { return nil }); got != "200" {
			t.Errorf("an honest pod is answered %s", got)
		}
		served++
		select {
		case over = <-done:
		case <-time.After(20 * time.Millisecond):
		}
	}
	t.Logf("an honest pod was served %d times in between", served)
	if s.kept(mine, "make.url") != canary || s.kept(mine, "make.key") != "key "+canary {
		t.Error("a stored value has changed")
	}
	var secrets corev1.SecretList
	s.List(&secrets, client.InNamespace(s.store.Namespace))
	if len(secrets.Items) != 2 {
		t.Errorf("there are %d Secrets", len(secrets.Items))
	}
	s.saysNowhere(mine)
}

// saysNowhere looks for the canary in logs, metrics, events and the status.
func (s *site) saysNowhere(methods *crdv1.SignadotObjectLifecycleMethods) {
	s.Helper()
	s.Get(methods)
	status, err := json.Marshal(methods.Status)
	s.Must(err)
	events, err := s.Kube.EventsV1().Events("").List(s.Context(), metav1.ListOptions{})
	s.Must(err)
	answer, err := http.Get("http://" + s.main.MetricsAddress() + "/metrics") //nolint:noctx // A test.
	s.Must(err)
	defer answer.Body.Close()
	metrics, err := io.ReadAll(answer.Body)
	s.Must(err)
	if !strings.Contains(string(metrics), `switchyard_iocontext_requests_total{reason="NotYours",what="assignment"}`) {
		s.Errorf("the metrics do not count refusals:\n%s", metrics)
	}
	for what, text := range map[string]string{"a log": s.logs.String(), "metrics": string(metrics), "a status": string(status), "events": fmt.Sprint(events.Items)} {
		if strings.Contains(text, canary) {
			s.Errorf("a value is in %s", what)
		}
	}
}

// randomRequest returns a request that may ask for anything.
func randomRequest(r *rand.Rand, methods string) (method, path string) {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	method = pick("GET", "PUT", "PUT", "POST", "DELETE", "PATCH", "HEAD"+"ER", "OPTIONS")
	path = "/v1/units/" + pick(methods, methods, methods, "none", "..", "%00", "A_b", strings.Repeat("a", 300)) + "/" +
		pick("make", "use", "use", "none", "..%2fmake", "%2e%2e", strings.Repeat("u", 40)) +
		pick("/assignment", "/assignment", "/outputs/url", "/outputs/key", "/outputs/", "/outputs/..%2f..%2fx", "/inputs/url", "", "?x=y", "/assignment/x")
	if r.IntN(20) == 0 {
		path = pick("/", "/metrics", "/healthz", "/v1", "/v1/units", "//", "/debug/pprof/")
	}
	return method, path
}

// claims are the claims of a token.
type claims map[string]any

func (c claims) pod() map[string]any {
	return c["kubernetes.io"].(map[string]any)["pod"].(map[string]any)
}

// resigned changes claims of a token, and signs it with the API server's own key.
func (s *site) resigned(token string, change func(claims)) string {
	s.Helper()
	parts := strings.Split(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	s.Must(err)
	c := claims{}
	s.Must(json.Unmarshal(text, &c))
	for _, name := range []string{"exp", "iat", "nbf"} { // whole numbers, which JSON reads as floats
		c[name] = int64(c[name].(float64))
	}
	change(c)
	text, err = json.Marshal(c)
	s.Must(err)
	signed := parts[0] + "." + base64.RawURLEncoding.EncodeToString(text)
	digest := sha256.Sum256([]byte(signed))
	file, err := os.ReadFile(filepath.Join(s.Keys, "sa-signer.key"))
	s.Must(err)
	block, _ := pem.Decode(file)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	s.Must(err)
	a, b, err := ecdsa.Sign(cryptorand.Reader, key.(*ecdsa.PrivateKey), digest[:])
	s.Must(err)
	return signed + "." + base64.RawURLEncoding.EncodeToString(append(a.FillBytes(make([]byte, 32)), b.FillBytes(make([]byte, 32))...))
}
