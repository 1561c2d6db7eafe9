package main

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/wait"
	"switchyard.dev/tunnels/relay"
	"switchyard.dev/tunnels/workstation"
)

func writeFile(path, text string) error { return os.WriteFile(path, []byte(text), 0o600) }

// shop makes the baseline and the objects that it names, once.
func (f *farSide) shop() {
	f.Helper()
	if f.Look(&corev1.Namespace{ObjectMeta: metaNamed("local-shop")}) == nil {
		return
	}
	f.Namespaces("local-shop")
	f.Make(&corev1.ConfigMap{}, `{metadata: {namespace: local-shop, name: settings}, data: {COLOR: blue, cart.yaml: "a: 1\n"}}`)
	f.Make(&corev1.Secret{}, `{metadata: {namespace: local-shop, name: db}, stringData: {password: "p'a $x"}}`)
	f.Make(&appsv1.Deployment{}, `
metadata: {namespace: local-shop, name: cart}
spec:
  selector: {matchLabels: {app: cart}}
  template:
    metadata: {labels: {app: cart}}
    spec:
      containers:
      - name: main
        image: cart
        ports: [{containerPort: 80}]
        envFrom: [{configMapRef: {name: settings}}]
        env:
        - {name: CONFIG, value: /etc/cart/cart.yaml}
        - {name: PATH, value: /app}
        - {name: PASSWORD, valueFrom: {secretKeyRef: {name: db, key: password}}}
        - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        volumeMounts: [{name: config, mountPath: /etc/cart}, {name: secret, mountPath: /etc/secret}]
      volumes:
      - {name: config, configMap: {name: settings, items: [{key: cart.yaml, path: cart.yaml}]}}
      - {name: secret, secret: {secretName: db, defaultMode: 0400}}
`)
}

// sandbox makes a sandbox with an external workload for the baseline, whose port leads to an
// address.
func (f *farSide) sandbox(name, local string, port int32) {
	f.Helper()
	o := &crdv1.SignadotSandbox{}
	f.Make(o, strings.NewReplacer("NAME", name, "LOCAL", local, "PORT", portText(port)).Replace(`
metadata: {name: NAME}
spec:
  id: NAME
  externalWorkloads:
  - name: cart
    baseline: {apiVersion: apps/v1, kind: Deployment, namespace: local-shop, name: cart}
    tunnel: {baselineToLocals: [{baselinePort: PORT, localAddress: "LOCAL"}]}
`))
	f.says(name, "True", "Ready")
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sandboxes = append(f.sandboxes, &tunnelv1.LocalSandbox{SandboxName: name, RoutingKey: name, Uid: string(o.UID), ExternalWorkloads: []*tunnelv1.LocalWorkload{{
		Name: "cart", ObjectNamespace: "local-shop", ObjectName: name + "-cart", Connected: true,
		Baseline:            &tunnelv1.Baseline{Kind: "Deployment", Namespace: "local-shop", Name: "cart"},
		WorkloadPortMapping: []*tunnelv1.Port{{Baseline: port, LocalAddress: local}},
	}}})
}

// says has the operator say whether a sandbox is ready, and why.
func (f *farSide) says(sandbox, status, reason string) {
	f.Helper()
	o := &crdv1.SignadotSandbox{}
	f.Must(f.Client.Get(context.Background(), client.ObjectKey{Name: sandbox}, o))
	o.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionReady, Status: status, Reason: reason,
		Message: "Some message.", ObservedGeneration: o.Generation}}
	f.Must(f.Client.Status().Update(context.Background(), o))
}

// mayRead lets the developer read what the baseline is made of; secrets too, if so.
func (f *farSide) mayRead(secrets bool) {
	f.Helper()
	f.mayReadIn("local-shop", secrets)
}

// mayReadIn is mayRead of another namespace.
func (f *farSide) mayReadIn(namespace string, secrets bool) {
	f.Helper()
	rules := []rbacv1.PolicyRule{{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps", "serviceaccounts"}, Verbs: []string{"get"}}}
	if secrets {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}})
	}
	f.Grant(f.user(), namespace, rules...)
}

