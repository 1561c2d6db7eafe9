package controlplane_test

import (
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/controlplane-link/certificates"
	"switchyard.dev/controlplane-link/controlplane"
	"switchyard.dev/controlplane-link/controlplane/admin"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/tests/port"
	"switchyard.dev/tests/postgres"
	"switchyard.dev/tests/world"
	"switchyard.dev/tools/wait"
	"switchyard.dev/workflows/jobexec/results"
)

// TestTheAPIKnowsAConnectedCluster reads what the agent has reported, and a sandbox as the cluster has it now.
func TestTheAPIKnowsAConnectedCluster(t *testing.T) {
	s := newSite(t)
	r := s.start(s.config())
	r.fill()
	if code, out := r.call("GET", "/orgs/acme/clusters/prod/", ""); code != http.StatusOK || fmt.Sprint(out["operator"]) != "map[version:]" {
		t.Errorf("before the agent: %d, %v", code, out)
	}
	r.agent()
	wait.Eventually(t, patience, "the version", func() error {
		_, out := r.call("GET", "/orgs/acme/clusters/prod/", "")
		if is := fmt.Sprint(out["operator"]); is != "map[version:1.2.0 (switchyard 0.1.0)]" {
			return errors.New(is)
		}
		return nil
	})
	for _, name := range []string{"web", "other"} {
		_, err := r.Store().PutSandbox(t.Context(), model.Sandbox{Org: "acme", Name: name, Cluster: "prod", RoutingKey: name, Spec: []byte(`{"cluster":"prod"}`), CreatedAt: time.Now(), UpdatedAt: time.Now()}, event())
		s.must(err)
	}
	asked := func(path, want string) {
		t.Helper()
		select {
		case c := <-s.readers:
			if is := fmt.Sprintf("%s, %s", c.GetName(), c.GetRoles()); is != want {
				t.Errorf("%s reads as %s, want %s", path, is, want)
			}
		default:
			t.Errorf("%s does not read as a user", path)
		}
		for len(s.readers) > 0 {
			<-s.readers
		}
	}
	for key, user := range map[string]string{adaKey: "ada@example.com, [admin]", ciKey: "ci, [member]"} {
		if code, out := r.callWith(key, "GET", "/orgs/acme/sandboxes/web/status/explain", ""); code != http.StatusOK || len(out) == 0 {
			t.Errorf("the explanation is %d, %v", code, out)
		}
		asked("explain", user)
		if code, out := r.callWith(key, "GET", "/orgs/acme/clusters/prod/devmesh/analyze", ""); code != http.StatusBadGateway {
			t.Errorf("the answer about all workloads of an API server without pods is %d, %v", code, out)
		}
		asked("analyze", user)
	}
	if log := s.log.String(); !strings.Contains(log, "A cluster cannot be read.") {
		t.Errorf("the log does not name the cluster:\n%s", log)
	}
	if code, text := r.probe("/metrics"); code != http.StatusOK || !strings.Contains(text, "switchyard_link_agents 1") {
		t.Errorf("the metrics are %d, %s", code, text)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if code, text := r.probe(path); code != http.StatusOK {
			t.Errorf("%s is %d, %s", path, code, text)
		}
	}
}

// TestThePageNeedsLogins: without them it shows how to configure them, and nothing else is served.
func TestThePageNeedsLogins(t *testing.T) {
	s := newSite(t)
	r := s.start(s.config())
	for _, c := range []struct {
		path, accept string
		status       int
		want         string
	}{
		{"/", "text/html", http.StatusOK, "Logins are not set up"},
		{"/", "application/json", http.StatusNotFound, `"code":404`},
		{"/sandboxes/x", "text/html", http.StatusNotFound, `"code":404`},
		{"/events", "text/event-stream", http.StatusNotFound, `"code":404`},
		{"/login/start", "text/html", http.StatusNotFound, `"code":404`},
	} {
		if status, text := r.page(c.path, c.accept); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s for %s: status %d, %s", c.path, c.accept, status, text)
		}
	}
}

// TestRouteGroupsEndWithTheirLifetime, as one that has ended before the start.
func TestRouteGroupsEndWithTheirLifetime(t *testing.T) {
	s := newSite(t)
	c := s.config()
	before, err := store.Open(t.Context(), c.Store)
	s.must(err)
	s.must(before.CreateOrganisation(t.Context(), model.Organisation{Name: "acme"}, event()))
	for name, duration := range map[string]string{"ended": "1m", "other": "1w"} {
		spec := fmt.Sprintf(`{"match":{"label":{"key":"a","value":"b"}},"ttl":{"duration":%q,"offsetFrom":"createdAt"}}`, duration)
		_, err := before.PutRouteGroup(t.Context(), model.RouteGroup{Org: "acme", Name: name, RoutingKey: name, Spec: []byte(spec), CreatedAt: time.Now().Add(-time.Hour), UpdatedAt: time.Now()}, event())
		s.must(err)
	}
	s.must(before.Close())
	r := s.start(c)
	wait.Eventually(t, patience, "the end of a route group", func() error {
		all, err := r.Store().RouteGroups(t.Context(), "acme")
		if err == nil && len(all) != 1 || len(all) == 1 && all[0].Name != "other" {
			err = fmt.Errorf("there are %+v", all)
		}
		return err
	})
}

