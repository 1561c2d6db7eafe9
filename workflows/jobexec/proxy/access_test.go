package proxy_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/tools/wait"
	"switchyard.dev/workflows/jobexec/client"
	"switchyard.dev/workflows/jobexec/ticket"
)

// calls are all methods of the service, for a job.
func calls(t *testing.T, c *client.Client, job string) map[string]error {
	ctx, ref, errs := t.Context(), &jobexecv1.ExecutionRef{JobUid: job, Execution: 1}, map[string]error{}
	first := func(stream interface{ RecvMsg(any) error }, err error) error {
		if err != nil {
			return err
		}
		return stream.RecvMsg(&jobexecv1.Chunk{}) //nolint:forbidigo // any message
	}
	watch, err := c.Watch(ctx, ref)
	if err == nil {
		_, err = watch.Recv()
	}
	errs["watch"] = err
	logs, err := c.ExecutorClient.Logs(ctx, &jobexecv1.LogsRequest{Ref: ref, Kind: stdout})
	errs["logs"] = first(logs, err)
	artifact, err := c.ExecutorClient.Artifact(ctx, &jobexecv1.ArtifactRequest{Ref: ref, Path: "@stdout"})
	errs["artifact"] = first(artifact, err)
	_, errs["artifacts"] = c.Artifacts(ctx, ref)
	run := request(job, "touch $WORLD/begun")
	_, errs["run"] = c.Run(ctx, run)
	_, errs["stop"] = c.Stop(ctx, &jobexecv1.StopRequest{Ref: ref})
	_, errs["runner"] = c.Runner(ctx, &jobexecv1.RunnerRequest{})
	_, errs["release"] = c.Release(ctx, ref)
	return errs
}

func TestATicketPermitsItsJobAndItsVerbsOnly(t *testing.T) {
	w, c := begin(t)
	mine, others := request("mine", "echo mine"), request("others", "echo secret")
	for _, r := range []*jobexecv1.RunRequest{mine, others} {
		w.run(c, r)
		w.end(c, r.Ref)
	}
	_, stranger, err := ed25519.GenerateKey(rand.Reader)
	w.must(err)
	reads := []ticket.Verb{ticket.Read}
	for _, one := range []struct {
		what    string
		claims  ticket.Claims
		key     ed25519.PrivateKey
		job     string
		allowed string
		code    codes.Code
	}{
		{"of another job", ticket.Claims{PodUID: podUID, JobUID: "mine", User: "eve", Verbs: reads}, w.tickets, "others", "", codes.PermissionDenied},
		{"of another pod", ticket.Claims{PodUID: "other", JobUID: "others", User: "eve", Verbs: reads}, w.tickets, "others", "", codes.Unauthenticated},
		{"of another key", ticket.Claims{PodUID: podUID, JobUID: "others", User: "eve", Verbs: []ticket.Verb{ticket.Run}}, stranger, "others", "", codes.Unauthenticated},
		{"for running another", ticket.Claims{PodUID: podUID, JobUID: "mine", User: "eve", Verbs: []ticket.Verb{ticket.Run}}, w.tickets, "others", "", codes.PermissionDenied},
		{"for reading", ticket.Claims{PodUID: podUID, JobUID: "mine", User: "ada", Verbs: reads}, w.tickets, "mine", "watch logs artifact artifacts", codes.PermissionDenied},
		{"for collecting", ticket.Claims{PodUID: podUID, JobUID: "mine", User: "plane", Verbs: []ticket.Verb{ticket.Read, ticket.Collect}}, w.tickets, "mine", "watch logs artifact artifacts release", codes.PermissionDenied},
	} {
		caller, err := client.New(client.Runner{Address: w.address, PodUID: podUID, Authority: certificatePEM(w.manager.ca.Raw),
			Ticket: func(context.Context) (string, time.Time, error) { return ticket.Issue(one.key, one.claims, time.Now()) }})
		w.must(err)
		for method, err := range calls(t, caller, one.job) {
			want := one.code
			if strings.Contains(" "+one.allowed+" ", " "+method+" ") {
				want = codes.OK
			}
			if status.Code(err) != want || strings.Contains(fmt.Sprint(err), "secret") {
				t.Errorf("%s of %s with a ticket %s: %v", method, one.job, one.what, err)
			}
		}
		w.must(caller.Close())
	}
	if _, err := os.Stat(filepath.Join(w.dir, "begun")); err == nil {
		t.Error("a script has begun")
	}
	if out := w.logs(c, others.Ref, stdout); out != "secret\n" {
		t.Errorf("the output is %q", out)
	}
	if log := w.logged("proxy"); strings.Contains(log, "secret") || !strings.Contains(log, `"user":"ada"`) {
		t.Error("the log has output, or does not name the reader")
	}
}

