package check

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// limit bounds one command of the program. The first `up` may have to compile.
const limit = 15 * time.Minute

// subject is a node that a test made, driven from outside as a person would.
type subject struct {
	t                    *testing.T
	program, name, state string
}

func newSubject(t *testing.T) subject {
	t.Helper()
	s := subject{t: t, program: filepath.Join(t.TempDir(), "cluster"), name: fmt.Sprintf("check-%d", os.Getpid()), state: t.TempDir()}
	if out, err := exec.Command("go", "build", "-o", s.program, "..").CombinedOutput(); err != nil {
		t.Fatalf("building the program: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		if _, err := s.run("down"); err != nil {
			t.Error(err)
		}
	})
	return s
}

// run runs one command of the program and returns all that it wrote.
func (s subject) run(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.program, append([]string{"-name", s.name, "-state", s.state}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("cluster %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), err
}

func (s subject) must(args ...string) string {
	s.t.Helper()
	out, err := s.run(args...)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

func (s subject) kubectl(args ...string) string {
	s.t.Helper()
	return s.must(append([]string{"exec", "--", "kubectl"}, args...)...)
}

// pids reads the process numbers from `status`, by part.
func (s subject) pids() map[string]int {
	s.t.Helper()
	pids := map[string]int{}
	for line := range strings.Lines(s.must("status")) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		if pid, err := strconv.Atoi(fields[1]); err == nil {
			pids[fields[0]] = pid
		}
	}
	if len(pids) != 8 {
		s.t.Fatalf("status tells the processes %v, want 8 parts", pids)
	}
	return pids
}

// running lists the node's processes that run a program.
func (s subject) running(program string) []int {
	s.t.Helper()
	var pids []int
	for _, pid := range withArgument(s.t, s.state+"/") {
		if target, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil && filepath.Base(target) == program {
			pids = append(pids, pid)
		}
	}
	return pids
}

// kill kills without a word and waits until the process has ended.
func (s subject) kill(pid int) {
	s.t.Helper()
	process, err := os.FindProcess(pid)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, fmt.Sprintf("process %d ends", pid), func() error {
		if _, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil {
			return errors.New("it still runs")
		}
		return nil
	})
}

// eventually asks until the answer is nil, for at most two minutes.
func eventually(t *testing.T, what string, ask func() error) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within two minutes: %v", what, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// pod makes a pod with a volume and waits until it runs.
func (s subject) pod() {
	s.t.Helper()
	manifest := filepath.Join(s.t.TempDir(), "pod.yaml")
	if err := os.WriteFile(manifest, []byte(podManifest), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.kubectl("apply", "-f", manifest)
	s.podRuns()
}

func (s subject) podRuns() {
	s.t.Helper()
	s.kubectl("wait", "--for=condition=Ready", "--timeout=120s", "pod/sleeper")
}

// podManifest uses the one image that every node has.
const podManifest = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: sleeper}
spec:
  securityContext: {runAsNonRoot: true, runAsUser: 1000, fsGroup: 1000, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: sleeper
    image: switchyard.dev/pause:1
    imagePullPolicy: Never
    securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
    volumeMounts: [{name: data, mountPath: /data}, {name: token, mountPath: /token}]
  volumes:
  - {name: data, persistentVolumeClaim: {claimName: data}}
  - {name: token, projected: {sources: [{serviceAccountToken: {audience: someone, path: token}}]}}
`

func TestUpDownLeavesNothing(t *testing.T) {
	s := newSubject(t)
	before := look(t, s)
	s.must("up")
	s.pod()
	if during := look(t, s); cmp.Equal(before, during) {
		t.Fatalf("a running node leaves no trace on the machine: this test sees nothing: %+v", during)
	}
	s.must("down")
	if diff := cmp.Diff(before, look(t, s)); diff != "" {
		t.Errorf("the machine is not as it was (-before +after):\n%s", diff)
	}
	if out, err := s.run("status"); err == nil || !strings.Contains(out, "cluster up") {
		t.Errorf("status of what is down: %v, %q", err, out)
	}
	s.must("down") // of nothing, which is no error
}

func TestKilledPartsRestart(t *testing.T) {
	s := newSubject(t)
	s.must("up")
	s.pod()
	first := s.pids()
	for part := range first {
		t.Run(part, func(t *testing.T) {
			s := s
			s.t = t
			s.kill(s.pids()[part])
			if out, err := s.run("status"); err == nil {
				t.Errorf("status is content without %s:\n%s", part, out)
			}
			s.must("up")
			s.podRuns()
		})
	}
	t.Run("all parts at once, and what holds the pods", func(t *testing.T) {
		s := s
		s.t = t
		for _, pid := range s.pids() {
			s.kill(pid)
		}
		for _, pid := range withArgument(t, filepath.Join(s.state, "node")) {
			s.kill(pid)
		}
		s.must("up")
		s.podRuns()
	})
	t.Run("the name of the network namespace", func(t *testing.T) {
		s := s
		s.t = t
		if out, err := exec.Command("ip", "netns", "del", s.name).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if out := s.must("up"); !strings.Contains(out, "starting from scratch") {
			t.Errorf("up does not say that it begins anew:\n%s", out)
		}
		s.must("status")
	})
}

func TestARunningNode(t *testing.T) {
	s := newSubject(t)
	s.must("up")
	with := func(f func(s subject)) func(t *testing.T) {
		return func(t *testing.T) { f(subject{t: t, program: s.program, name: s.name, state: s.state}) }
	}
	t.Run("is found by the next up, and by two at a time", with(isFound))
	t.Run("runs a command as if it were run without it", with(execIsTheCommandItself))
	t.Run("keeps what kubectl remembers of its API server to itself", with(kubectlRemembersThisNode))
	t.Run("gives out a volume again that nobody claims any more", with(reusesVolumes))
	t.Run("says which image file is not there", with(func(s subject) {
		if out, err := s.run("load", "/no/such.tar"); err == nil || !strings.Contains(out, "/no/such.tar") {
			s.t.Errorf("%v: %s", err, out)
		}
	}))
}

func isFound(s subject) {
	first := s.pids()
	both := make(chan error, 2)
	for range 2 {
		go func() { _, err := s.run("up"); both <- err }()
	}
	for range 2 {
		if err := <-both; err != nil {
			s.t.Error(err)
		}
	}
	if diff := cmp.Diff(first, s.pids()); diff != "" {
		s.t.Errorf("another `up` changed processes (-before +after):\n%s", diff)
	}
}

func execIsTheCommandItself(s subject) {
	command := func(script string) *exec.Cmd {
		return exec.Command(s.program, "-name", s.name, "-state", s.state, "exec", "--", "sh", "-c", script)
	}
	cmd := command("cat; exit 7")
	cmd.Stdin = strings.NewReader("through")
	out, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 7 || string(out) != "through" {
		s.t.Errorf("got %q and %v, want the command's own output and exit code 7", out, err)
	}
	out, err = command("kubectl get --raw=/readyz && getent hosts kubernetes.default.svc.cluster.local").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "10.96.0.1") {
		s.t.Errorf("kubectl and the cluster's names: %v: %s", err, out)
	}
}

// kubectlRemembersThisNode runs kubectl as somebody who has just worked with
// another node. kubectl files the kinds of objects that it found under the API
// server's address, which all nodes share, and takes them from there for six hours.
func kubectlRemembersThisNode(s subject) {
	home := s.t.TempDir()
	others := filepath.Join(home, ".kube", "cache", "discovery", "10.77.0.1_6443")
	if err := os.MkdirAll(others, 0o755); err != nil {
		s.t.Fatal(err)
	}
	nothing := `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`
	if err := os.WriteFile(filepath.Join(others, "servergroups.json"), []byte(nothing), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if out, err := s.run("exec", "--", "env", "HOME="+home, "kubectl", "get", "deployments,storageclasses"); err != nil {
		s.t.Errorf("kubectl took another node's kinds for this one's: %v: %s", err, out)
	}
	if made := found(s.t, filepath.Join(home, ".kube", "cache", "*")); len(made) != 1 {
		s.t.Errorf("kubectl keeps %v where another node would find it", made)
	}
}

func reusesVolumes(s subject) {
	s.pod()
	volume := s.kubectl("get", "pvc", "data", "-o", "jsonpath={.spec.volumeName}")
	file := filepath.Join(s.state, "node", "volumes", volume, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.kubectl("delete", "pod/sleeper", "pvc/data", "--wait")
	phase := func(want string) {
		s.t.Helper()
		s.kubectl("wait", "--for=jsonpath={.status.phase}="+want, "--timeout=60s", "pv/"+volume)
	}
	phase("Released")
	s.must("up")
	phase("Available")
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		s.t.Errorf("the next one to claim the volume would see %s: %v", file, err)
	}
}

// TestAnUpThatWasCutOffIsContinued kills `up` as soon as one of the last parts
// runs, before it can have written anything down about it.
func TestAnUpThatWasCutOffIsContinued(t *testing.T) {
	s := newSubject(t)
	before := look(t, s)
	up := exec.Command(s.program, "-name", s.name, "-state", s.state, "up")
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	var first []int
	eventually(t, "kube-proxy, one of the last, is started", func() error {
		if first = s.running("kube-proxy"); len(first) == 0 {
			return errors.New("it does not run")
		}
		return nil
	})
	if err := up.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = up.Wait() // it was killed, and says so
	out := s.must("up")
	if diff := cmp.Diff(first, s.running("kube-proxy")); diff != "" {
		t.Errorf("what had been started was started again (-before +after):\n%s\n%s", diff, out)
	}
	if pid := s.pids()["kube-proxy"]; pid != first[0] {
		t.Errorf("status names process %d as kube-proxy, want %d", pid, first[0])
	}
	s.must("down")
	if diff := cmp.Diff(before, look(t, s)); diff != "" {
		t.Errorf("the machine is not as it was (-before +after):\n%s", diff)
	}
}

func TestANamespaceOfAnotherProgramIsLeftAlone(t *testing.T) {
	s := newSubject(t)
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	ip("netns", "add", s.name)
	other := exec.Command("nsenter", "--net=/run/netns/"+s.name, "sleep", "600")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"up", "down"} {
		if out, err := s.run(command); err == nil || !strings.Contains(out, "ip netns del "+s.name) {
			t.Errorf("%s: %v: %s", command, err, out)
		}
	}
	if err := other.Process.Kill(); err != nil {
		t.Errorf("the other program's process has ended: %v", err)
	}
	_ = other.Wait() // it was killed, and says so
	ip("netns", "del", s.name)
}

func TestNonRootUsersAreRejectedBeforeAnyChange(t *testing.T) {
	s := newSubject(t)
	place, err := os.MkdirTemp("", "check-") // unlike t.TempDir, its parent is open to everybody
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(place); err != nil {
			t.Error(err)
		}
	})
	program := filepath.Join(place, "cluster")
	if err := errors.Join(os.Chmod(place, 0o777), os.Rename(s.program, program)); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"up", "down", "status"} {
		cmd := exec.Command(program, "-state", place+"/state", command)
		cmd.Env = append(os.Environ(), "HOME=/", "SWITCHYARD_CACHE="+place+"/cache")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "sudo") || strings.Count(string(out), "\n") != 1 {
			t.Errorf("%s: %v, %q, want one line with the mend", command, err, out)
		}
	}
	if made := found(t, place+"/*"); len(made) != 1 {
		t.Errorf("made %v, want the program alone", made)
	}
	if err := os.Rename(program, s.program); err != nil { // the clean-up at the end needs it
		t.Fatal(err)
	}
}
