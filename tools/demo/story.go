package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"switchyard.dev/tools/traffic"
)

// routingKey is spec.id of manifests/sandbox.yaml.
const routingKey = "k7q2m9x4v1tz8"

// story is what the acts of the demo share.
type story struct {
	step     func(format string, args ...any)
	client   *http.Client
	frontend string // base URL of HotROD's frontend, by cluster address
	customer string // the same of its customer service
	rest     string // of the route server's REST API
	Figures
}

// Story runs the demo scenario in a prepared cluster and prints its figures at the end. It must run
// inside the cluster's network (Cluster.Inside). It returns an error if the scenario failed, but
// not if a figure misses its target.
func Story(ctx context.Context) error {
	s := &story{step: Steps(), client: traffic.NewClient()}
	acts := []func(context.Context) error{
		s.find, s.before, s.fork, s.sideBySide, s.lookInside, s.mixed, s.measureChanges, s.takeAway,
	}
	for _, act := range acts {
		if err := act(ctx); err != nil {
			return err
		}
	}
	s.Print()
	return nil
}

// Figures are the measured figures of a scenario, which it prints at its end.
type Figures struct{ lines []string }

// Add notes a figure.
func (f *Figures) Add(name, value, unit, target string, holds bool) {
	verdict := map[bool]string{true: "holds", false: "short"}[holds]
	f.lines = append(f.lines, fmt.Sprintf("%s %s %s (target %s): %s\n", name, value, unit, target, verdict))
}

// Print prints the figures.
func (f *Figures) Print() { fmt.Print("\n" + strings.Join(f.lines, "")) }

// find looks the addresses up: outside of pods nothing resolves their names.
func (s *story) find(ctx context.Context) error {
	for _, service := range []struct {
		namespace, name string
		port            int
		url             *string
	}{
		{"hotrod", "frontend", 8080, &s.frontend},
		{"hotrod", "customer", 8081, &s.customer},
		{"signadot", "routeserver", 7778, &s.rest},
	} {
		url, err := ServiceURL(ctx, service.namespace, service.name, service.port)
		if err != nil {
			return err
		}
		*service.url = url
	}
	return nil
}

// ServiceURL returns http://IP:port of a Service, by its cluster address.
func ServiceURL(ctx context.Context, namespace, name string, port int) (string, error) {
	ip, err := Kubectl(ctx, "", "get", "service", "-n", namespace, name, "-o", "jsonpath={.spec.clusterIP}")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("http://%s:%d", ip, port), nil
}

// Kubectl runs kubectl with standard input and returns its output. The error contains the standard
// error of kubectl.
func Kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "kubectl", args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("kubectl %s: %s", strings.Join(args, " "), strings.TrimSpace(string(exit.Stderr)))
	}
	return string(out), err
}

// before shows that the new customer is unknown as yet, with and without key.
func (s *story) before(ctx context.Context) error {
	s.step("unchanged HotROD: a ride for customer 900, which is unknown")
	answer, err := s.dispatch(ctx, "")
	if err != nil {
		return err
	}
	fmt.Printf("   %s\n", answer)
	return nil
}