// localServer is a local process.
func localServer(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "local") }))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// The whole way of a developer with a kubeconfig: through the API server and a kubelet to the
// proxy, and both ways through the tunnel.
func TestAWorkstationIsConnected(t *testing.T) {
	f := newFarSide(t, "local-connect")
	local := localServer(t)
	f.sandbox("local-a", local, 80)
	b := f.bench(t)
	end := b.begins("connect", "--sandbox", "local-a", "--allow", local, "--socks5", "", "--http-proxy", "127.0.0.1:0", "--map", "http://cart.local-shop:80@localhost:0")
	wait.Holds(t, "requests of the cluster come here", func() bool {
		got, err := f.asks("local-a-cart")
		return err == nil && strings.HasSuffix(got, "local")
	})
	var all []workstation.Status
	wait.Eventually(t, time.Minute, "the status says all of it", func() error { // of a proxy that answers after the first request
		all = nil
		code, out, _ := b.does(t.Context(), "connect", "status", "-o", "json")
		must(t, json.Unmarshal([]byte(out), &all))
		if code != exit.OK || len(all) != 1 || len(all[0].Ways) != 2 || all[0].User != f.user() || len(all[0].Workloads) != 1 || !all[0].Workloads[0].Open {
			return fmt.Errorf("exit code %d\n%s", code, out)
		}
		return nil
	})
	if all[0].Outbound != (workstation.Connections{}) {
		t.Errorf("its own connections count: %+v", all[0].Outbound)
	}
	for _, way := range all[0].Ways {
		client, at := http.DefaultClient, "http://"+way.Address
		if way.Kind == "http-proxy" {
			client, at = &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: way.Address})}}, "http://cart.local-shop"
		}
		r, err := client.Get(at)
		must(t, err)
		got, _ := io.ReadAll(r.Body)
		r.Body.Close()
		if string(got) != "cluster: sd-routing-key=local-a " {
			t.Errorf("through %s: %s", way.Kind, got)
		}
	}
	f.kill()
	wait.Holds(t, "it comes back", func() bool {
		got, err := f.asks("local-a-cart")
		return err == nil && strings.HasSuffix(got, "local")
	})
	code, text := end()
	if code != exit.Interrupted {
		t.Errorf("it ended with %d", code)
	}
	for _, says := range []string{"connected to tunnel-proxy-0 as " + f.user(), "local-a/cart: port 80 of Deployment/local-shop/cart is forwarded to", "not connected: "} {
		if !strings.Contains(text, says) {
			t.Errorf("it did not say %q:\n%s", says, text)
		}
	}
	if code, out, _ := b.does(t.Context(), "connect", "status"); code != exit.No || !strings.Contains(out, "nothing is connected") {
		t.Errorf("in the end: %d, %s", code, out)
	}
}

// A sandbox of another author names a service of this machine. Without a terminal connect refuses to
// open it, and names the command that does; the sandbox's own file opens it as well.
func TestASandboxOfAnotherAuthorOpensNothing(t *testing.T) {
	f := newFarSide(t, "local-consent")
	f.shop()
	f.mayRead(true)
	local := localServer(t)
	f.sandbox("local-c", local, 80)
	b := f.bench(t)
	b.env["XDG_STATE_HOME"] = t.TempDir()
	end := b.begins("connect", "--sandbox", "local-c", "--socks5", "", "--http-proxy", "")
	for _, until := range []string{"none", "sandboxes"} {
		wait.Holds(t, "the workload is known", func() bool {
			_, out, errs := b.does(t.Context(), "connect", "status", "--wait", until)
			return strings.Contains(out+errs, "connect --sandbox local-c --allow "+local)
		})
	}
	if got, err := f.asks("local-c-cart"); err == nil {
		t.Errorf("the service is reached: %s", got)
	}
	if code, out, errs := b.does(t.Context(), "doctor", "--sandbox", "local-c"); code != exit.No || !strings.Contains(out, "wrong    local addresses are allowed: "+local+" is not opened to the cluster\n") {
		t.Errorf("doctor: %d\n%s%s", code, out, errs)
	}
	end()
	file := b.file("sandbox.yaml", "name: local-c\nspec:\n  cluster: c\n  local:\n  - name: cart\n    from: {kind: Deployment, namespace: local-shop, name: cart}\n    mappings: [{port: 80, toLocal: \""+local+"\"}]\n")
	end = b.begins("connect", "-f", file, "--socks5", "", "--http-proxy", "")
	wait.Holds(t, "requests of the cluster come here", func() bool {
		got, err := f.asks("local-c-cart")
		return err == nil && strings.HasSuffix(got, "local")
	})
	if _, text := end(); !strings.Contains(text, "opened "+local) {
		t.Errorf("it did not write who opened the address:\n%s", text)
	}
	for flag, says := range map[string]string{"169.254.169.254:80": "link-local", "nowhere": "host:port"} {
		if code, _, errs := b.does(t.Context(), "connect", "--allow", flag); code != exit.Usage || !strings.Contains(errs, says) {
			t.Errorf("--allow %s: %d, %s", flag, code, errs)
		}
	}
}