// TestUsersReachServices: with API keys and bearer tokens of sessions, as long as they are valid.
func TestUsersReachServices(t *testing.T) {
	s := newSite(t)
	r := s.start(s.config())
	r.fill()
	r.agent()
	for _, c := range []struct{ headers, user, role string }{
		{"signadot-api-key: " + adaKey, "ada@example.com", "admin"},
		{"Authorization: Bearer " + adaKey, "ada@example.com", "admin"},
		{"signadot-api-key: " + ciKey, "ci", "member"},
		{"Authorization: Bearer " + bearer, "ada@example.com", "admin"},
	} {
		code, conn, from := r.connect(c.headers)
		if code != http.StatusOK {
			t.Errorf("%s: answered %d", c.user, code)
			continue
		}
		s.must(echoed(conn, from))
		if by := <-s.callers; by.GetName() != c.user || fmt.Sprint(by.GetRoles()) != "["+c.role+"]" || !by.GetApiKey() {
			t.Errorf("the agent knows the user as %v, want %s", by, c.user)
		}
	}
	for _, of := range []model.Principal{ada, ci} {
		if keys, err := r.Store().APIKeys(t.Context(), "acme", of); err != nil || len(keys) != 1 || keys[0].LastUsedAt.IsZero() {
			t.Errorf("the keys of %s are %+v, %v", of.ID, keys, err)
		}
	}
	for _, headers := range []string{"signadot-api-key: s3cret-unknown", "signadot-api-key: " + prodToken, "Authorization: Bearer " + expired, "Authorization: Bearer " + bearer + "r", "x: y"} {
		if code, _, _ := r.connect(headers); code != http.StatusProxyAuthRequired {
			t.Errorf("%.30s: answered %d", headers, code)
		}
	}
}

// TestARefusalOfACredentialWaits: a guess costs its client time, and no other answer does.
func TestARefusalOfACredentialWaits(t *testing.T) {
	s := newSite(t)
	r := s.start(s.config())
	r.fill()
	began := time.Now()
	if code, out := r.callWith("s3cret-unknown", "GET", "/orgs/acme/clusters/prod/", ""); code != http.StatusUnauthorized {
		t.Errorf("answered %d, %v", code, out)
	}
	if took := time.Since(began); took < 250*time.Millisecond {
		t.Errorf("refused after %s", took)
	}
}

// TestConnectionsEndWithTheirKey deletes an API key, ends a session, and takes a role away.
func TestConnectionsEndWithTheirKey(t *testing.T) {
	for name, c := range map[string]struct {
		headers string
		revoke  func(*running) error
	}{
		"key":     {"signadot-api-key: " + adaKey, func(r *running) error { return r.Store().DeleteAPIKey(r.Context(), "acme", ada, "k-ada", event()) }},
		"account": {"signadot-api-key: " + ciKey, func(r *running) error { return r.Store().DeleteServiceAccount(r.Context(), "acme", "ci", event()) }},
		"session": {"Authorization: Bearer " + bearer, func(r *running) error { return r.Store().EndSession(r.Context(), model.DigestOf(bearer), event()) }},
		"user":    {"Authorization: Bearer " + bearer, func(r *running) error { return r.Store().DeleteUser(r.Context(), "acme", ada.ID, event()) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			r := s.start(s.config())
			r.fill()
			r.agent()
			code, conn, from := r.connect(c.headers)
			if code != http.StatusOK {
				t.Fatalf("answered %d", code)
			}
			s.must(echoed(conn, from))
			_, other, alsoFrom := r.connect("signadot-api-key: " + map[bool]string{true: adaKey, false: ciKey}[name == "account"])
			time.Sleep(1500 * time.Millisecond) // after the first check, so that the notification is needed
			s.must(c.revoke(r))
			if _, err := from.ReadString('\n'); err == nil {
				t.Error("the connection goes on")
			}
			if name == "user" {
				return // all credentials of the user have ended
			}
			s.must(echoed(other, alsoFrom))
		})
	}
}

