package captured_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"switchyard.dev/tests/podnet"
	"switchyard.dev/tools/cache"
)

// older is the commit of the first release with captures. Its container has no overrides, members of traffic-manager or counters that outlive it.
const older = "654ee883ead550f845b29549e14aee82c219f66a"

// olderDir is the folder of its container in the cache.
const olderDir = "upgrade/traffic-sidecar-" + older

// buildOlder builds the container of the earlier release out of the history of this repository, once. A clone without that
// commit has none.
func buildOlder() error {
	if podnet.Inside() || exec.Command("git", "cat-file", "-e", older+"^{commit}").Run() != nil {
		return nil
	}
	_, err := cache.Folder(olderDir, func(half string) error {
		tree, err := os.MkdirTemp("", "older-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(tree) }() // of a test
		build := exec.CommandContext(context.Background(), "sh", "-ec", `root=$(git rev-parse --show-toplevel)
git -C "$root" archive "$1" | tar -x -C "$2"
go build -C "$2" -o "$3/" ./`+container, "sh", older, tree, half)
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build the container of commit %.12s: %w: %s", older, err, out)
		}
		return nil
	})
	return err
}

// Pods outlive an upgrade of the operator, and keep the container of the release that created them.
func TestAContainerOfAnEarlierRelease(t *testing.T) {
	program := filepath.Join(cache.Dir(), olderDir, filepath.Base(container))
	if _, err := os.Stat(program); err != nil {
		t.Skipf("this clone does not have commit %s: get it with git fetch --unshallow", older)
	}
	s := newSite(t, "older", ring)
	s.built = program
	s.startContainer(s.Address)
	s.Must(s.Applied(t.Context()))
	s.requests(50)
	if counts := s.settled(); counts.GetStored() != 50 {
		t.Errorf("%v", counts)
	}
	s.manager.Kill()
	s.requests(20)
	s.startManager()
	s.requests(30)
	s.Must(s.Applied(t.Context()))
	if counts := s.settled(); counts.GetStored() != 100 {
		t.Errorf("%v", counts)
	}
}
