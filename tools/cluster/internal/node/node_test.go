package node

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"switchyard.dev/tools/cluster/internal/layout"
	"switchyard.dev/tools/cluster/internal/netns"
)

func planned(t *testing.T, c layout.Config) layout.Node {
	t.Helper()
	n, err := layout.New(c, func(string) string { return "" }, "/home/x")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestEveryFileThatAPartReadsIsMade follows each path below the node's directory
// in arguments and configuration files to somebody who makes it.
func TestEveryFileThatAPartReadsIsMade(t *testing.T) {
	n := planned(t, layout.Config{State: "/state"})
	files, err := Files(n)
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]bool{"pki/ca.crt": true, "pki/ca.key": true, "pki/front-proxy-ca.crt": true,
		"pki/front-proxy.crt": true, "pki/front-proxy.key": true,
		"pki/service-accounts.key": true, "pki/service-accounts.pub": true}
	for file := range files {
		made[file] = true
	}
	for _, leaf := range append(Clients(n), Servers(n)...) {
		made["pki/"+leaf.File+".crt"], made["pki/"+leaf.File+".key"] = true, true
	}
	for _, leaf := range Clients(n) {
		made[leaf.File+".kubeconfig"] = true
	}
	var text strings.Builder
	for _, p := range Parts(n) {
		fmt.Fprintln(&text, strings.Join(p.Args, " "))
	}
	for _, content := range files {
		text.Write(content)
	}
	read := regexp.MustCompile(`/state/node/(\S+\.(?:crt|key|pub|kubeconfig|yaml|toml)|Corefile)`)
	found := read.FindAllStringSubmatch(text.String(), -1)
	if len(found) < 15 {
		t.Errorf("only %d files are read: the pattern of this test is wrong", len(found))
	}
	for _, m := range found {
		if file := strings.TrimRight(m[1], `"}]`); !made[file] {
			t.Errorf("%s is read, but nobody makes it", file)
		}
	}
}

func TestPartsHaveDistinctNamesAndChecks(t *testing.T) {
	names, questions := map[string]bool{}, map[string]bool{}
	last := 0
	for _, p := range Parts(planned(t, layout.Config{})) {
		question := p.Check.URL + strings.Join(p.Check.Command, " ")
		if names[p.Name] || questions[question] || question == "" {
			t.Errorf("%s: its name or its check %q is another's, or empty", p.Name, question)
		}
		if p.Wave < last {
			t.Errorf("%s is started before what stands before it", p.Name)
		}
		names[p.Name], questions[question], last = true, true, p.Wave
	}
}

func TestFilesFollowTheLayout(t *testing.T) {
	files, err := Files(planned(t, layout.Config{Name: "other", State: "/s", PodCIDR: "10.9.0.0/24", ServiceCIDR: "10.8.0.0/16"}))
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string][]string{
		"kubelet.yaml":    {"clusterDNS: [10.8.0.10]", "cgroupRoot: /node-other"},
		"kube-proxy.yaml": {"clusterCIDR: 10.9.0.0/24", "hostnameOverride: other"},
		"containerd.toml": {`sandbox = "` + PauseImage + `"`, `root = "/s/node/containerd"`},
		"Corefile":        {"cluster.local in-addr.arpa {", "kubeconfig /s/node/coredns.kubeconfig"},
		"resolv.conf":     {"nameserver 10.77.0.1", "search default.svc.cluster.local"},
	} {
		for _, w := range want {
			if !strings.Contains(string(files[file]), w) {
				t.Errorf("%s: no %q in\n%s", file, w, files[file])
			}
		}
	}
	var network struct{ Name string }
	if err := json.Unmarshal(files["cni/10-pods.conflist"], &network); err != nil || network.Name != "other" {
		t.Errorf("the network of pods: %+v, %v", network, err)
	}
	if len(files) != 6 {
		t.Errorf("%d files, want 6", len(files))
	}
}