// TestAReplicaReachesTheAgentOfAnother has two replicas with PostgreSQL, and ends the one with the session.
func TestAReplicaReachesTheAgentOfAnother(t *testing.T) {
	db, err := postgres.Temporary(t.Context(), "fsync=off")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Remove(); err != nil {
			t.Error(err)
		}
	})
	url, err := db.Create(t.Context(), "replicas", "")
	if err != nil {
		t.Fatal(err)
	}
	s, certified := newSite(t), t.TempDir()
	s.authority.Write(t, certified, s.authority.Leaf(t, "*.preview.example.com", "*.previews.example.net"))
	begin := func() *running {
		c := s.config()
		c.Store.Path, c.Store.PostgreSQL = "", url
		c.ReplicasAddress = fmt.Sprintf("127.0.0.1:%d", port.Of(t))
		c.Link.Replica, c.Link.Linger = c.ReplicasAddress, time.Second
		var err error
		c.Previews = controlplane.Previews{Address: "127.0.0.1:0", Domains: map[string]string{"acme": "preview.example.com"}, Certificates: certificates.Config{Dir: certified}}
		c.Replicas, err = trust.Open(trust.Config{Dir: s.dir, Name: "127.0.0.1"})
		s.must(err)
		c.Link.Replicas = c.Replicas.Mutual()
		return s.start(c)
	}
	one, two := begin(), begin()
	one.fill()
	one.agent()
	code, conn, from := two.connect("signadot-api-key: " + adaKey)
	if code != http.StatusOK {
		t.Fatalf("answered %d", code)
	}
	s.must(echoed(conn, from))
	if n := len(two.Link().Agents()); n != 0 {
		t.Fatalf("the other replica has %d sessions", n)
	}
	const web = `{"spec":{"cluster":"prod","defaultRouteGroup":{"endpoints":[{"name":"web","target":"http://web.shop.svc"}]}}}`
	wait.Eventually(t, patience, "the domain that the agent has reported", func() error {
		code, out := two.call("PUT", "/orgs/acme/sandboxes/sb", web)
		if all, is := out["endpoints"].([]any); code != http.StatusOK || !is || len(all) != 1 || all[0].(map[string]any)["url"] != "https://web--sb.previews.example.net" {
			return fmt.Errorf("%d, %v", code, out)
		}
		return nil
	})
	one.stop()
	if err := <-one.ended; err != nil {
		t.Error(err)
	}
	if _, err := http.Get("http://" + one.at("metrics") + "/readyz"); err == nil {
		t.Error("a listener is open after the end")
	}
	if code, out := two.call("GET", "/orgs/acme/clusters/prod/", ""); code != http.StatusOK {
		t.Errorf("the other replica answers %d, %v", code, out)
	}
}

// TestAPIServesWhileAgentsLeave ends a control plane with an open connection to a Service.
func TestAPIServesWhileAgentsLeave(t *testing.T) {
	s := newSite(t)
	c := s.config()
	c.Link.Linger = patience
	r := s.start(c)
	r.fill()
	leave := r.agent()
	_, conn, from := r.connect("signadot-api-key: " + adaKey)
	s.must(echoed(conn, from))
	r.stop()
	wait.Eventually(t, patience, "the drain", func() error {
		if code, text := r.probe("/readyz"); code != http.StatusServiceUnavailable || text != "this replica is ending\n" {
			return fmt.Errorf("/readyz is %d, %s", code, text)
		}
		return nil
	})
	if code, out := r.call("GET", "/orgs/acme/clusters/prod/", ""); code != http.StatusOK {
		t.Errorf("the API answers %d, %v", code, out)
	}
	s.must(echoed(conn, from))
	s.must(conn.Close())
	leave()
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
}

// TestOldEntriesAreDeleted starts with an entry of the audit trail that is too old, and one that is not.
func TestOldEntriesAreDeleted(t *testing.T) {
	s := newSite(t)
	c := s.config()
	r := s.start(c)
	r.fill()
	old := event()
	old.Type, old.At = "old", time.Now().Add(-2*time.Hour)
	s.must(r.Store().Record(t.Context(), old))
	r.stop()
	s.must(<-r.ended)
	c.KeepEvents = time.Hour
	r = s.start(c)
	wait.Eventually(t, patience, "the deletion", func() error {
		all, err := r.Store().Events(t.Context(), "acme", model.EventQuery{Types: []string{"old", "test"}, Limit: 100})
		for _, e := range all {
			if e.Type == "old" {
				err = errors.New("the old entry is still there")
			}
		}
		if err == nil && len(all) == 0 {
			t.Error("other entries were deleted")
		}
		return err
	})
	r.stop()
	s.must(<-r.ended)
	if text := s.log.String(); strings.Count(text, "are deleted") != 1 || !strings.Contains(text, `msg="old entries of the audit trail are deleted" organisation=acme number=1`+"\n") {
		t.Errorf("the log is:\n%s", text)
	}
}

