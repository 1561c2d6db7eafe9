package node

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"switchyard.dev/tools/cluster/internal/layout"
	"switchyard.dev/tools/cluster/internal/netns"
)

// probeTime bounds one question to one part.
const probeTime = 3 * time.Second

// Probe checks the health of a part, through a client that works inside the network namespace. The
// error names the failed check.
func Probe(ctx context.Context, n layout.Node, client *http.Client, p Part) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	if p.Check.URL != "" {
		return probeURL(ctx, client, p.Check.URL)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(n.Bin(), p.Check.Command[0]), p.Check.Command[1:]...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := netns.Do(n.NetNS(), cmd.Start); err != nil {
		return fmt.Errorf("asking %s: %w", p.Name, err)
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w: %s", p.Check.Command[0], err, lastLine(out.String()))
	}
	return nil
}

func probeURL(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("asking %s: %w", url, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s: %s", url, response.Status, failing(string(body)))
	}
	return nil
}

// failing returns the failed checks from the output of /readyz and /healthz.
func failing(body string) string {
	var bad []string
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "[-]") {
			bad = append(bad, strings.TrimSpace(strings.TrimPrefix(line, "[-]")))
		}
	}
	if len(bad) == 0 {
		return lastLine(body)
	}
	return strings.Join(bad, ", ")
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}