// prepared makes a node with a network namespace of its own, and a part that says
// hello and runs until it is killed.
func prepared(t *testing.T) (layout.Node, Part) {
	t.Helper()
	n := planned(t, layout.Config{Name: fmt.Sprintf("node-test-%d", os.Getpid()), State: t.TempDir(), Cache: t.TempDir()})
	for _, dir := range []string{n.Dir("logs"), n.Bin()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"part", "another"} {
		if out, err := exec.Command("cp", "/usr/bin/tail", filepath.Join(n.Bin(), name)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if err := os.WriteFile(n.Dir("greeting"), []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := netns.Create(n.NetNS()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netns.Delete(n.NetNS()); err != nil {
			t.Error(err)
		}
	})
	return n, Part{Name: "part", Args: []string{"-f", n.Dir("greeting")}}
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func TestAStartedPartIsFoundUntilItEnds(t *testing.T) {
	n, p := prepared(t)
	before := time.Now()
	ended, err := Start(n, p)
	if err != nil {
		t.Fatal(err)
	}
	found, ok := Find(n, p.Name)
	if !ok {
		t.Fatal("the part is not found")
	}
	if took := found.Since.Sub(before); took < -time.Second || took > time.Minute || found.Program != filepath.Join(n.Bin(), "part") {
		t.Errorf("found %+v, want the part, begun at %v", found, before)
	}
	deadline := time.Now().Add(time.Minute)
	for LogTail(n, p.Name, 1) != "hello" && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	if got := LogTail(n, p.Name, 1); got != "hello" {
		t.Errorf("its log ends with %q", got)
	}
	kill(t, found.PID)
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("it ended with %v, want killed", err)
	}
	if _, ok := Find(n, p.Name); ok {
		t.Error("the part is found after its end")
	}
}

// TestAPartIsFoundWhateverBecameOfItsStarter: whoever starts a part can be killed
// at any moment after that, and its disk can be full. The next `up` must find the
// part, or it starts a second one.
func TestAPartIsFoundWhateverBecameOfItsStarter(t *testing.T) {
	n, p := prepared(t)
	if err := os.MkdirAll(n.Dir("pids", p.Name+".json"), 0o755); err != nil { // no record can be written
		t.Fatal(err)
	}
	_, _ = Start(n, p) // what it returns never reaches a program that was killed
	found, ok := Find(n, p.Name)
	if !ok {
		t.Fatal("the part runs and is not found")
	}
	kill(t, found.PID)
}

func TestOnlyThePartIsFound(t *testing.T) {
	n, p := prepared(t)
	leader := &syscall.SysProcAttr{Setsid: true}
	inside := func(start func() error) error { return netns.Do(n.NetNS(), start) }
	outside := func(start func() error) error { return start() }
	elsewhere := t.TempDir()
	for name, c := range map[string]struct {
		program, file string
		attributes    *syscall.SysProcAttr
		in            func(func() error) error
		want          bool
	}{
		"the part":                               {"part", n.Dir("greeting"), leader, inside, true},
		"a child that has not yet become itself": {"part", n.Dir("greeting"), nil, inside, false},
		"one that works for somebody else":       {"part", elsewhere, leader, inside, false},
		"one in another network":                 {"part", n.Dir("greeting"), leader, outside, false},
		"another program":                        {"another", n.Dir("greeting"), leader, inside, false},
	} {
		cmd := exec.Command(filepath.Join(n.Bin(), c.program), "-f", c.file)
		cmd.SysProcAttr = c.attributes
		if err := c.in(cmd.Start); err != nil {
			t.Fatal(err)
		}
		if _, got := Find(n, p.Name); got != c.want {
			t.Errorf("%s: found: %v, want %v", name, got, c.want)
		}
		kill(t, cmd.Process.Pid)
		_ = cmd.Wait() // it was killed, and says so
	}
}

func TestProbe(t *testing.T) {
	answer := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(answer)
		fmt.Fprint(w, "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n")
	}))
	defer server.Close()
	p := Part{Name: "x", Check: Check{URL: server.URL}}
	n := planned(t, layout.Config{})
	if err := Probe(t.Context(), n, server.Client(), p); err != nil {
		t.Errorf("of one that is well: %v", err)
	}
	answer = http.StatusInternalServerError
	err := Probe(t.Context(), n, server.Client(), p)
	if err == nil || !strings.Contains(err.Error(), "etcd failed") || strings.Contains(err.Error(), "ping") {
		t.Errorf("of one that is not: %v, want what fails and no more", err)
	}
}

func TestServersAreCalledAsPodsCallThem(t *testing.T) {
	n := planned(t, layout.Config{})
	server := Servers(n)[0]
	var addresses []string
	for _, ip := range server.IPs {
		address, _ := netip.AddrFromSlice(ip)
		addresses = append(addresses, address.Unmap().String())
	}
	all := strings.Join(append(addresses, server.Names...), " ")
	for _, want := range []string{"10.77.0.1", "10.96.0.1", "127.0.0.1", "kubernetes.default.svc"} {
		if !strings.Contains(all, want) {
			t.Errorf("%s is not in %s", want, all)
		}
	}
}
