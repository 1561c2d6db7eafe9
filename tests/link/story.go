package link

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/tests/link/plane"
	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/demo/local"
	"switchyard.dev/tools/wait"
)

//go:embed sandbox.yaml
var sandbox string

//go:embed rights.yaml
var rights string

const (
	// patience is the timeout of each condition that the scenario waits for.
	patience = 2 * time.Minute
	// key is spec.id of sandbox.yaml.
	key      = "linked"
	path     = "/apis/signadot.com/v1/signadotsandboxes/linked"
	frontend = "http://frontend.hotrod.svc:8080/dispatch?customer=900"
	cut      = 10 * time.Second
	back     = 2 * time.Second
)

// linked is the cluster as the control plane knows it.
var linked = plane.Cluster("demo")

// story is what the acts share.
type story struct {
	step    func(format string, args ...any)
	at      *plane.Plane
	figures []string
}

// Story runs the scenario in a cluster with Switchyard and HotROD, and prints its figures at the
// end. It must run inside the cluster's network (demo.Cluster.Inside), in the root of the
// repository. It returns an error if the scenario failed, but not if a figure misses its target.
func Story(ctx context.Context) (err error) {
	s := &story{step: demo.Steps()}
	s.step("a control plane on a machine outside: the cluster can connect to it, and it cannot connect to the cluster")
	s.at, err = plane.New(ctx, linked.Name)
	defer func() { err = errors.Join(err, s.at.Remove()) }()
	if err != nil {
		return err
	}
	if err := s.at.Serve(ctx); err != nil {
		return err
	}
	for _, act := range []func(context.Context) error{s.outside, s.install, s.apply, s.reach, s.connect, s.unplug, s.end} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	fmt.Println()
	for _, figure := range s.figures {
		fmt.Println(figure)
	}
	return nil
}

// outside shows that the control plane's machine reaches nothing of the cluster.
func (s *story) outside(ctx context.Context) error {
	url, err := demo.ServiceURL(ctx, "hotrod", "frontend", 8080)
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "ip", "netns", "exec", s.at.Machine.Name, "curl", "-sS", "--max-time", "2", url).CombinedOutput()
	fmt.Printf("   controlplane$ curl %s\n   %s\n", url, strings.TrimSpace(string(out)))
	if err == nil {
		return errors.New("the control plane reaches a Service without the link")
	}
	return nil
}

// install upgrades the release with a cluster token and waits for its session.
func (s *story) install(ctx context.Context) error {
	s.step("helm upgrade with a cluster token: the agent connects to %s", s.at.Address(plane.Agents))
	began := time.Now()
	upgrade := exec.CommandContext(ctx, "helm", "upgrade", "switchyard", "charts/operator", "--namespace", "signadot", "--reuse-values", "--wait", "--timeout", "300s",
		"--set", "controlPlane.tunnelAddr="+s.at.Address(plane.Agents), "--set", "controlPlane.clusterToken="+s.at.Tokens[linked.Name], "--set-file", "controlPlane.ca="+s.at.File(trust.BundleFile))
	if out, err := upgrade.CombinedOutput(); err != nil {
		return fmt.Errorf("helm upgrade: %w: %s", err, out)
	}
	return s.until(ctx, "a session", func() (string, bool, error) {
		for _, agent := range s.at.Link.Agents() {
			return fmt.Sprintf("cluster %s, epoch %d, operator %s, after %.0f s", agent.Cluster.Name, agent.Epoch, agent.Hello.GetOperatorVersion(), time.Since(began).Seconds()), true, nil
		}
		return "there is none", false, nil
	})
}

// apply applies a sandbox through the link, before and after the user has the rights.
func (s *story) apply(ctx context.Context) error {
	s.step("user jo of organisation acme applies a sandbox through the link, and has no rights in namespace hotrod")
	code, text, err := s.applied(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("   %d %s\n", code, text)
	if code != http.StatusForbidden {
		return errors.New("a user without rights is to be refused")
	}
	s.step("an administrator of the cluster gives the organisation's group the rights of a developer of hotrod")
	if _, err := demo.Kubectl(ctx, rights, "apply", "-f", "-"); err != nil {
		return err
	}
	if err := s.until(ctx, "the sandbox is applied", func() (string, bool, error) {
		code, text, err := s.applied(ctx)
		return strings.TrimSpace(fmt.Sprint(code, " ", text)), code == http.StatusCreated || code == http.StatusOK, err
	}); err != nil {
		return err
	}
	return s.until(ctx, "the sandbox is ready", func() (string, bool, error) {
		code, text, err := s.kubernetes(ctx, http.MethodGet, path, "", "")
		ready := ready(text)
		return fmt.Sprint(code, " Ready: ", ready), code == http.StatusOK && strings.HasPrefix(ready, "True"), err
	})
}

// applied applies the sandbox and returns the status and the message of the answer.
func (s *story) applied(ctx context.Context) (int, string, error) {
	code, text, err := s.kubernetes(ctx, http.MethodPatch, path+"?fieldManager=demo-link&force=true", "application/apply-patch+yaml", sandbox)
	var answer struct{ Message string }
	if json.Unmarshal([]byte(text), &answer) == nil {
		text = answer.Message
	}
	return code, text, err
}

// ready returns the status and the message of the condition Ready of an object.
func ready(object string) string {
	var o struct {
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	_ = json.Unmarshal([]byte(object), &o) // without an object it is not ready
	for _, c := range o.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status + " " + c.Message
		}
	}
	return "unknown"
}

