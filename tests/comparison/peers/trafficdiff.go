package peers

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"switchyard.dev/tests/comparison/corpus"
	"switchyard.dev/tools/cache"
)

// Pins are traffic-diff and what its comparison imports.
var pins = []string{"traffic-diff==0.1.0", "PyYAML==6.0.4"}

//go:embed trafficdiff.py
var script string

// TrafficDiff is a process with traffic-diff's comparison. It compares one pair of answers at a time.
type TrafficDiff struct {
	lock sync.Mutex
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
}

// StartTrafficDiff installs traffic-diff into the cache, with python3 and pip, and starts it.
func StartTrafficDiff(ctx context.Context) (*TrafficDiff, error) {
	folder, err := cache.Folder("traffic-diff-0.1.0", func(half string) error {
		args := append([]string{"-m", "pip", "install", "--quiet", "--no-deps", "--target", half}, pins...)
		if out, err := exec.CommandContext(ctx, "python3", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("install traffic-diff: %w\n%s", err, out)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	t := &TrafficDiff{cmd: exec.CommandContext(ctx, "python3", "-c", script)}
	t.cmd.Env = []string{"PYTHONPATH=" + folder, "PATH=" + filepath.Join("/usr/local/bin") + ":/usr/bin:/bin"}
	in, err := t.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := t.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	t.in, t.out = in, bufio.NewReader(out)
	return t, t.cmd.Start()
}

// Close ends the process.
func (t *TrafficDiff) Close() error { return errors.Join(t.in.Close(), t.cmd.Wait()) }

// Judge compares the first answers of both sides with all rules that need no knowledge of the service: it records once, and replays once.
func (t *TrafficDiff) Judge(c corpus.Case, _ int) (red []string) {
	t.lock.Lock()
	defer t.lock.Unlock()
	pair := []any{}
	for _, a := range []corpus.Answer{c.Baseline[0], c.Fork[0]} {
		pair = append(pair, a.Status, base64.StdEncoding.EncodeToString(a.Plain))
	}
	if err := json.NewEncoder(t.in).Encode(pair); err != nil {
		return []string{"traffic-diff ended"}
	}
	line, err := t.out.ReadBytes('\n')
	var found [][2]string
	if err = errors.Join(err, json.Unmarshal(line, &found)); err != nil {
		return []string{"traffic-diff ended"}
	}
	for _, f := range found {
		if f[1] == "status_changed" {
			red = append(red, "status")
			continue
		}
		red = append(red, "body"+strings.NewReplacer("[*]", "/*", ".", "/", `["`, "/", `"]`, "").Replace(strings.TrimPrefix(f[0], "$")))
	}
	return red
}
