package link

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/tests/selfsigned"
	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/demo/local"
)

//go:embed hosted.yaml
var hostedSandbox string

// host is the Service of the control plane, and name its sandbox.
const (
	host       = "controlplane.controlplane.svc"
	hostedName = "hosted"
)

// hosted is a control plane in the cluster, from its chart, and a developer that reaches nothing else of the cluster.
type hosted struct {
	story
	folder string
	laptop *local.Machine
	// connected: the operator has the token of the control plane.
	connected bool
	// previews is the address of the Service for previews.
	previews string
}

// Hosted runs the scenario of a control plane from its chart, in a cluster with Switchyard and HotROD, inside the
// cluster's network. It returns an error if the scenario failed.
func Hosted(ctx context.Context) (err error) {
	h, err := newHosted(demo.Steps())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.remove()) }()
	for _, act := range []func(context.Context) error{h.install, h.developer, h.register, h.apply, h.reach, h.restart, h.preview, h.delete} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return nil
}

// newHosted returns the scenario. The caller removes it.
func newHosted(step func(string, ...any)) (h *hosted, err error) {
	h = &hosted{story: story{step: step}, laptop: local.NewMachine("developer", 62)}
	h.folder, err = os.MkdirTemp("", "switchyard-hosted-")
	return h, err
}

func (h *hosted) file(name string) string { return filepath.Join(h.folder, name) }

// tool runs a program. The error has its output.
func tool(ctx context.Context, argv ...string) error {
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv[:min(len(argv), 4)], " "), err, out)
	}
	return nil
}

// install installs the chart of the control plane with new keys and a certificate.
func (h *hosted) install(ctx context.Context) error {
	h.step("the chart of the control plane, into namespace controlplane: one replica, its state in SQLite")
	pair, err := selfsigned.New(host)
	if err != nil {
		return err
	}
	if err := pair.Write(h.folder); err != nil {
		return err
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	if err := os.WriteFile(h.file("keys"), []byte("first "+base64.StdEncoding.EncodeToString(key)+"\n"), 0o600); err != nil {
		return err
	}
	values, err := demo.ChartValues()
	if err != nil {
		return err
	}
	if err := tool(ctx, "kubectl", "create", "namespace", "controlplane"); err != nil {
		return err
	}
	if err := h.certify(ctx); err != nil {
		return err
	}
	for _, argv := range [][]string{
		{"kubectl", "-n", "controlplane", "create", "secret", "generic", "tls", "--from-file=" + h.file(trust.CertFile), "--from-file=" + h.file(trust.KeyFile), "--from-file=" + h.file(trust.BundleFile)},
		{"kubectl", "-n", "controlplane", "create", "secret", "generic", "keys", "--from-file=" + h.file("keys")},
		append([]string{"helm", "install", "controlplane", "charts/controlplane", "--namespace", "controlplane", "--wait", "--timeout", "300s",
			"--set", "hostname=" + host + ",tls.secret=tls,keys.secret=keys,organisation=" + linked.Organisation +
				",previews.domains." + linked.Organisation + "=" + previewDomain + ",previews.tls.secret=previews"}, values...),
	} {
		if err := tool(ctx, argv...); err != nil {
			return err
		}
	}
	h.step("the key of the first administrator is in Secret controlplane-admin")
	return h.until(ctx, "the key", func() (string, bool, error) {
		text, err := demo.Kubectl(ctx, "", "-n", "controlplane", "get", "secret", "controlplane-admin", "-o", "jsonpath={.data.api-key}")
		if err != nil || text == "" {
			return "", false, err
		}
		key, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return "", false, err
		}
		return fmt.Sprintf("%d characters", len(key)), true, os.WriteFile(h.file("api.key"), key, 0o600)
	})
}

// developer makes a machine that reaches the Service of the control plane alone.
func (h *hosted) developer(ctx context.Context) error {
	address, err := demo.Kubectl(ctx, "", "-n", "controlplane", "get", "service", "controlplane", "-o", "jsonpath={.spec.clusterIP}")
	if err != nil {
		return err
	}
	if h.previews, err = demo.Kubectl(ctx, "", "-n", "controlplane", "get", "service", "controlplane-previews", "-o", "jsonpath={.spec.clusterIP}"); err != nil {
		return err
	}
	h.step("a developer's machine, which reaches the control plane (%s, previews at %s) and nothing else of the cluster", address, h.previews)
	if err := h.laptop.Add(ctx, address+"/32", h.previews+"/32"); err != nil {
		return err
	}
	etc := filepath.Join("/etc/netns", h.laptop.Name)
	if err := os.MkdirAll(etc, 0o755); err != nil { //nolint:gosec // other users' programs read it, too
		return err
	}
	return os.WriteFile(filepath.Join(etc, "hosts"), []byte("127.0.0.1 localhost\n"+address+" "+host+"\n"), 0o600)
}

