package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/world"
	"switchyard.dev/tools/switchyard"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
)

// The command is interrupted when the API server has added the override, and has not answered yet.
func TestAnOverrideThatIsInterruptedIsRemoved(t *testing.T) {
	w := world.Shared(t)
	sandbox := &crdv1.SignadotSandbox{}
	w.Make(sandbox, `
metadata: {name: interrupted}
spec:
  id: interrupted
  customization:
    patches:
    - target: {apiVersion: apps/v1, kind: Deployment, namespace: shop, name: cart}
      strategic: {metadata: {labels: {a: b}}}`)
	transport, err := rest.TransportFor(w.Config)
	w.Must(err)
	api, err := url.Parse(w.Config.Host)
	w.Must(err)
	proxy := httputil.NewSingleHostReverseProxy(api)
	proxy.Transport = transport
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var changes atomic.Int32
	proxy.ModifyResponse = func(a *http.Response) error {
		if a.Request.Method != http.MethodPatch || changes.Add(1) > 1 {
			return nil
		}
		w.Get(sandbox)
		if len(sandbox.Spec.RequestMiddlewares) != 1 {
			t.Errorf("%s, with %+v", a.Status, sandbox.Spec)
		}
		interrupt()
		<-a.Request.Context().Done()
		return context.Canceled
	}
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	w.Must(clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: server.URL}}, Contexts: map[string]*clientcmdapi.Context{"c": {Cluster: "c"}}, CurrentContext: "c",
	}, kubeconfig))

	var errs bytes.Buffer
	config := command.Config{Name: "switchyard", In: strings.NewReader(""), Out: io.Discard, Err: &errs, Getenv: func(string) string { return "" }}
	code := switchyard.Main(ctx, config, strings.Fields("override --sandbox interrupted --port 8080 --with localhost:9999 --kubeconfig "+kubeconfig))
	w.Get(sandbox)
	if code == exit.OK || changes.Load() != 2 || len(sandbox.Spec.RequestMiddlewares)+len(sandbox.Spec.ExternalWorkloads) > 0 {
		t.Errorf("exit code %d after %d changes, left is %+v\n%s", code, changes.Load(), sandbox.Spec, &errs)
	}
	w.Remove(sandbox)
	if text := errs.String(); !strings.Contains(text, "override override-1 is removed from sandbox interrupted") {
		t.Errorf("it prints %s", text)
	}
}