// A tunnel proxy is reached at an address, and through a proxy of a control plane, which is asked as
// the published client asks.
func TestAnAddressAndATokenAreEnough(t *testing.T) {
	f := newFarSide(t, "local-address")
	controlPlane := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Host != "tunnel-proxy."+f.namespace+".svc:7777" || r.Header.Get("signadot-cluster") != "mine" || r.Header.Get("signadot-api-key") != "the-key" {
			http.Error(w, fmt.Sprint(r.Method, r.Host, r.Header), http.StatusForbidden)
			return
		}
		there, err := net.Dial("tcp", f.address)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		here, _, err := w.(http.Hijacker).Hijack()
		must(t, err)
		_, err = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
		must(t, err)
		relay.Pipe(relay.Of(here), relay.Of(there))
	}))
	t.Cleanup(controlPlane.Close)
	for road, flags := range map[string][]string{ // Names are short: the socket of connect status has one in its path.
		"address": {"--address", f.address},
		"proxy":   {"--proxy-url", controlPlane.URL, "--cluster", "mine"},
	} {
		t.Run(road, func(t *testing.T) {
			b := f.bench(t)
			b.env["SIGNADOT_API_KEY"] = "the-key"
			b.args = []string{"--namespace-of-operator", f.namespace, "--kubeconfig", os.DevNull, "--token-file", b.file("token", f.token+"\n")}
			b.begins(append([]string{"proxy", "--ca", b.file("ca.crt", string(f.authority.Bundle())), "--map", "tcp://cart.local-shop:80@localhost:0", "--key", "k"}, flags...)...)
			_, out, _ := b.does(t.Context(), "connect", "status", "-o", "json")
			var all []workstation.Status
			must(t, json.Unmarshal([]byte(out), &all))
			r, err := http.Get("http://" + all[0].Ways[0].Address)
			must(t, err)
			defer r.Body.Close()
			if got, _ := io.ReadAll(r.Body); string(got) != "cluster:  " {
				t.Errorf("it answered %s", got)
			}
		})
	}
}