// until waits for a condition, and prints the last answer.
func (s *story) until(ctx context.Context, what string, is func() (string, bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		seen, holds, err := is()
		if err == nil && holds {
			fmt.Printf("   %s: %s\n", what, seen)
			return nil
		}
		if wait.For(ctx, 50*time.Millisecond) != nil {
			return errors.Join(fmt.Errorf("%s: not after %s; last seen: %s", what, patience, seen), err)
		}
	}
}

// reach sends requests to a Service by its name.
func (s *story) reach(ctx context.Context) error {
	s.step("requests through the link to a Service by its name, without and with the key")
	for _, with := range []string{"", key} {
		code, text, err := s.service(ctx, frontend, with)
		if err != nil {
			return err
		}
		fmt.Printf("   GET %s  key %q  ->  %d %s\n", frontend, with, code, text)
		if (code == http.StatusOK) != (with == key) {
			return errors.New("that is the wrong side")
		}
	}
	return nil
}

// connect runs switchyard connect on a workstation that reaches the control plane alone.
func (s *story) connect(ctx context.Context) (err error) {
	s.step("switchyard connect with an API key and without a kubeconfig, on a workstation that reaches the control plane alone")
	laptop := local.NewMachine("workstation", 62)
	defer laptop.Remove(context.WithoutCancel(ctx))
	if err := laptop.Add(ctx, s.at.Machine.Address+"/32"); err != nil {
		return err
	}
	on := func(argv ...string) *exec.Cmd {
		c := exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", laptop.Name}, argv...)...)
		c.Env = append(os.Environ(), "KUBECONFIG="+os.DevNull, "XDG_RUNTIME_DIR="+s.at.Folder, "SSL_CERT_FILE="+s.at.File(trust.BundleFile))
		return c
	}
	args := []string{"connect", "--proxy-url", "https://" + s.at.Address(plane.Users), "--cluster", linked.Name, "--api-key-file", s.at.File(plane.KeyFile)}
	fmt.Printf("   workstation$ switchyard %s\n", strings.Join(args, " "))
	running := on(append([]string{local.Program("switchyard")}, args...)...)
	var said bytes.Buffer
	running.Stdout, running.Stderr = &said, &said
	if err := running.Start(); err != nil {
		return err
	}
	defer func() {
		_ = running.Process.Signal(os.Interrupt) // it may have ended
		_ = running.Wait()                       // it is interrupted
		fmt.Print("   ", strings.ReplaceAll(strings.TrimSpace(said.String()), "\n", "\n   "), "\n")
	}()
	for _, c := range []struct{ baggage, want string }{{"", "invalid customer ID"}, {"sd-routing-key=" + key, "Driver"}} {
		if err := s.until(ctx, fmt.Sprintf("curl --proxy http://127.0.0.1:8118 -H 'baggage: %s' %s", c.baggage, frontend), func() (string, bool, error) {
			text, err := on("curl", "-sS", "--max-time", "10", "--proxy", "http://127.0.0.1:8118", "-H", "baggage: "+c.baggage, frontend).CombinedOutput()
			return strings.TrimSpace(string(text)), strings.Contains(string(text), c.want), err
		}); err != nil {
			return err
		}
	}
	return nil
}

// unplug cuts the link, and repairs it.
func (s *story) unplug(ctx context.Context) error {
	s.step("the cable to the control plane is pulled for %s", cut)
	if err := s.at.Machine.Unplug(ctx); err != nil {
		return err
	}
	pulled := time.Now()
	_, _, err := s.service(ctx, frontend, key)
	if err == nil {
		return errors.New("a request is served without the cable")
	}
	fmt.Printf("   GET %s  ->  %v\n", frontend, err)
	if err := wait.For(ctx, cut-time.Since(pulled)); err != nil {
		return err
	}
	if err := s.at.Machine.Plug(ctx); err != nil {
		return err
	}
	plugged := time.Now()
	if err := s.until(ctx, "the cable is back, and a request is served", func() (string, bool, error) {
		code, text, err := s.service(ctx, frontend, key)
		return text, code == http.StatusOK, err
	}); err != nil {
		return err
	}
	took := time.Since(plugged)
	verdict := map[bool]string{true: "holds", false: "short"}[took <= back]
	s.figures = append(s.figures, fmt.Sprintf("LINK_BACK_AFTER_A_CUT %.2f s (target at most %.0f): %s", took.Seconds(), back.Seconds(), verdict))
	return nil
}

// end deletes the sandbox through the link, and removes the cluster token.
func (s *story) end(ctx context.Context) error {
	s.step("the sandbox is deleted through the link, and the cluster token is removed")
	code, _, err := s.kubernetes(ctx, http.MethodDelete, path, "", "")
	if err != nil || code != http.StatusOK {
		return errors.Join(err, fmt.Errorf("the deletion is answered %d", code))
	}
	if err := s.until(ctx, "the sandbox is deleted", func() (string, bool, error) {
		code, _, err := s.kubernetes(ctx, http.MethodGet, path, "", "")
		return fmt.Sprint(code), code == http.StatusNotFound, err
	}); err != nil {
		return err
	}
	if _, err := demo.Kubectl(ctx, rights, "delete", "-f", "-"); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "helm", "upgrade", "switchyard", "charts/operator", "--namespace", "signadot", "--reset-then-reuse-values", "--wait", "--timeout", "300s",
		"--set", "controlPlane.clusterToken=,controlPlane.tunnelAddr=,controlPlane.ca=").CombinedOutput()
	if err != nil {
		return fmt.Errorf("helm upgrade: %w: %s", err, out)
	}
	return nil
}