// dispatch asks the frontend for a ride for customer 900. The frontend asks
// customer, so the key has to come through HotROD's own propagation.
func (s *story) dispatch(ctx context.Context, key string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.frontend+"/dispatch?customer=900", nil)
	if err != nil {
		return "", err
	}
	if key != "" {
		req.Header.Set("Baggage", "sd-routing-key="+key)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return "", fmt.Errorf("ask the frontend: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, strings.TrimSpace(string(body))), nil
}

// fork applies the sandbox and waits until it is ready.
func (s *story) fork(ctx context.Context) error {
	sandbox, err := manifests.ReadFile("manifests/sandbox.yaml")
	if err != nil {
		return err
	}
	s.step("kubectl apply of a SignadotSandbox that forks customer, and customer alone")
	fmt.Print(indent(string(sandbox)))
	begin := time.Now()
	if _, err := Kubectl(ctx, string(sandbox), "apply", "-f", "-"); err != nil {
		return err
	}
	if _, err := Kubectl(ctx, "", "wait", "signadotsandbox/new-customer", "--for=condition=Ready", "--timeout=120s"); err != nil {
		s.explain(ctx)
		return err
	}
	fmt.Printf("   ready after %.1f s\n", time.Since(begin).Seconds())
	return nil
}

// explain prints diagnostics of a sandbox that does not become ready.
func (s *story) explain(ctx context.Context) {
	for _, args := range [][]string{
		{"get", "signadotsandbox", "new-customer", "-o", `jsonpath={range .status.conditions[*]}{.type}={.status} {.reason}: {.message}{"\n"}{end}`},
		{"get", "pods", "-A"},
	} {
		out, err := Kubectl(ctx, "", args...)
		fmt.Print(indent(out))
		if err != nil {
			fmt.Println("  ", err)
		}
	}
}

func (s *story) sideBySide(ctx context.Context) error {
	s.step("the same request, without and with the key")
	for _, key := range []string{"", routingKey} {
		// A fork answers only after its key is known to the sidecars; the sandbox
		// was ready, so this is already so.
		answer, err := s.dispatch(ctx, key)
		if err != nil {
			return err
		}
		header := "(no key)"
		if key != "" {
			header = "baggage: sd-routing-key=" + key
		}
		fmt.Printf("   GET /dispatch?customer=900  %-38s ->  %s\n", header, answer)
		if served := strings.HasPrefix(answer, "200 "); served != (key != "") {
			return fmt.Errorf("that is the wrong side: %s got %q", header, answer)
		}
	}
	return nil
}

// lookInside shows the rule and the objects.
func (s *story) lookInside(ctx context.Context) error {
	s.step("why: the rule, from the route server's REST API")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.rest+"/api/v1/workloads/routing-rules?routingKey="+routingKey, nil)
	if err != nil {
		return err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return fmt.Errorf("ask the route server: %w", err)
	}
	defer resp.Body.Close()
	var rules any
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&rules); err != nil {
		return fmt.Errorf("read the rules (status %d): %w", resp.StatusCode, err)
	}
	pretty, err := json.MarshalIndent(rules, "", "  ")
	if err != nil {
		return err
	}
	fmt.Print(indent(string(pretty)))
	s.step("the objects behind it: kubectl get signadot --all-namespaces")
	out, err := Kubectl(ctx, "", "get", "signadot", "--all-namespaces")
	if err != nil {
		return err
	}
	fmt.Print(indent(out))
	return nil
}

// takeAway deletes the sandbox and shows that the key goes to the baseline.
func (s *story) takeAway(ctx context.Context) error {
	s.step("kubectl delete of the sandbox: the key goes to the baseline")
	if _, err := Kubectl(ctx, "", "delete", "signadotsandbox", "new-customer", "--timeout=60s"); err != nil {
		return err
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		answer, err := s.dispatch(ctx, routingKey)
		if err != nil {
			return err
		}
		if strings.Contains(answer, "invalid customer ID") {
			fmt.Printf("   GET /dispatch?customer=900  baggage: sd-routing-key=%s  ->  %s\n", routingKey, answer)
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("30 s after the sandbox was deleted, its key still gets %q", answer)
		}
		time.Sleep(50 * time.Millisecond)
	}
	return PrintLeft(ctx)
}

// PrintLeft prints which of the operator's objects the cluster still has.
func PrintLeft(ctx context.Context) error {
	left, err := Kubectl(ctx, "", "get", "signadot", "--all-namespaces", "-o", "name")
	if err != nil {
		return err
	}
	fmt.Printf("   %s\n", cmp.Or(strings.TrimSpace(left), "nothing is left of it"))
	return nil
}

func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimRight(text, "\n") + "\n") {
		b.WriteString("   " + line)
	}
	return b.String()
}

// Goodbye prints how to explore the cluster that the demo leaves running.
func Goodbye(c Cluster) {
	fmt.Fprintf(os.Stdout, `
The cluster is still up. To look around:  %s
    kubectl get pods -A
    kubectl apply -f tools/demo/manifests/sandbox.yaml && kubectl get signadot -A
    kubectl logs -n signadot deployment/routeserver
To take it down:  %s
`, c.Enter(), c.Leave())
}