// A control plane that issues no credentials, as the published one, still forwards connections of users
// with a kubeconfig.
func TestAControlPlaneWithoutCredentials(t *testing.T) {
	f := newFarSide(t, "local-published")
	controlPlane := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			http.NotFound(w, r)
			return
		}
		there, err := net.Dial("tcp", f.address)
		must(t, err)
		here, _, err := w.(http.Hijacker).Hijack()
		must(t, err)
		_, err = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
		must(t, err)
		relay.Pipe(relay.Of(here), relay.Of(there))
	}))
	t.Cleanup(controlPlane.Close)
	b := f.bench(t)
	trust := []string{"--control-plane-ca", b.file("plane.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: controlPlane.Certificate().Raw})))}
	b.args = append(b.args, trust...)
	flags := []string{"--proxy-url", controlPlane.URL, "--cluster", "mine", "--api-key-file", b.file("key", "the-key\n")}
	end := b.begins(append([]string{"proxy", "--map", "tcp://cart.local-shop:80@localhost:0", "--key", "k"}, flags...)...)
	if _, text := end(); !strings.Contains(text, "Note: the control plane issues no credentials for tunnels: you are the user of the kubeconfig.") {
		t.Errorf("it wrote\n%s", text)
	}
	b.args = append([]string{"--kubeconfig", os.DevNull}, trust...)
	for what, c := range map[string]struct {
		args []string
		code exit.Code
		says string
	}{
		"no kubeconfig":  {flags, exit.Unavailable, "issues no credentials for tunnels"},
		"no such file":   {append(flags[:4:4], "--api-key-file", filepath.Join(t.TempDir(), "none")), exit.Usage, "the file of --api-key-file cannot be read"},
		"an empty file":  {append(flags[:4:4], "--api-key-file", b.file("empty", "\n")), exit.Usage, "does not have one line with the key"},
		"two lines":      {append(flags[:4:4], "--api-key-file", b.file("two", "a\nb\n")), exit.Usage, "does not have one line with the key"},
		"no key at all":  {flags[:4], exit.Unavailable, "or a control plane (--proxy-url, with an API key)"},
		"only a cluster": {flags[2:4], exit.Usage, "set --proxy-url too"},
	} {
		code, _, errs := b.does(t.Context(), append([]string{"connect", "--socks5", "", "--http-proxy", ""}, c.args...)...)
		if code != c.code || !strings.Contains(errs, c.says) {
			t.Errorf("%s: %d, %s", what, code, errs)
		}
	}
}

// What no attempt could mend is said at once, and names the flag.
func TestUnusableFlagsAreRejectedAtOnce(t *testing.T) {
	b := &bench{T: t, env: map[string]string{"XDG_RUNTIME_DIR": t.TempDir()}}
	b.args = []string{"--kubeconfig", os.DevNull, "--token-file", b.file("token", "t")}
	gone := filepath.Join(t.TempDir(), "gone.crt")
	for name, c := range map[string]struct {
		args []string
		code exit.Code
		says string
	}{
		"no command":          {[]string{"run", "--sandbox", "mine"}, exit.Usage, "name the command after --, as in: switchyard run --sandbox mine -- COMMAND"},
		"no command after --": {[]string{"run", "--"}, exit.Usage, "switchyard run --sandbox NAME -- COMMAND"},
		"no port":             {[]string{"connect", "--address", "127.0.0.1"}, exit.Usage, `--address "127.0.0.1" is not host:port: give the host and the port of a tunnel proxy, which is usually 7777`},
		"no port, for proxy":  {[]string{"proxy", "--key", "k", "--http-proxy", "127.0.0.1:0", "--address", "there:"}, exit.Usage, `--address "there:" is not host:port`},
		"no port, for doctor": {[]string{"doctor", "--address", "::1"}, exit.Usage, `--address "::1" is not host:port`},
		"no number":           {[]string{"connect", "--address", "127.0.0.1:proxy"}, exit.Usage, "is not host:port"},
		"no file":             {[]string{"connect", "--socks5", "", "--http-proxy", "", "--address", "127.0.0.1:1", "--ca", gone}, exit.Unavailable, "the file of --ca cannot be read: stat " + gone},
		"no file, for doctor": {[]string{"doctor", "--address", "127.0.0.1:1", "--ca", gone}, exit.No, ""},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := b.does(t.Context(), c.args...)
			if code != c.code || !strings.Contains(errs, c.says) {
				t.Errorf("exit code %d\n%s%s", code, out, errs)
			}
			if c.code == exit.No && !strings.Contains(out, "wrong    trusted authority: the file of --ca cannot be read: stat "+gone+": no such file or directory\n         Name a file with") {
				t.Errorf("doctor says\n%s", out)
			}
		})
	}
}

func TestHelpFitsATerminal(t *testing.T) {
	b := &bench{T: t, env: map[string]string{}}
	for _, command := range []string{"connect", "run"} {
		_, out, _ := b.does(t.Context(), command, "--help")
		for line := range strings.Lines(out) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 90 {
				t.Errorf("%s --help has a line of %d characters: %s", command, n, line)
			}
		}
		if !strings.Contains(out, "--trust-author") {
			t.Errorf("%s --help:\n%s", command, out)
		}
	}
}

