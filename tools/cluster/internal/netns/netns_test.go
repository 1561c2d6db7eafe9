package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// made makes a namespace for one test. Root is needed, as for the program.
func made(t *testing.T) string {
	t.Helper()
	path := filepath.Join("/run/netns", fmt.Sprintf("netns-test-%d", os.Getpid()))
	if err := Create(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Delete(path); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there after Delete: %v", path, err)
		}
	})
	return path
}

func TestANamespaceIsMadeOnceAndKeepsItsIdentity(t *testing.T) {
	path := made(t)
	first, err := Of(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := Create(path); err != nil {
		t.Fatal(err)
	}
	second, err := Of(path)
	if err != nil || first != second {
		t.Errorf("%v then %v (%v): made anew", first, second, err)
	}
	own, err := Of("/proc/self/ns/net")
	if err != nil || own == first {
		t.Errorf("own namespace %v (%v): the new one is the same", own, err)
	}
}

func TestOfAnOrdinaryFileIsNoNamespace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, file + "-not-there"} {
		if _, err := Of(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want not exist", path, err)
		}
	}
}

func TestProcessesStartedInsideDoAreInside(t *testing.T) {
	path := made(t)
	want, err := Of(path)
	if err != nil {
		t.Fatal(err)
	}
	var link []byte
	if err := Do(path, func() error {
		link, err = exec.Command("readlink", "/proc/self/ns/net").Output()
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(string(link)); got != fmt.Sprintf("net:[%d]", want.Ino) {
		t.Errorf("the child is in %s, want net:[%d]", got, want.Ino)
	}
	outside, err := os.Readlink("/proc/self/ns/net")
	if err != nil || strings.Contains(outside, fmt.Sprint(want.Ino)) {
		t.Errorf("this process is in %s (%v) after Do", outside, err)
	}
}

func TestSetupCanBeRepeatedAndTheAddressAnswers(t *testing.T) {
	path := made(t)
	for range 2 {
		if err := Setup(t.Context(), path, netip.MustParsePrefix("10.9.8.1/24"), netip.MustParseAddr("10.9.8.2")); err != nil {
			t.Fatal(err)
		}
	}
	if err := Do(path, func() error {
		l, err := net.Listen("tcp", "10.9.8.1:0")
		if err != nil {
			return err
		}
		defer l.Close()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			return err
		}
		return c.Close()
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := net.Listen("tcp", "10.9.8.1:0"); err == nil {
		t.Error("the address can be used outside of the namespace too")
	}
}