// TestTheFirstAdministratorHasItsKeyInASecret: the key is in the Secret until it is used.
func TestTheFirstAdministratorHasItsKeyInASecret(t *testing.T) {
	w := world.New(t)
	ns := w.NewNamespace("controlplane")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "controlplane-admin"}}
	w.Create(secret)
	s := newSite(t)
	c := s.config()
	c.Organisation, c.FirstKey = "acme", &admin.Secret{Cluster: w.Access().Config(), Namespace: ns, Name: secret.Name}
	r := s.start(c)
	key := ""
	wait.Eventually(t, patience, "the key", func() error {
		err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret)
		if key = string(secret.Data["api-key"]); err == nil && key == "" {
			err = errors.New("the Secret has no key")
		}
		return err
	})
	wait.Eventually(t, patience, "the administrator", func() error {
		if code, out := r.callWith(key, "PUT", "/orgs/acme/clusters/prod/", "{}"); code != http.StatusOK {
			return fmt.Errorf("answered %d, %v", code, out)
		}
		return nil
	})
	wait.Eventually(t, patience, "the deletion of the Secret", func() error {
		if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("not deleted"), err)
		}
		return nil
	})
	if strings.Contains(s.log.String(), key) {
		t.Error("the log has the key")
	}
}

// TestACommandAdoptsACluster runs a command beside the control plane.
func TestACommandAdoptsACluster(t *testing.T) {
	s := newSite(t)
	r := s.start(s.config())
	r.fill()
	r.agent()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	s.must(err)
	defer out.Close()
	for _, args := range []string{"--dry-run", ""} {
		args := append(append([]string{"adopt", "--organisation", "acme"}, strings.Fields(args)...), "prod")
		s.must(admin.Run(t.Context(), args, out))
	}
	adopted, err := r.Store().Events(t.Context(), "acme", model.EventQuery{Types: []string{"cluster.adopt"}, Limit: 10})
	if err != nil || len(adopted) != 1 {
		t.Errorf("the audit trail has %v, %v", adopted, err)
	}
}

// TestSettings reads files, and names those that are missing or wrong.
func TestSettings(t *testing.T) {
	s := newSite(t)
	keys, url := filepath.Join(s.dir, "keys"), filepath.Join(s.dir, "url")
	s.must(os.WriteFile(keys, []byte("first "+base64.StdEncoding.EncodeToString(make([]byte, 32))), 0o600))
	s.must(os.WriteFile(url, []byte("postgres://db\n"), 0o600))
	read := func(args ...string) (controlplane.Config, error) {
		var settings controlplane.Settings
		flags := flag.NewFlagSet("controlplane", flag.ContinueOnError)
		settings.Flags(flags)
		s.must(flags.Parse(append([]string{"-keys-file", keys, "-tls-dir", s.dir, "-tls-name", "127.0.0.1"}, args...)))
		return settings.Read(s.logger())
	}
	c, err := read("-proxies", "10.0.0.0/8", "-proxies", "fd00::/8", "-replicas-address", ":1", "-replicas-tls-dir", s.dir, "-replicas-tls-name", "127.0.0.1")
	if err != nil || c.Store.Path == "" || len(c.Proxies) != 2 || c.Link.Replicas == nil || c.URL != "https://127.0.0.1" {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := read("-postgres-url-file", url); err != nil || c.Store.Path != "" || c.Store.PostgreSQL != "postgres://db" || c.Link.Replicas != nil {
		t.Errorf("%+v, %v", c, err)
	}
	c, err = read("-artifacts-dir", "", "-artifacts-bucket", "jobs", "-artifacts-endpoint", "https://s3.local", "-artifact-size", "100Mi", "-job-artifacts-size", "1Gi", "-job-artifacts", "5")
	want := results.Config{S3: results.S3{Bucket: "jobs", Endpoint: "https://s3.local"}, Limits: results.Limits{File: 100 << 20, Job: 1 << 30, Files: 5}}
	if err != nil || c.Artifacts != want {
		t.Errorf("%+v, %v", c.Artifacts, err)
	}
	for _, args := range []string{"-keys-file none", "-postgres-url-file none", "-proxies 10.0.0.1", "-login none", "-tls-dir none", "-replicas-address :1 -replicas-tls-dir none", "-admin-secret none", "-signing-key none"} {
		words := strings.Fields(args)
		c, err := read(words...)
		if err == nil {
			_, err = controlplane.New(t.Context(), c)
		}
		if err == nil || !strings.Contains(err.Error(), "none") && !strings.Contains(err.Error(), words[0]) {
			t.Errorf("%s: %v", args, err)
		}
	}
}
