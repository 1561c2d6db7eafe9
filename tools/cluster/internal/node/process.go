package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"switchyard.dev/tools/cluster/internal/layout"
	"switchyard.dev/tools/cluster/internal/netns"
)

// searchPath is where parts look for other programs, after the cache.
const searchPath = "/usr/sbin:/usr/bin:/sbin:/bin"

// Start starts a part inside the node's network namespace, in a session of its
// own, with its output appended to its log. Nothing is written down about it: Find
// recognises it. The channel yields how the process ended, should it end while
// this program runs.
func Start(n layout.Node, p Part) (<-chan error, error) {
	program, err := filepath.EvalSymlinks(filepath.Join(n.Bin(), p.Name))
	if err != nil {
		return nil, fmt.Errorf("finding the program %s: %w", p.Name, err)
	}
	log, err := os.OpenFile(n.Log(p.Name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", p.Name, err)
	}
	defer log.Close()
	cmd := exec.CommandContext(context.Background(), program, p.Args...) // it outlives this program
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	cmd.Env = []string{"PATH=" + filepath.Dir(program) + ":" + searchPath, "HOME=/root"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Find looks for the leader of a session
	if err := netns.Do(n.NetNS(), cmd.Start); err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.Name, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return ended, nil
}

// LogTail returns the last lines of a part's log, for an error message.
func LogTail(n layout.Node, part string, lines int) string {
	content, err := os.ReadFile(n.Log(part))
	if err != nil {
		return ""
	}
	all := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