func TestAServiceAccountStandsInForACertificate(t *testing.T) {
	f := newFarSide(t, "local-account")
	b := f.bench(t)
	b.args = []string{"--kubeconfig", as(t, "", ""), "--namespace-of-operator", f.namespace}
	code, _, errs := b.does(t.Context(), "connect", "--socks5", "", "--http-proxy", "")
	if code != exit.Unavailable || !strings.Contains(errs, "by a client certificate") || !strings.Contains(errs, "--as-service-account") {
		t.Errorf("without: exit code %d\n%s", code, errs)
	}
	// The proxy of a test believes one token; that this is another shows that it was made and shown.
	code, _, errs = b.does(t.Context(), "connect", "--socks5", "", "--http-proxy", "", "--as-service-account", f.namespace+"/developer")
	if code != exit.Unavailable || strings.Count(errs, "does not know who you are") != 1 || !strings.Contains(errs, "doctor checks each part") {
		t.Errorf("with: exit code %d\n%s", code, errs)
	}
	code, _, errs = b.does(t.Context(), "connect", "--socks5", "", "--http-proxy", "", "--as-service-account", f.namespace+"/nobody")
	if code != exit.Unavailable || !strings.Contains(errs, "there is no service account "+f.namespace+"/nobody") {
		t.Errorf("one that is not there: exit code %d\n%s", code, errs)
	}
}

// Whom the API server does not know, no attempt helps: it is said at once, and in the same words
// whatever was asked.
func TestUnauthenticatedUsersAreAskedToLogIn(t *testing.T) {
	f := newFarSide(t, "local-stranger")
	b := f.bench(t)
	b.args = []string{"--kubeconfig", as(t, "", "wrong"), "--namespace-of-operator", f.namespace}
	ca := b.file("ca.crt", string(f.authority.Bundle()))
	spec := b.file("sandbox.yaml", "name: mine\nspec:\n  cluster: c\n  forks:\n  - forkOf: {kind: Deployment, namespace: local-shop, name: cart}\n")
	for _, args := range [][]string{
		{"connect", "--socks5", "", "--http-proxy", ""},
		{"connect", "--socks5", "", "--http-proxy", "", "--ca", ca},
		{"connect", "--socks5", "", "--http-proxy", "", "--as-service-account", f.namespace + "/developer", "--ca", ca},
		{"run", "--sandbox", "mine", "--", "true"},
		{"sandbox", "list"},
		{"sandbox", "apply", "-f", spec},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second) // Less than a first connection may take.
		code, _, errs := b.does(ctx, args...)
		cancel()
		if code == exit.OK || code == exit.Interrupted || strings.Count(errs, "the cluster does not know who you are: it does not take the token or the credentials of the kubeconfig; log in to it again") == 0 {
			t.Errorf("%s: exit code %d\n%s", strings.Join(args, " "), code, errs)
		}
	}
}

func TestALocalProcessHasItsBaselinesEnvironment(t *testing.T) {
	f := newFarSide(t, "local-run")
	f.shop()
	f.mayRead(true)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	f.sandbox("local-r", l.Addr().String(), 80)
	b := f.bench(t)
	script := `echo "$COLOR $PASSWORD $POD $SIGNADOT_SANDBOX_ROUTING_KEY"; cat "$CONFIG" "$SWITCHYARD_ROOT/etc/secret/password"; stat -c %a "$SWITCHYARD_ROOT/etc/secret/password" "$SWITCHYARD_ROOT"; test "$PATH" = /app; echo; echo "$SWITCHYARD_ROOT"; exit 7`
	code, out, errs := b.does(t.Context(), "run", "--sandbox", "local-r", "--no-connect", "--", "sh", "-c", script)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	want := "blue p'a $x " + crdv1.ObjectName(crdv1.MaxServiceName, "local-r", "cart") + " local-r\na: 1\np'a $x400\n700\n"
	if code != 7 || !strings.HasPrefix(out, want) {
		t.Errorf("exit code %d\n%s\n%s\nwant %s", code, out, errs, want)
	}
	if _, err := os.Stat(lines[len(lines)-1]); !os.IsNotExist(err) {
		t.Errorf("its folder %s is still there: %v", lines[len(lines)-1], err)
	}
	if !strings.Contains(errs, "token of service account default") || !strings.Contains(errs, "is not copied") {
		t.Errorf("it does not say what becomes of the token:\n%s", errs)
	}
	// Connected, and with a way into the cluster.
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "local") }))
	}()
	code, out, errs = b.does(t.Context(), "run", "--sandbox", "local-r", "--allow", l.Addr().String(), "--proxy-env", "--", "sh", "-c", `echo "$http_proxy"; curl -s http://`+l.Addr().String()+`; curl -s http://cart.local-shop/`)
	if code != exit.OK || !strings.HasSuffix(out, "localcluster: sd-routing-key=local-r ") {
		t.Errorf("connected: exit code %d\n%s\n%s", code, out, errs)
	}
}