// A client without a ticket, of an expired one, or that is no client at all, gets nothing.
func TestStrangersGetNothing(t *testing.T) {
	w, _ := begin(t)
	for what, text := range map[string]string{"none": "", "junk": "junk", "expired": func() string {
		text, _, err := ticket.Issue(w.tickets, ticket.Claims{PodUID: podUID, JobUID: ticket.AnyJob, User: "eve", Verbs: []ticket.Verb{ticket.Run}}, time.Now().Add(-time.Hour))
		w.must(err)
		return text
	}()} {
		c, err := client.New(client.Runner{Address: w.address, PodUID: podUID, Authority: certificatePEM(w.manager.ca.Raw),
			Ticket: func(context.Context) (string, time.Time, error) { return text, time.Now().Add(time.Hour), nil }})
		w.must(err)
		for method, err := range calls(t, c, "any") {
			if status.Code(err) != codes.Unauthenticated {
				t.Errorf("%s with ticket %s: %v", method, what, err)
			}
		}
		w.must(c.Close())
	}
	// A server with a certificate of another pod is not the runner.
	c, err := client.New(client.Runner{Address: w.address, PodUID: "another", Authority: certificatePEM(w.manager.ca.Raw), Ticket: func(context.Context) (string, time.Time, error) {
		t.Error("a ticket is sent to another pod")
		return "", time.Time{}, nil
	}})
	w.must(err)
	if _, err := c.Runner(t.Context(), &jobexecv1.RunnerRequest{}); err == nil || !strings.Contains(fmt.Sprint(c.Refusal()), "another.runners.signadot.internal") {
		t.Errorf("a runner of another pod is believed: %v, %v", err, c.Refusal())
	}
	w.must(c.Close())
	// Hundreds of silent connections keep no honest client out.
	for range 300 {
		conn, err := net.Dial("tcp", w.address)
		w.must(err)
		t.Cleanup(func() { _ = conn.Close() })
	}
	w.ready(w.controller())
}

