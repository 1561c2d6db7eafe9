package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// machine is what a node could leave behind. Other people work on the same
// machine, so processes, mounts and folders count only when they show the node's
// name or directory; rules and settings, which nobody else changes, count all.
type machine struct {
	Processes, Mounts, Namespaces, Cgroups, Files []string
	Rules, Settings                               string
}

// look gathers what there is, with other means than the program itself uses.
func look(t *testing.T, s subject) machine {
	t.Helper()
	var m machine
	for _, pid := range withArgument(t, s.state) {
		if target, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "exe")); err == nil {
			m.Processes = append(m.Processes, filepath.Base(target))
		}
	}
	m.Mounts = grep(read(t, "/proc/self/mountinfo"), s.state, s.name)
	m.Namespaces = found(t, "/run/netns/"+s.name)
	m.Cgroups = cgroups(t, s.name)
	m.Rules = output(t, "iptables-save") + output(t, "ip6tables-save")
	m.Settings = output(t, "sysctl", "vm.overcommit_memory", "vm.panic_on_oom", "kernel.panic", "kernel.panic_on_oops", "kernel.keys.root_maxkeys", "net.ipv4.ip_forward")
	m.Files = found(t, s.state+"/*", "/var/lib/cni/results/"+s.name+"-*")
	for _, link := range found(t, "/var/log/containers/*") {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, s.state) {
			m.Files = append(m.Files, link)
		}
	}
	return m
}

// withArgument lists the processes whose command line shows text.
func withArgument(t *testing.T, text string) []int {
	t.Helper()
	var pids []int
	for _, file := range found(t, "/proc/[0-9]*/cmdline") {
		content, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(content), text) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

func cgroups(t *testing.T, name string) []string {
	t.Helper()
	return grep(output(t, "find", "/sys/fs/cgroup", "-type", "d"), name)
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func found(t *testing.T, patterns ...string) []string {
	t.Helper()
	var all []string
	for _, p := range patterns {
		matches, err := filepath.Glob(p)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, matches...)
	}
	return all
}

func grep(text string, words ...string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if slices.ContainsFunc(words, func(w string) bool { return strings.Contains(line, w) }) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// comments are the lines in which iptables-save tells the time, and counters.
var comments = regexp.MustCompile(`(?m)^#.*\n|\[\d+:\d+\]`)

func output(t *testing.T, command string, args ...string) string {
	t.Helper()
	// `find` complains about what ends while it looks; what it found still counts.
	out, err := exec.Command(command, args...).Output()
	if err != nil && command != "find" {
		t.Fatalf("%s: %v", command, err)
	}
	return comments.ReplaceAllString(string(out), "")
}
