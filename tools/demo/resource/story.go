package resource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/traffic"
)

const (
	sample = "kubernetes"
	// sandbox is the sample's, and its routing key; store is its resource.
	sandbox, store = "finn", "store"
	// requests are sent to each side.
	requests = 200
)

// story is what the acts share.
type story struct {
	step    func(format string, args ...any)
	folder  string // With the sample's files.
	podinfo string // Base URL, by cluster address.
	client  *http.Client
	before  Snapshot
	demo.Figures
}

// Story runs the scenario in a prepared cluster and prints its figures at the end. It must run
// inside the cluster's network (demo.Cluster.Inside). It returns an error if the scenario failed,
// but not if a figure misses its target.
func Story(ctx context.Context) (err error) {
	s := &story{step: demo.Steps(), client: traffic.NewClient()}
	if s.folder, err = os.MkdirTemp("", "switchyard-sample-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.folder)) }()
	for _, act := range []func(context.Context) error{s.find, s.plugin, s.begin, s.sideBySide, s.lookInside, s.end} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	s.Print()
	return nil
}

// find looks the address of podinfo up, and shows it as it is.
func (s *story) find(ctx context.Context) (err error) {
	if s.podinfo, err = demo.ServiceURL(ctx, "shop", "podinfo", 9898); err != nil {
		return err
	}
	s.step("podinfo as it is, with its own Redis: an order is written and read")
	if _, err := s.cache(ctx, http.MethodPost, "order", "", "of the baseline"); err != nil {
		return err
	}
	answer, err := s.cache(ctx, http.MethodGet, "order", "", "")
	fmt.Printf("   GET /cache/order  (no key)  ->  %s\n", answer)
	return err
}

// cache sends a request for a key of podinfo's cache, with a routing key unless that is empty, and
// returns the body.
func (s *story) cache(ctx context.Context, method, key, routingKey, body string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, s.podinfo+"/cache/"+key, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	if routingKey != "" {
		request.Header.Set("Baggage", "sd-routing-key="+routingKey)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return "", fmt.Errorf("ask podinfo: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	if response.StatusCode >= http.StatusInternalServerError {
		err = errors.Join(err, fmt.Errorf("podinfo answers %d: %s", response.StatusCode, text))
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", response.StatusCode, text)), err
}

// plugin keeps the sample's plugin, and what its steps may do.
func (s *story) plugin(ctx context.Context) error {
	if err := Sample(s.folder, sample); err != nil {
		return err
	}
	if _, err := demo.Kubectl(ctx, "", "apply", "-f", filepath.Join(s.folder, "rbac.yaml")); err != nil {
		return err
	}
	s.step("switchyard resourceplugin apply: how a Redis server is made, seeded and removed")
	text, err := os.ReadFile(filepath.Join(s.folder, "plugin.yaml"))
	if err != nil {
		return err
	}
	fmt.Print(indent(string(text)))
	said, err := Command(ctx, "resourceplugin", "apply", "-f", filepath.Join(s.folder, "plugin.yaml"))
	fmt.Print(indent(said))
	if err == nil {
		s.before, err = Look(ctx)
	}
	return err
}

// begin applies the sandbox and waits until it is ready.
func (s *story) begin(ctx context.Context) error {
	s.step("switchyard sandbox apply: a fork of podinfo, with a Redis of its own")
	text, err := os.ReadFile(filepath.Join(s.folder, "sandbox.yaml"))
	if err != nil {
		return err
	}
	fmt.Print(indent(string(text)))
	began := time.Now()
	said, err := Command(ctx, "sandbox", "apply", "-f", filepath.Join(s.folder, "sandbox.yaml"))
	fmt.Print(indent(said))
	if err != nil {
		more, failed := Command(ctx, "resource", "get", "--sandbox", sandbox, store)
		fmt.Print(indent(more))
		return errors.Join(err, failed)
	}
	took := time.Since(began).Seconds()
	s.Add("resource.ready", fmt.Sprintf("%.1f", took), "s", "at most 90", took <= 90)
	return nil
}

// sideBySide shows which store each side uses.
func (s *story) sideBySide(ctx context.Context) error {
	s.step("the same requests, without and with the key: each has a store of its own")
	if _, err := s.cache(ctx, http.MethodPost, "order", sandbox, "of the sandbox"); err != nil {
		return err
	}
	for _, side := range []struct {
		name, key string
		want      map[string]string
	}{
		{"baseline", "", map[string]string{"order": "200 of the baseline", "greeting": "404"}},
		{"sandbox", sandbox, map[string]string{"order": "200 of the sandbox", "greeting": "200 hello from finn"}},
	} {
		header := map[bool]string{true: "(no key)", false: "baggage: sd-routing-key=" + side.key}[side.key == ""]
		right := 0
		for i := range requests {
			path := []string{"order", "greeting"}[i%2]
			answer, err := s.cache(ctx, http.MethodGet, path, side.key, "")
			if err != nil {
				return err
			}
			if i < 2 {
				fmt.Printf("   GET /cache/%-8s  %-32s ->  %s\n", path, header, answer)
			}
			if answer == side.want[path] {
				right++
			}
		}
		s.Add("resource.own_store."+side.name, fmt.Sprint(right), "requests", fmt.Sprintf("%d of %d", requests, requests), right == requests)
	}
	return nil
}

// lookInside shows the steps and their output.
func (s *story) lookInside(ctx context.Context) error {
	for _, args := range [][]string{
		{"resource", "get", "--sandbox", sandbox, store},
		{"logs", "--sandbox", sandbox, "--resource", store},
	} {
		s.step("switchyard %s", strings.Join(args, " "))
		said, err := Command(ctx, args...)
		fmt.Print(indent(said))
		if err != nil {
			return err
		}
	}
	return nil
}

// end deletes the sandbox and shows that nothing is left.
func (s *story) end(ctx context.Context) error {
	s.step("switchyard sandbox delete: the fork goes, then its Redis")
	said, err := Command(ctx, "sandbox", "delete", sandbox)
	fmt.Print(indent(said))
	if err != nil {
		return err
	}
	var left Snapshot
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Second) {
		now, err := Look(ctx)
		if err != nil {
			return err
		}
		// Pods that end are not gone at once.
		if left = now.Since(s.before); left.String() == "" || time.Now().After(deadline) {
			break
		}
	}
	if text := left.String(); text == "" {
		fmt.Println("   nothing is left of it")
	} else {
		fmt.Println("   left:", text)
	}
	answer, err := s.cache(ctx, http.MethodGet, "order", sandbox, "")
	if err != nil {
		return err
	}
	fmt.Printf("   GET /cache/order     baggage: sd-routing-key=%s     ->  %s\n", sandbox, answer)
	s.Add("resource.left_in_cluster", fmt.Sprint(len(left.Objects)), "objects", "0", len(left.Objects) == 0)
	s.Add("resource.left_in_store", fmt.Sprint(len(left.Keys)), "keys", "0", len(left.Keys) == 0)
	return nil
}

func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimRight(text, "\n") + "\n") {
		b.WriteString("   " + line)
	}
	return b.String()
}
