package restarts

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"switchyard.dev/tools/demo"
)

// App is how an application ends.
type App struct {
	// Name is a word for it, and of its workloads.
	Name string
	// image is its image's name, lifecycle that of its container.
	image, lifecycle string
}

// Apps returns all of them: podinfo, which serves for three seconds after SIGTERM and then drains
// its connections; podinfo that is killed, as one that stops at once; and podinfo with a preStop
// hook that sleeps for 30 seconds.
func Apps() []App {
	return []App{
		{Name: "drains", image: "podinfo", lifecycle: `{}`},
		{Name: "stops", image: "podinfo-stops", lifecycle: `{}`},
		{Name: "lingers", image: "podinfo", lifecycle: `{preStop: {sleep: {seconds: 30}}}`},
	}
}

// Namespace is where the workloads are.
const Namespace = "restarts"

// The two workloads of an application: one without a sidecar, and one with.
func (a App) bare() string   { return a.Name + "-bare" }
func (a App) meshed() string { return a.Name + "-meshed" }

// key is the routing key of the sandbox that forks the meshed one, and its name.
func (a App) key() string { return "restart-" + a.Name }

//go:embed workload.yaml
var workloadManifest string

// Install makes both workloads of an application and the sandbox, and returns when all
// serve.
func (a App) Install(ctx context.Context) error {
	for name, inject := range map[string]string{a.bare(): "false", a.meshed(): "true"} {
		manifest := strings.NewReplacer("NAMESPACE", Namespace, "NAME", name, "INJECT", inject, "IMAGE", a.image, "LIFECYCLE", a.lifecycle).Replace(workloadManifest)
		if _, err := demo.Kubectl(ctx, manifest, "apply", "-f", "-"); err != nil {
			return err
		}
	}
	for _, name := range []string{a.bare(), a.meshed()} {
		if _, err := demo.Kubectl(ctx, "", "rollout", "status", "deployment/"+name, "-n", Namespace, "--timeout=180s"); err != nil {
			return err
		}
	}
	return a.makeSandbox(ctx)
}

// makeSandbox makes the sandbox and waits until it is ready.
func (a App) makeSandbox(ctx context.Context) error {
	if _, err := demo.Kubectl(ctx, a.sandbox(), "apply", "-f", "-"); err != nil {
		return err
	}
	return a.sandboxReady(ctx)
}

// sandbox forks the meshed workload, with another message.
func (a App) sandbox() string {
	return fmt.Sprintf(`{"apiVersion":"signadot.com/v1","kind":"SignadotSandbox","metadata":{"name":%[1]q},
"spec":{"id":%[1]q,"name":%[1]q,"customization":{"patches":[{
  "target":{"apiVersion":"apps/v1","kind":"Deployment","namespace":%[2]q,"name":%[3]q},
  "strategic":{"spec":{"template":{"spec":{"containers":[{"name":"app","env":[{"name":"PODINFO_UI_MESSAGE","value":"fork"}]}]}}}}}]}}}`,
		a.key(), Namespace, a.meshed())
}

func (a App) sandboxReady(ctx context.Context) error {
	_, err := demo.Kubectl(ctx, "", "wait", "signadotsandbox/"+a.key(), "--for=condition=Ready", "--timeout=120s")
	return err
}

// fork returns the name of the sandbox's Deployment.
func (a App) fork(ctx context.Context) (string, error) {
	out, err := demo.Kubectl(ctx, "", "get", "deployments", "-n", Namespace, "-l", "signadot.com/sandbox="+a.key(), "-o", "json")
	if err != nil {
		return "", err
	}
	var list struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return "", err
	}
	if len(list.Items) != 1 {
		return "", fmt.Errorf("sandbox %s has %d Deployments, not one", a.key(), len(list.Items))
	}
	return list.Items[0].Metadata.Name, nil
}

// Remove takes the sandbox and the workloads away.
func (a App) Remove(ctx context.Context) error {
	if _, err := demo.Kubectl(ctx, "", "delete", "signadotsandbox", a.key(), "--ignore-not-found", "--timeout=90s"); err != nil {
		return err
	}
	_, err := demo.Kubectl(ctx, "", "delete", "deployment,service", "-n", Namespace, a.bare(), a.meshed(), "--ignore-not-found", "--timeout=120s")
	return err
}
