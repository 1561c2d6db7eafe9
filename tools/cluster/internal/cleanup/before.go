package cleanup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"

	"switchyard.dev/tools/cluster/internal/atomicfile"
)

// Before is what the machine was like before the node came.
type Before struct {
	// Boot names the run of the machine. After a restart of it no process of the
	// node is left, and its data may be torn.
	Boot string `json:"boot"`
	// Absent are the shared folders that were not there.
	Absent []string `json:"absent"`
	// Settings are the kernel settings that kubelet changes, as they were.
	Settings map[string]string `json:"settings"`
	// NamesMounted reports whether /run/netns was a mount already.
	NamesMounted bool `json:"namesMounted"`
}

// Directories outside of the node's directory that its programs always write to. Parents come
// before their children.
const (
	names          = "/run/netns"
	shims          = "/run/containerd"
	kubeletDefault = "/var/lib/kubelet"
	containerLogs  = "/var/log/containers"
	networks       = "/var/lib/cni"
)

var shared = []string{names, shims, kubeletDefault, containerLogs, networks}

// settings are those that kubelet sets for the whole machine.
var settings = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// Boot names the present run of the machine.
func Boot() string {
	content, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(content))
}

// Observe records the current state of the machine.
func Observe() Before {
	b := Before{Boot: Boot(), Settings: map[string]string{}}
	for _, dir := range shared {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			b.Absent = append(b.Absent, dir)
		}
	}
	for _, s := range settings {
		if value, err := os.ReadFile("/proc/sys/" + s); err == nil {
			b.Settings[s] = strings.TrimSpace(string(value))
		}
	}
	mounted, err := mountinfo.Mounted(names)
	b.NamesMounted = mounted || err != nil && !errors.Is(err, fs.ErrNotExist)
	return b
}

// Save writes the observation to path atomically: an incomplete one would prevent part of Restore.
func (b Before) Save(path string) error {
	content, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return fmt.Errorf("writing down what the machine was like: %w", err)
	}
	if err := atomicfile.Write(path, content, 0o644); err != nil {
		return fmt.Errorf("writing down what the machine was like: %w", err)
	}
	return nil
}

// Load reads an observation. The error is fs.ErrNotExist when there is none.
func Load(path string) (Before, error) {
	var b Before
	content, err := os.ReadFile(path)
	if err != nil {
		return b, err
	}
	if err := json.Unmarshal(content, &b); err != nil {
		return b, fmt.Errorf("reading what the machine was like: %w", err)
	}
	return b, nil
}

// Restore restores what the node's programs changed outside of its directory. dir is the node's
// directory and name its name. Data in use by another running node is kept.
func (b Before) Restore(ctx context.Context, dir, name string) error {
	var faults []error
	for s, value := range b.Settings {
		if err := restoreSetting("/proc/sys/"+s, value); err != nil {
			faults = append(faults, fmt.Errorf("setting %s back to %s: %w", s, value, err))
		}
	}
	faults = append(faults,
		removeLinks(containerLogs, dir),
		removeDeadSockets(ctx, filepath.Join(shims, "s")),
		removeResults(filepath.Join(networks, "results"), name))
	if !otherKubelet() {
		faults = append(faults, b.removeKubeletDefault())
	}
	if empty(names) && !b.NamesMounted {
		_, err := Unmount(names)
		faults = append(faults, err)
	}
	for _, folder := range b.Absent {
		removeEmpty(folder)
	}
	return errors.Join(faults...)
}

func restoreSetting(path, value string) error {
	now, err := os.ReadFile(path)
	if err != nil || strings.TrimSpace(string(now)) == value {
		return err
	}
	return os.WriteFile(path, []byte(value), 0o644)
}

// removeLinks removes the links in folder that point into dir.
func removeLinks(folder, dir string) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		link := filepath.Join(folder, e.Name())
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, dir+"/") {
			err = os.Remove(link)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("removing a link to a log: %w", err)
			}
		}
	}
	return err
}

// removeResults removes what network plugins remember of the pods of the network
// with the given name. They forget a pod only when it is ended in good order.
func removeResults(folder, network string) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	ours := regexp.MustCompile("^" + regexp.QuoteMeta(network) + "-[0-9a-f]{64}-")
	for _, e := range entries {
		if !ours.MatchString(e.Name()) {
			continue
		}
		if err := os.Remove(filepath.Join(folder, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the cached CNI result of a pod: %w", err)
		}
	}
	return err
}

// removeDeadSockets removes the sockets in folder without a listener.
func removeDeadSockets(ctx context.Context, folder string) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	dialer := net.Dialer{Timeout: time.Second}
	for _, e := range entries {
		path := filepath.Join(folder, e.Name())
		if e.Type() != fs.ModeSocket {
			continue
		}
		if c, err := dialer.DialContext(ctx, "unix", path); err == nil {
			c.Close()
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing a dead socket: %w", err)
		}
	}
	return err
}

// removeKubeletDefault removes the folder that kubelet keeps for device plugins
// wherever its own directory is, when it was not there before.
func (b Before) removeKubeletDefault() error {
	if slices.Contains(b.Absent, kubeletDefault) {
		return RemoveAll(kubeletDefault)
	}
	return nil
}

// otherKubelet reports whether a kubelet runs. The node's own has ended by then.
func otherKubelet() bool {
	programs, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, p := range programs {
		if target, err := os.Readlink(p); err == nil && filepath.Base(strings.TrimSuffix(target, " (deleted)")) == "kubelet" {
			return true
		}
	}
	return false
}

func empty(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) == 0
}

// removeEmpty removes a folder and the folders in it, as far as they are empty.
func removeEmpty(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			removeEmpty(filepath.Join(dir, e.Name()))
		}
	}
	// A directory with files of other programs stays, as intended.
	_ = os.Remove(dir)
}