// command returns a program on the developer's machine.
func (h *hosted) command(ctx context.Context, argv ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", h.laptop.Name}, argv...)...)
	c.Env, c.Dir = append(os.Environ(), "KUBECONFIG="+os.DevNull), h.folder
	return c
}

// on runs a program on the developer's machine, and returns its output.
func (h *hosted) on(ctx context.Context, argv ...string) (string, error) {
	c := h.command(ctx, argv...)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s%s", filepath.Base(argv[0]), err, stdout.String(), stderr.String())
	}
	return stdout.String(), err
}

// quietly runs the command line with the control plane, and returns its output.
func (h *hosted) quietly(ctx context.Context, args ...string) (string, error) {
	return h.on(ctx, h.line(args)...)
}

// line returns the command line with the control plane.
func (h *hosted) line(args []string) []string {
	return slices.Concat([]string{local.Program("switchyard"), "--control-plane", "https://" + host, "--control-plane-ca", h.file(trust.BundleFile), "--api-key-file", h.file("api.key")}, args)
}

// switchyard is quietly, and prints the command and its output, unless that is JSON.
func (h *hosted) switchyard(ctx context.Context, args ...string) (string, error) {
	fmt.Printf("   developer$ switchyard %s\n", strings.Join(args, " "))
	out, err := h.quietly(ctx, args...)
	if !slices.Contains(args, "json") {
		fmt.Print("   ", strings.ReplaceAll(strings.TrimSpace(out), "\n", "\n   "), "\n")
	}
	return out, err
}

// register registers the cluster, connects its agent, and gives the organisation the rights of developers.
func (h *hosted) register(ctx context.Context) error {
	h.step("the cluster is registered, and helm upgrade of the operator with its token connects the agent")
	fmt.Printf("   developer$ switchyard cluster add --name %s > token\n", linked.Name)
	token, err := h.quietly(ctx, "cluster", "add", "--name", linked.Name)
	if err != nil {
		return err
	}
	if _, err := demo.Kubectl(ctx, rights, "apply", "-f", "-"); err != nil {
		return err
	}
	if err := os.WriteFile(h.file("token"), []byte(strings.TrimSpace(token)), 0o600); err != nil {
		return err
	}
	h.connected = true
	if err := tool(ctx, "helm", "upgrade", "switchyard", "charts/operator", "--namespace", "signadot", "--reuse-values", "--wait", "--timeout", "300s",
		"--set", "controlPlane.tunnelAddr="+host+":7443", "--set-file", "controlPlane.clusterToken="+h.file("token"), "--set-file", "controlPlane.ca="+h.file(trust.BundleFile)); err != nil {
		return err
	}
	return h.until(ctx, "the cluster", func() (string, bool, error) {
		out, err := h.quietly(ctx, "cluster", "list")
		return strings.Join(strings.Fields(out), " "), strings.Contains(out, "switchyard"), err
	})
}

// apply applies the published form of a sandbox, and waits until it is ready.
func (h *hosted) apply(ctx context.Context) error {
	h.step("the published form of a sandbox is applied through the control plane")
	fmt.Print("   ", strings.ReplaceAll(strings.TrimSpace(hostedSandbox), "\n", "\n   "), "\n")
	if err := os.WriteFile(h.file("sandbox.yaml"), []byte(hostedSandbox), 0o600); err != nil {
		return err
	}
	if _, err := h.switchyard(ctx, "sandbox", "apply", "-f", "sandbox.yaml"); err != nil {
		return err
	}
	text, err := demo.Kubectl(ctx, "", "get", "signadotsandbox", hostedName, "-o", `jsonpath={.metadata.annotations.switchyard\.dev/author} {.status.conditions[?(@.type=="Ready")].status}`)
	fmt.Printf("   kubectl: author %s\n", text)
	if err == nil && (!strings.Contains(text, "switchyard:controlplane:"+linked.Organisation) || !strings.HasSuffix(text, "True")) {
		err = errors.New("the object is not ready, or has another author")
	}
	return err
}