// That the user starts run does not make the addresses of another author's sandbox the user's.
func TestRunOpensNoAddressOfAnotherAuthor(t *testing.T) {
	f := newFarSide(t, "local-agree")
	f.shop()
	f.mayRead(true)
	local := localServer(t)
	f.sandbox("local-g", local, 80)
	b := f.bench(t)
	b.env["XDG_STATE_HOME"] = t.TempDir()
	file := b.file("sandbox.yaml", "name: local-g\nspec:\n  cluster: c\n  local:\n  - name: cart\n    from: {kind: Deployment, namespace: local-shop, name: cart}\n    mappings: [{port: 80, toLocal: \""+local+"\"}]\n")
	for name, c := range map[string]struct {
		author, opened bool
		flags          []string
	}{
		"another author":             {},
		"the user":                   {author: true, opened: true},
		"the user, --trust-author":   {author: true, flags: []string{"--trust-author=false"}},
		"another author, --allow":    {opened: true, flags: []string{"--allow", local}},
		"another author, --filename": {opened: true, flags: []string{"-f", file}},
	} {
		t.Run(name, func(t *testing.T) {
			f.mu.Lock()
			f.sandboxes[0].CallerIsAuthor = c.author
			f.mu.Unlock()
			done := filepath.Join(t.TempDir(), "done")
			errs := make(chan string, 1)
			go func() {
				args := append(append([]string{"run", "--sandbox", "local-g"}, c.flags...), "--", "sh", "-c", "while ! test -e "+done+"; do sleep 0.1; done")
				_, _, text := b.does(context.Background(), args...)
				errs <- text
			}()
			wait.Holds(t, "the workload is known", func() bool {
				_, out, _ := b.does(t.Context(), "connect", "status")
				return strings.Contains(out, "local-g/cart: port 80 of")
			})
			if c.opened {
				wait.Holds(t, "requests of the cluster come here", func() bool {
					got, err := f.asks("local-g-cart")
					return err == nil && strings.HasSuffix(got, "local")
				})
			} else if got, err := f.asks("local-g-cart"); err == nil {
				t.Errorf("the service is reached: %s", got)
			}
			must(t, writeFile(done, ""))
			if text := <-errs; strings.Contains(text, "run --sandbox local-g --allow "+local+" --workload cart -- COMMAND") == c.opened {
				t.Errorf("standard error:\n%s", text)
			}
		})
	}
	other := b.file("other.yaml", "name: other\nspec:\n  cluster: c\n  local:\n  - name: cart\n    from: {kind: Deployment, namespace: local-shop, name: cart}\n    mappings: [{port: 80, toLocal: \""+local+"\"}]\n")
	if code, _, errs := b.does(t.Context(), "run", "--sandbox", "local-g", "-f", other, "--", "true"); code != exit.Usage || !strings.Contains(errs, "sandbox other") {
		t.Errorf("the file of another sandbox: exit code %d\n%s", code, errs)
	}
}

