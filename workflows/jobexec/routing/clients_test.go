package routing_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/tests/podnet"
	"switchyard.dev/workflows/jobexec/routing"
)

// clientVariable makes this program a client.
const clientVariable = "ROUTING_TEST_CLIENT"

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(clientVariable) {
	case "http":
		err = overHTTP(os.Args[1])
	case "grpc":
		err = overGRPC(os.Args[1])
	default:
		if os.Geteuid() == 0 { // redirection takes a network of its own
			if err := podnet.Isolate(); err != nil {
				_, _ = fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
		os.Exit(m.Run())
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func overHTTP(address string) error {
	answer, err := http.Get("http://" + address + "/") //nolint:noctx // A client as users write it.
	if err != nil {
		return err
	}
	_, err = io.Copy(os.Stdout, answer.Body)
	return err
}

func overGRPC(address string) error {
	c, err := grpc.NewClient("dns:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err = healthv1.NewHealthClient(c).Check(ctx, &healthv1.HealthCheckRequest{})
	return err
}

// client is a stock client. Its arguments have WEB and RPC for the addresses of the servers.
type client struct {
	name string
	// installed is a command that succeeds if the client is installed; none: it has to be.
	installed []string
	command   []string
	// covered reports whether it obeys the variables.
	covered bool
	env     string
}

// The programs of clients.
const (
	pythonGRPC = `import grpc
print(grpc.insecure_channel("RPC").unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=60))`
	pythonTrailersOnly = `import grpc
try: grpc.insecure_channel("RPC").unary_unary("/none/none")(b"", timeout=60)
except grpc.RpcError as e: assert e.code() == grpc.StatusCode.UNIMPLEMENTED, e`
	nodeGRPC = `const g = require("@grpc/grpc-js"), same = x => x
new g.Client("RPC", g.credentials.createInsecure()).makeUnaryRequest("/grpc.health.v1.Health/Check", same, same, Buffer.alloc(0),
  (e, x) => { if (e) throw e; process.exit(0) })`
	javaHTTP = `import java.net.URI; import java.net.http.*;
class C { public static void main(String[] a) throws Exception {
  var c = HttpClient.newHttpClient(); for (int i = 0; i < 2; i++)
  System.out.print(c.send(HttpRequest.newBuilder(URI.create("http://WEB/")).build(), HttpResponse.BodyHandlers.ofString()).body()); } }`
	javaGRPC = `import io.grpc.*; import io.grpc.stub.ClientCalls; import java.io.*;
class G { public static void main(String[] a) throws Exception {
  var m = new MethodDescriptor.Marshaller<byte[]>() {
    public InputStream stream(byte[] b) { return new ByteArrayInputStream(b); }
    public byte[] parse(InputStream s) { try { return s.readAllBytes(); } catch (IOException e) { throw new RuntimeException(e); } } };
  var d = MethodDescriptor.newBuilder(m, m).setType(MethodDescriptor.MethodType.UNARY).setFullMethodName("grpc.health.v1.Health/Check").build();
  var c = ManagedChannelBuilder.forTarget("RPC").usePlaintext().build();
  System.out.println(ClientCalls.blockingUnaryCall(c, d, CallOptions.DEFAULT, new byte[0]).length); System.exit(0); } }`
)

var chromium = []string{"chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--dump-dom"}

// clients is the table of workflows/jobs/README.md. For gRPC in Java, CLASSPATH has the libraries.
func clients(javaHTTP, javaGRPC string) []client {
	self, properties := []string{os.Args[0]}, "JAVA_TOOL_OPTIONS=-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=PORT -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=PORT"
	return []client{
		{name: "curl", command: []string{"curl", "-sS", "http://WEB/"}, covered: true},
		{name: "Go net/http", command: append(self, "WEB"), covered: true, env: clientVariable + "=http"},
		{name: "gRPC in Go", command: append(self, "RPC"), covered: true, env: clientVariable + "=grpc"},
		{name: "Python urllib", installed: []string{"python3", "-c", ""}, command: []string{"python3", "-c", `import urllib.request as u; print(u.urlopen("http://WEB/").read())`}, covered: true},
		{name: "Python requests", installed: []string{"python3", "-c", "import requests"}, command: []string{"python3", "-c", `import requests; print(requests.get("http://WEB/").text)`}, covered: true},
		{name: "gRPC in Python", installed: []string{"python3", "-c", "import grpc"}, command: []string{"python3", "-c", pythonGRPC}, covered: true},
		{name: "a status of gRPC in Python", installed: []string{"python3", "-c", "import grpc"}, command: []string{"python3", "-c", pythonTrailersOnly}, covered: true},
		{name: "Node fetch", installed: []string{"node", "-e", "fetch"}, command: []string{"node", "-e", `fetch("http://WEB/").then(r => r.text()).then(console.log)`}},
		{name: "Node http", installed: []string{"node", "-e", ""}, command: []string{"node", "-e", `require("http").get("http://WEB/", r => r.resume())`}},
		{name: "gRPC in Node", installed: []string{"node", "-e", `require("@grpc/grpc-js")`}, command: []string{"node", "-e", nodeGRPC}, covered: true},
		{name: "Java HttpClient", installed: []string{"java", "--describe-module", "jdk.compiler"}, command: []string{"java", javaHTTP}},
		{name: "Java HttpClient with properties", installed: []string{"java", "--describe-module", "jdk.compiler"}, command: []string{"java", javaHTTP}, covered: true, env: properties},
		{name: "gRPC in Java", installed: []string{"javap", "io.grpc.ManagedChannelBuilder"}, command: []string{"java", javaGRPC}},
		{name: "gRPC in Java with properties", installed: []string{"javap", "io.grpc.ManagedChannelBuilder"}, command: []string{"java", javaGRPC}, covered: true, env: properties},
		{name: "Chromium", installed: []string{"chromium", "--version"}, command: append(chromium, "http://WEB/"), covered: true},
	}
}

// Each client that is installed sends its requests as the table for users states.
func TestStockClients(t *testing.T) {
	w := newWorld(t)
	w.clients(func(t *testing.T, c client, run func() (string, error)) {
		e := w.begin()
		text, err := run()
		w.expect(t, c, e.Count(), c.covered, text, err)
	})
}

// clients calls each with each client that is installed.
func (w *world) clients(each func(t *testing.T, c client, run func() (output string, err error))) {
	t := w.TB.(*testing.T)
	_, port, _ := strings.Cut(w.proxy.Address(), ":")
	fill := strings.NewReplacer("WEB", w.web, "RPC", w.rpc, "PORT", port).Replace
	dir := t.TempDir()
	w.must(os.WriteFile(dir+"/C.java", []byte(fill(javaHTTP)), 0o600))
	w.must(os.WriteFile(dir+"/G.java", []byte(fill(javaGRPC)), 0o600))
	for _, c := range clients(dir+"/C.java", dir+"/G.java") {
		t.Run(c.name, func(t *testing.T) {
			if c.installed != nil {
				if err := exec.CommandContext(t.Context(), c.installed[0], c.installed[1:]...).Run(); err != nil {
					t.Skipf("%s is not installed: %v", c.name, err)
				}
			}
			var argv []string
			for _, a := range c.command {
				argv = append(argv, fill(a))
			}
			each(t, c, func() (text string, err error) {
				cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
				cmd.Env = append(os.Environ(), "no_proxy=", "NO_PROXY=")
				for _, v := range routing.Environment(w.proxy.Address()) {
					cmd.Env = append(cmd.Env, v[0]+"="+v[1])
				}
				cmd.Env = append(cmd.Env, fill(c.env))
				return w.output(cmd)
			})
		})
	}
}

// expect compares the keys of the requests of a client with the key of the job, or with none.
func (w *world) expect(t *testing.T, c client, count *jobexecv1.RoutingCount, covered bool, text string, err error) {
	t.Helper()
	keys := w.seen()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	want := ""
	if covered {
		want = "mine"
	}
	if c.name == "a status of gRPC in Python" {
		keys = append(keys, want) // no method of the server has got it
	}
	if len(keys) == 0 || slices.ContainsFunc(keys, func(k string) bool { return k != want }) || (count.GetWithKey() > 0) != covered {
		t.Errorf("the keys of its requests are %q, want %q; the counts are %v: %s", keys, want, count, text)
	}
}