// reach sends a request with the routing key and one without, through the proxy access of the control plane.
func (h *hosted) reach(ctx context.Context) error {
	text, err := h.switchyard(ctx, "sandbox", "get", hostedName, "-o", "json")
	if err != nil {
		return err
	}
	var got struct{ RoutingKey string }
	if err := json.Unmarshal([]byte(text), &got); err != nil || got.RoutingKey == "" {
		return fmt.Errorf("the sandbox has no routing key: %w", err)
	}
	h.step("requests of the developer through the control plane, without and with routing key %s", got.RoutingKey)
	key, err := os.ReadFile(h.file("api.key"))
	if err != nil {
		return err
	}
	options := fmt.Sprintf("proxy = \"https://%s:8444\"\nproxy-user = \"%s:%s\"\nproxy-cacert = \"%s\"\n", host, linked.Name, key, h.file(trust.BundleFile))
	if err := os.WriteFile(h.file("curlrc"), []byte(options), 0o600); err != nil { //nolint:gosec // a folder of this test
		return err
	}
	for _, c := range []struct{ baggage, want string }{{"", "invalid customer ID"}, {"sd-routing-key=" + got.RoutingKey, "Driver"}} {
		if err := h.until(ctx, fmt.Sprintf("curl -H 'baggage: %s' %s", c.baggage, frontend), func() (string, bool, error) {
			text, err := h.on(ctx, "curl", "-K", h.file("curlrc"), "-sS", "--max-time", "10", "-H", "baggage: "+c.baggage, frontend)
			return strings.TrimSpace(text), strings.Contains(text, c.want), err
		}); err != nil {
			return err
		}
	}
	return nil
}

// restart replaces the pod of the control plane: the sandbox is as before.
func (h *hosted) restart(ctx context.Context) error {
	h.step("the control plane is restarted; its state is on its volume, and Secret controlplane-admin is deleted")
	for _, argv := range [][]string{
		{"kubectl", "-n", "controlplane", "rollout", "restart", "deployment/controlplane"},
		{"kubectl", "-n", "controlplane", "rollout", "status", "deployment/controlplane", "--timeout=180s"},
		{"kubectl", "-n", "controlplane", "wait", "--for=delete", "secret/controlplane-admin", "--timeout=120s"},
	} {
		if err := tool(ctx, argv...); err != nil {
			return err
		}
	}
	return h.until(ctx, "the sandbox", func() (string, bool, error) {
		out, err := h.quietly(ctx, "sandbox", "list")
		return strings.Join(strings.Fields(out), " "), strings.Contains(out, hostedName), err
	})
}

// delete deletes the sandbox through the control plane, and waits until the cluster has none.
func (h *hosted) delete(ctx context.Context) error {
	h.step("the sandbox is deleted through the control plane")
	if _, err := h.switchyard(ctx, "sandbox", "delete", hostedName); err != nil {
		return err
	}
	text, err := demo.Kubectl(ctx, "", "get", "signadotsandboxes", "-o", "name")
	if err == nil && strings.Contains(text, hostedName) {
		err = errors.New("the cluster still has the sandbox")
	}
	return err
}

// remove removes the control plane and the machine, also after a failure.
func (h *hosted) remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	h.step("the control plane and the agent's token are removed")
	h.laptop.Remove(ctx)
	var agent error
	if h.connected {
		agent = tool(ctx, "helm", "upgrade", "switchyard", "charts/operator", "--namespace", "signadot", "--reset-then-reuse-values", "--wait", "--timeout", "300s", "--set", "controlPlane.clusterToken=,controlPlane.tunnelAddr=,controlPlane.ca=")
	}
	release := tool(ctx, "helm", "uninstall", "controlplane", "--namespace", "controlplane", "--ignore-not-found", "--wait")
	rest := tool(ctx, "kubectl", "delete", "namespace", "controlplane", "--ignore-not-found", "--timeout=120s")
	_, bindings := demo.Kubectl(ctx, rights, "delete", "--ignore-not-found", "-f", "-")
	return errors.Join(agent, release, rest, bindings, os.RemoveAll(filepath.Join("/etc/netns", h.laptop.Name)), os.RemoveAll(h.folder))
}
