package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"switchyard.dev/tools/demo/local"
	"switchyard.dev/tools/switchyard/command/reach"
	"switchyard.dev/tools/wait"
)

// silentConnections is how many silent connections one address could have at a proxy: a port-forward
// has the same address for all users.
const silentConnections = 128

// Silent connections by a port-forward to each proxy do not keep the workstation of another user out:
// its port-forward has the same address.
func TestSilentConnectionsKeepNoWorkstationOut(t *testing.T) {
	w := newWorld(t)
	dora := w.desk("dora", 0)
	file := dora.applies()
	dora.starts(local.Program("customer"))
	access, err := reach.Cluster{Namespace: "signadot"}.Rest()
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		t.Fatal(err)
	}
	pods, err := client.CoreV1().Pods("signadot").List(t.Context(), metav1.ListOptions{LabelSelector: "app=tunnel-proxy"})
	if err != nil || len(pods.Items) == 0 {
		t.Fatal("there is no tunnel proxy: ", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for i := range pods.Items {
		at, err := reach.Forward(ctx, client, access, &pods.Items[i], 7777)
		if err != nil {
			t.Fatal(err)
		}
		for range silentConnections {
			all.Go(func() { silence(ctx, at) })
		}
	}
	pids := w.processes("/tunnel-proxy", "app=tunnel-proxy")
	if len(pids) != len(pods.Items) {
		t.Fatalf("%d pods have the processes %v", len(pods.Items), pids)
	}
	full := func() error {
		for _, pid := range pids {
			if n := established(t, pid, 7777); n < silentConnections {
				return fmt.Errorf("a proxy has %d connections", n)
			}
		}
		return nil
	}
	w.eventually("each proxy has the silent connections", time.Minute, full)
	disconnect := dora.connects("--sandbox", local.Sandbox, "-f", file)
	dora.until("a request reaches the workstation beside silent connections", local.Answer.Local)
	w.eventually("each proxy has the silent connections still", time.Minute, full)
	dora.always("beside silent connections", local.Answer.Local)
	// A workstation that is refused comes back, and gets in when silent connections time out.
	if strings.Contains(disconnect(), "broke before it answered") {
		t.Error("the proxy closed a connection of the workstation")
	}
}

// silence makes a connection that sends nothing, and another one when it is closed.
func silence(ctx context.Context, address string) {
	for ctx.Err() == nil {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			_ = wait.For(ctx, 100*time.Millisecond)
			continue
		}
		stop := context.AfterFunc(ctx, func() { _ = c.Close() })
		_, _ = io.Copy(io.Discard, c) // until the proxy closes it
		stop()
		_ = c.Close()
	}
}

// established returns how many connections the network of a process has to one of its ports.
func established(t *testing.T, pid, port int) (n int) {
	t.Helper()
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "net", table))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			// Fields as in proc_net_tcp(5): number, local address, remote address, state.
			const is = "01"
			if f := strings.Fields(line); len(f) > 3 && f[3] == is && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) {
				n++
			}
		}
	}
	return n
}
