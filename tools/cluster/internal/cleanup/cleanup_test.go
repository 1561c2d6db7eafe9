package cleanup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"switchyard.dev/tools/cluster/internal/netns"
)

func TestBelow(t *testing.T) {
	for groups, want := range map[string]bool{
		"4:memory:/node-x/kubepods/pod1/abc\n": true,
		"0::/node-x\n":                         true,
		"0::/node-xy\n":                        false,
		"0::/user.slice/node-x\n":              false,
		"1:cpu:/\n4:memory:/node-x/a\n":        true,
		"":                                     false,
	} {
		if got := below(groups, "node-x"); got != want {
			t.Errorf("%q: %v, want %v", groups, got, want)
		}
	}
}

func TestStarted(t *testing.T) {
	o := Owner{Programs: "/cache/bin", Dir: "/state/node"}
	for name, c := range map[string]struct {
		program, arguments string
		want               bool
	}{
		"a program of the cache with a path of the node":    {"/cache/bin/1/etcd", "etcd\x00--data-dir=/state/node/etcd", true},
		"a program of the cache that serves another node":   {"/cache/bin/1/etcd", "etcd\x00--data-dir=/state2/node/etcd", false},
		"an editor that shows a file of the node":           {"/usr/bin/vim", "vim\x00/state/node/Corefile", false},
		"a program whose folder only begins like the cache": {"/cache/bin2/etcd", "etcd\x00/state/node/etcd", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := o.started(c.program, c.arguments); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestDeepestMountComesFirst(t *testing.T) {
	base := t.TempDir()
	var want []string
	for _, name := range []string{"node", "node/a b", "node/a b/c"} {
		dir := filepath.Join(base, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("test", dir, "tmpfs", 0, "size=64k"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
		want = append([]string{dir}, want...)
	}
	got, err := mountPoints(mountinfo.PrefixFilter(filepath.Join(base, "node")))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUnmountTakesAllMountsBelowAndNoOthers(t *testing.T) {
	base := t.TempDir()
	dir, other := filepath.Join(base, "node"), filepath.Join(base, "node-of-another")
	for _, d := range []string{dir, other} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("test", d, "tmpfs", 0, "size=64k"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(d, unix.MNT_DETACH) })
	}
	inner := filepath.Join(dir, "a b")
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(other, inner, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other, "precious"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := RemoveAll(dir); err == nil || !strings.Contains(err.Error(), "umount") {
		t.Errorf("removed what has mounts in it: %v", err)
	}
	if count, err := Unmount(dir); err != nil || count != 2 {
		t.Errorf("unmounted %d, %v, want 2", count, err)
	}
	if err := RemoveAll(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(other, "precious")); err != nil {
		t.Errorf("what belongs to another is gone: %v", err)
	}
}

func TestCgroupsAreMadeAndRemovedWithAllBelow(t *testing.T) {
	name := fmt.Sprintf("node-cleanup-test-%d", os.Getpid())
	for range 2 {
		if err := CreateCgroup(name); err != nil {
			t.Fatal(err)
		}
	}
	roots, err := hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(roots[0], name, "kubepods", "pod"), 0o755); err != nil {
		t.Fatal(err)
	}
	if count, err := RemoveCgroups(name); err != nil || count != len(roots)+2 {
		t.Errorf("removed %d, %v, want %d", count, err, len(roots)+2)
	}
	for _, root := range roots {
		if _, err := os.Stat(filepath.Join(root, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s/%s is still there", root, name)
		}
	}
}

func TestKillEndsOnlyProcessesInTheNamespace(t *testing.T) {
	path := filepath.Join("/run/netns", fmt.Sprintf("cleanup-test-%d", os.Getpid()))
	if err := netns.Create(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netns.Delete(path) })
	inside, outside := exec.Command("sleep", "600"), exec.Command("sleep", "600")
	if err := netns.Do(path, inside.Start); err != nil {
		t.Fatal(err)
	}
	if err := outside.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = inside.Wait() // it is killed, and says so
		close(ended)
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	killed, err := Kill(ctx, Owner{NetNS: path, Cgroup: "node-none", Programs: "/none", Dir: "/none"})
	if err != nil || killed != 1 {
		t.Errorf("killed %d, %v, want 1", killed, err)
	}
	<-ended
	if err := outside.Process.Kill(); err != nil {
		t.Errorf("the process outside has ended too: %v", err)
	}
	_ = outside.Wait()
}

func TestOnlyLinksIntoTheNodeAreRemoved(t *testing.T) {
	folder := t.TempDir()
	for link, target := range map[string]string{"ours": "/state/node/logs/x", "theirs": "/var/log/pods/x"} {
		if err := os.Symlink(target, filepath.Join(folder, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(removeLinks(folder, "/state/node"), removeLinks(folder+"/none", "/state/node")); err != nil {
		t.Fatal(err)
	}
	left(t, folder, "theirs")
}

func TestOnlyResultsOfTheNetworkAreRemoved(t *testing.T) {
	folder, id := t.TempDir(), strings.Repeat("0a", 32)
	for _, name := range []string{"net-" + id + "-eth0", "net-2-" + id + "-eth0", "net-short"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := removeResults(folder, "net"); err != nil {
		t.Fatal(err)
	}
	left(t, folder, "net-2-"+id+"-eth0", "net-short")
}

func TestOnlyDeadSocketsAreRemoved(t *testing.T) {
	folder := t.TempDir()
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(folder, "dead")})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	alive, err := net.Listen("unix", filepath.Join(folder, "alive"))
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	if err := os.WriteFile(filepath.Join(folder, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := removeDeadSockets(t.Context(), folder); err != nil {
		t.Fatal(err)
	}
	left(t, folder, "alive", "file")
}

func TestRemoveEmptyKeepsFoldersWithFiles(t *testing.T) {
	base := t.TempDir()
	for _, dir := range []string{"x/empty/deep", "x/full"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(base, "x/full/file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	removeEmpty(filepath.Join(base, "x"))
	left(t, filepath.Join(base, "x"), "full")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	removeEmpty(filepath.Join(base, "x"))
	left(t, base)
}

func TestSettingsArePutBack(t *testing.T) {
	file := filepath.Join(t.TempDir(), "setting")
	if err := os.WriteFile(file, []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := restoreSetting(file, "0"); err != nil {
		t.Fatal(err)
	}
	if content, _ := os.ReadFile(file); string(content) != "0" {
		t.Errorf("the setting is %q", content)
	}
}

func TestAnObservationIsReadBackAsItWas(t *testing.T) {
	path := filepath.Join(t.TempDir(), "before.json")
	if _, err := Load(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	saved := Observe()
	if saved.Boot == "" || len(saved.Settings) != len(settings) {
		t.Errorf("observed %+v", saved)
	}
	if err := saved.Save(path); err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(saved, loaded); diff != "" {
		t.Errorf("(-saved +loaded):\n%s", diff)
	}
}

// left checks which files are left in a folder.
func left(t *testing.T, folder string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("left in the folder (-want +got):\n%s", diff)
	}
}