func TestEnvironmentAndFilesOfABaseline(t *testing.T) {
	f := newFarSide(t, "local-env")
	f.shop()
	f.mayRead(false)
	f.sandbox("local-e", "localhost:8080", 80)
	b := f.bench(t)
	get := func(what string, args ...string) (exit.Code, string, string) {
		return b.does(t.Context(), append([]string{"sandbox", what, "local-e"}, args...)...)
	}
	code, out, errs := get("get-env")
	if code != exit.No || out != "" || !strings.Contains(errs, "Secret local-shop/db, which was not read: you may not get secrets in namespace local-shop") {
		t.Errorf("without the right: exit code %d\n%s%s", code, out, errs)
	}
	f.mayRead(true)
	if code, out, errs = get("get-env", "--env", "COLOR=red"); code != exit.OK || !strings.Contains(out, "COLOR=red\n") || !strings.Contains(out, `PASSWORD='p'\''a $x'`+"\n") || !strings.Contains(out, "PATH=/app\n") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	var vars []struct{ Name, Value, Source string }
	if _, out, _ = get("get-env", "-o", "json"); json.Unmarshal([]byte(out), &vars) != nil || len(vars) == 0 || vars[0].Name != "COLOR" || vars[0].Source != "ConfigMap settings" {
		t.Errorf("as JSON: %s", out)
	}
	folder := filepath.Join(t.TempDir(), "root")
	for range 2 { // The second time over what is there.
		if code, out, errs = get("get-files", "-d", folder); code != exit.OK {
			t.Fatalf("exit code %d\n%s%s", code, out, errs)
		}
	}
	info, err := os.Stat(filepath.Join(folder, "etc/secret/password"))
	must(t, err)
	if text, _ := os.ReadFile(filepath.Join(folder, "etc/secret/password")); string(text) != "p'a $x" || info.Mode().Perm() != 0o400 {
		t.Errorf("the Secret's file is %q, %s", text, info.Mode())
	}
	must(t, writeFile(filepath.Join(folder, "etc/cart/cart.yaml"), "mine"))
	if code, _, errs = get("get-files", "-d", folder, "--no-clobber"); code != exit.OK {
		t.Errorf("--no-clobber: exit code %d\n%s", code, errs)
	}
	if text, _ := os.ReadFile(filepath.Join(folder, "etc/cart/cart.yaml")); string(text) != "mine" {
		t.Errorf("what was there became %q", text)
	}
	for args, says := range map[string]string{"--local nobody": "has no external workload nobody; it has cart", "-c other": `no container "other"; it has main`, "--env x": "is not NAME=VALUE",
		"--env X=resource:db/host": "needs output host of resource db, which is not there; there are: none"} {
		if code, out, errs := get("get-env", strings.Fields(args)...); code == exit.OK || !strings.Contains(errs, says) {
			t.Errorf("%s: exit code %d\n%s%s", args, code, out, errs)
		}
	}
}

func TestAKeyIsSignedForSSH(t *testing.T) {
	f := newFarSide(t, "local-ssh")
	b := f.bench(t)
	key := b.file("id_ed25519", "private")
	must(t, writeFile(key+".pub", "ssh-ed25519 AAAA me\n"))
	known := filepath.Join(filepath.Dir(key), "known")
	code, out, errs := b.does(t.Context(), "tunnel", "ssh-cert", "--identity", key, "--known-hosts", known)
	if code != exit.OK || !strings.Contains(out, "is written, good until") {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	for path, want := range map[string]string{key + "-cert.pub": "certificate of ssh-ed25519 AAAA me\n", known: "@cert-authority * key\n", key: "private"} {
		if text, err := os.ReadFile(path); err != nil || string(text) != want {
			t.Errorf("%s is %q, %v", path, text, err)
		}
	}
	if code, _, errs := b.does(t.Context(), "tunnel", "ssh-cert", "--identity", key+"x"); code != exit.Usage || !strings.Contains(errs, "ssh-keygen") {
		t.Errorf("no key: exit code %d\n%s", code, errs)
	}
}

func TestACredentialIsIssuedForSOCKS5(t *testing.T) {
	b := newFarSide(t, "local-socks").bench(t)
	code, out, errs := b.does(t.Context(), "tunnel", "socks-credential", "-o", "json")
	if code != exit.OK || !strings.Contains(out, `"user": "ada"`) || !strings.Contains(out, `"password": "v1.secret"`) || !strings.Contains(out, `"expires"`) {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}
