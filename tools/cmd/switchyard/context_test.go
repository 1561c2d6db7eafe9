package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/wait"
)

// rewrite changes a kubeconfig.
func rewrite(t *testing.T, path string, change func(*clientcmdapi.Config)) {
	t.Helper()
	config, err := clientcmd.LoadFromFile(path)
	must(t, err)
	change(config)
	must(t, clientcmd.WriteToFile(*config, path))
}

// A user logs in again after the login has expired, switches to another cluster for other work, and has
// the context of this one replaced. The connection needs no restart, and never moves.
func TestAConnectionOutlivesALogin(t *testing.T) {
	f := newFarSide(t, "local-login")
	b := f.bench(t)
	path := b.args[1]
	end := b.begins("connect", "--socks5", "", "--http-proxy", "")
	status := func(what string, want exit.Code, says ...string) {
		t.Helper()
		wait.Eventually(t, time.Minute, what, func() error {
			code, out, _ := b.does(t.Context(), "connect", "status")
			for _, s := range says {
				if !strings.Contains(out, s) {
					return fmt.Errorf("%q is missing: %d\n%s", s, code, out)
				}
			}
			if code != want {
				return fmt.Errorf("exit code %d\n%s", code, out)
			}
			return nil
		})
	}
	token := f.logIn()
	status("the old login is refused", exit.No, "the cluster does not know who you are", "Log in again: the connection then comes back without a restart")
	rewrite(t, path, func(c *clientcmdapi.Config) { c.AuthInfos["u"].Token = token })
	status("the new login counts", exit.OK, "connected to tunnel-proxy-0")

	var server string
	rewrite(t, path, func(c *clientcmdapi.Config) {
		server = c.Clusters["c"].Server
		c.Clusters["other"] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}
		c.Contexts["other"] = &clientcmdapi.Context{Cluster: "other", AuthInfo: "u"}
		c.CurrentContext = "other"
	})
	f.kill()
	status("it stays with its context", exit.OK, "connected to tunnel-proxy-0")

	rewrite(t, path, func(c *clientcmdapi.Config) { c.Contexts["c"].Cluster = "other" })
	f.kill()
	status("another server is refused", exit.No, "context c of the kubeconfig names another cluster", strings.TrimSuffix(server, "/"), "https://127.0.0.1:1")
	rewrite(t, path, func(c *clientcmdapi.Config) { c.Contexts["c"].Cluster = "c" })
	status("the context is restored", exit.OK, "connected to tunnel-proxy-0")
	if _, text := end(); strings.Count(text, "the current context of the kubeconfig is now other. This connection stays with context c") != 1 {
		t.Errorf("the note that it stays is missing:\n%s", text)
	}
}