// Files that no job can name, folders and devices are refused with a reason, and not stored.
func TestPathsOfArtifactsAreConfined(t *testing.T) {
	w, c := begin(t)
	r := request("job", "ln -s $WORLD/token link", "mkdir folder", "ln -s /etc etc", "mkfifo pipe", "echo ok > good", "ln -s good near")
	paths := map[string]string{
		"../token": `".."`, "folder/../../token": `".."`, "folder": "", "pipe": "", "/dev/zero": "", "/dev/sda": "", "none": "",
		"@stdout": `"@"`, "": "0 bytes", "good\x00": "zero",
	}
	for p := range paths {
		r.Artifacts = append(r.Artifacts, &jobexecv1.ArtifactSpec{Path: p})
	}
	r.Artifacts = append(r.Artifacts, &jobexecv1.ArtifactSpec{Path: "good"})
	w.run(c, r)
	end := w.end(c, r.Ref)
	if e := end.GetEnding(); !e.GetKnown() || e.GetReason() != "" {
		t.Errorf("the outcome is %v", e)
	}
	for _, a := range end.GetArtifacts() {
		if a.GetPath() == "good" {
			if a.GetProblem() != "" || a.GetSize() != 3 {
				t.Errorf("%v", a)
			}
		} else if a.GetProblem() == "" || !strings.Contains(a.GetProblem(), paths[a.GetPath()]) {
			t.Errorf("%q is stored: %v", a.GetPath(), a)
		}
	}
	for _, path := range []string{"../../request", "/etc/passwd", "0", "../files/0", "request", "link", w.store + "/job_1/request"} {
		if _, err := c.Artifact(t.Context(), &jobexecv1.ArtifactRequest{Ref: r.Ref, Path: path}, client.To(os.Stderr, 0, true)); status.Code(err) != codes.NotFound {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, offset := range []uint64{4, 1 << 40, 1<<64 - 1} {
		for _, path := range []string{"good", "@stdout"} {
			var text strings.Builder
			if _, err := c.Artifact(t.Context(), &jobexecv1.ArtifactRequest{Ref: r.Ref, Path: path, Offset: offset}, client.To(&text, offset, true)); err != nil || text.Len() > 0 {
				t.Errorf("%s from %d: %q, %v", path, offset, text.String(), err)
			}
		}
	}
}

// A certificate is renewed at half of its life, with the present token, and one that is not for the runner is refused.
func TestCertificatesAreRenewedAndChecked(t *testing.T) {
	w := newWorld(t)
	w.manager.life = 3 * time.Second
	w.must(os.WriteFile(filepath.Join(w.dir, "token"), []byte("old"), 0o600))
	w.startExecutor()
	w.startProxy()
	wait.Holds(t, "the token is refused", func() bool { return strings.Contains(w.logged("proxy"), "the token is [\\\"Bearer old\\\"]") })
	w.must(os.WriteFile(filepath.Join(w.dir, "token"), []byte(token), 0o600))
	w.ready(w.controller())
	enrolled := func() int { w.manager.mu.Lock(); defer w.manager.mu.Unlock(); return w.manager.enrolled }
	wait.Holds(t, "it is renewed three times", func() bool { return enrolled() > 3 })
	until := time.Now().Add(5 * time.Second)
	for wrong := range map[string]bool{"name": true} {
		w.manager.mu.Lock()
		w.manager.change = func(c *x509.Certificate) { c.DNSNames = []string{client.Name("another")} }
		w.manager.mu.Unlock()
		wait.Holds(t, wrong, func() bool { return strings.Contains(w.logged("proxy"), "not "+client.Name(podUID)) })
	}
	w.manager.mu.Lock()
	w.manager.change, w.manager.others = nil, w.manager.key.Public()
	w.manager.mu.Unlock()
	wait.Holds(t, "another key is refused", func() bool { return strings.Contains(w.logged("proxy"), "private key does not match public key") })
	for time.Now().Before(until) { // the last good certificate has expired
		time.Sleep(100 * time.Millisecond)
	}
	conn, err := tls.Dial("tcp", w.address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) //nolint:gosec // A test.
	if err == nil {
		t.Errorf("an expired certificate is shown: %v", conn.ConnectionState().PeerCertificates[0].NotAfter)
	}
	w.manager.mu.Lock()
	w.manager.others, w.manager.life = nil, time.Hour
	w.manager.mu.Unlock()
	w.ready(w.controller())
	if strings.Contains(w.logged("proxy"), token) {
		t.Error("the token is logged")
	}
}

// A manager without a certificate of the operator gets no token.
func TestAnotherManagerGetsNoToken(t *testing.T) {
	w := newWorld(t)
	good, right := w.managerAddress, w.ca
	w.serve() // another authority
	w.managerAddress = good
	w.startExecutor()
	w.startProxy()
	wait.Holds(t, "it is refused", func() bool { return strings.Contains(w.logged("proxy"), "is not a trusted authority") })
	if w.manager.enrolled > 0 {
		t.Error("it was enrolled")
	}
	w.proxy.Kill()
	w.ca = right
	w.startProxy()
	w.ready(w.controller())
}
