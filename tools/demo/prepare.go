package demo

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/tools/cache"
)

//go:embed manifests
var manifests embed.FS

// Config selects the location and the mode of the demo.
type Config struct {
	// Root is the repository's root.
	Root string
	// Cluster is where it is installed.
	Cluster Cluster
	// Tests: bring the images onto the node that tests need.
	Tests bool
	// Values are more arguments with which helm installs the chart.
	Values []string
	// Step receives the name of each step when it begins, and the duration of the previous one.
	Step func(format string, args ...any)
}

// imageTag is the tag of the images that the demo packs and that the chart uses.
const imageTag = "dev"

// step is one step of a preparation.
type step struct {
	name string
	run  func(context.Context, Config) error
}

var operatorStep = step{"Switchyard, from charts/operator, into namespace signadot", installChart}

// Prepare makes the cluster and installs Switchyard and HotROD into it, or
// brings both up to date with the working tree. It returns when every pod of
// both is ready.
func Prepare(ctx context.Context, c Config) error {
	return c.take(ctx, append(nodeSteps(), operatorStep,
		step{"HotROD, four services, into namespace hotrod", install("hotrod", meshHotROD)})...)
}

// PrepareNode makes the cluster and brings the images onto it, and installs nothing.
func PrepareNode(ctx context.Context, c Config) error { return c.take(ctx, nodeSteps()...) }

// PrepareOperator installs Switchyard on a node that has the images.
func PrepareOperator(ctx context.Context, c Config) error { return c.take(ctx, operatorStep) }

// PrepareShop installs Switchyard, and podinfo with its Redis, on a node that has the images.
func PrepareShop(ctx context.Context, c Config) error { return c.take(ctx, operatorStep, shopStep) }

// AddShop installs podinfo with its Redis beside what Prepare has installed, on a node that has
// the images.
func AddShop(ctx context.Context, c Config) error { return c.take(ctx, shopStep) }

var shopStep = step{"podinfo with a Redis server, into namespace shop", install("shop")}

// nodeSteps returns the steps that produce a node with the operator's images.
func nodeSteps() []step {
	return []step{
		{"a Kubernetes node (the first time it is compiled: about six minutes)", bringUp},
		{"images of our programs, Envoy and HotROD", loadImages},
	}
}

// take takes steps, one after the other.
func (c Config) take(ctx context.Context, steps ...step) error {
	if err := c.Cluster.Check(ctx); err != nil {
		return err
	}
	for i, step := range steps {
		c.Step("%d/%d %s", i+1, len(steps), step.name)
		if err := step.run(ctx, c); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// bringUp creates the cluster, and prints how to access it while the rest is built.
func bringUp(ctx context.Context, c Config) error {
	if err := c.Cluster.Up(ctx); err != nil {
		return err
	}
	fmt.Printf("you can inspect the cluster now in another terminal: %s\n", c.Cluster.Enter())
	return nil
}

// loadImages packs the images and brings them onto the node.
func loadImages(ctx context.Context, c Config) error {
	pack := exec.CommandContext(ctx, "go", "run", "-C", filepath.Join(c.Root, "tools", "image"), ".", "--out", imagesDir(), "--tag", imageTag,
		"--tests="+strconv.FormatBool(c.Tests))
	if err := run(pack); err != nil {
		return fmt.Errorf("pack images: %w", err)
	}
	archives, err := archives()
	if err != nil {
		return err
	}
	return c.Cluster.Load(ctx, archives)
}

func imagesDir() string { return filepath.Join(cache.Dir(), "images", imageTag) }

func archives() ([]string, error) { return filepath.Glob(filepath.Join(imagesDir(), "*.tar")) }

// generation names the images that were loaded by their content. Pods carry it
// as an annotation: the images keep one tag, and without it a pod would go on
// with an older build.
func generation() (string, error) {
	names, err := archives()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, name := range names {
		file, err := os.Open(name)
		if err != nil {
			return "", err
		}
		_, err = io.Copy(sum, file)
		file.Close()
		if err != nil {
			return "", fmt.Errorf("read %s: %w", name, err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

func installChart(ctx context.Context, c Config) error {
	values, err := ChartValues()
	if err != nil {
		return err
	}
	return run(c.Cluster.Tool(ctx, append([]string{"helm", "upgrade", "--install", "switchyard", filepath.Join(c.Root, "charts", "operator"),
		"--namespace", "signadot", "--create-namespace", "--hide-notes", "--wait", "--timeout", "300s"}, append(values, c.Values...)...)...))
}

// ChartValues returns the arguments with which helm installs the chart with the images that
// were packed last.
func ChartValues() ([]string, error) {
	gen, err := generation()
	if err != nil {
		return nil, err
	}
	return []string{"--set", "imageTag=" + imageTag, "--set-string", `podAnnotations.switchyard\.dev/images=` + gen}, nil
}

// install returns the function that installs an application in the namespace of its name; then runs before its pods are ready.
func install(name string, then ...func(context.Context, Config) error) func(context.Context, Config) error {
	return func(ctx context.Context, c Config) error {
		gen, err := generation()
		if err == nil {
			err = apply(ctx, c.Cluster, "manifests/"+name+".yaml", "IMAGES", gen)
		}
		for _, do := range then {
			if err == nil {
				err = do(ctx, c)
			}
		}
		if err != nil {
			return err
		}
		return run(c.Cluster.Tool(ctx, "kubectl", "rollout", "status", "deployment", "-n", name, "-l", "app", "--timeout=180s"))
	}
}

// meshHotROD replaces pods of HotROD without a sidecar: they were made while
// the injector was away.
func meshHotROD(ctx context.Context, c Config) error {
	pods, err := c.Cluster.Tool(ctx, "kubectl", "get", "pods", "-n", "hotrod", "-l", "app", "-o",
		`jsonpath={range .items[*]}{.metadata.name} {.spec.containers[*].name} {.spec.initContainers[*].name}{"\n"}{end}`).Output()
	if err != nil {
		return fmt.Errorf("list the pods of HotROD: %w", err)
	}
	for pod := range strings.Lines(string(pods)) {
		name := strings.Fields(pod)
		if len(name) == 0 || strings.Contains(pod, "sd-sidecar") {
			continue
		}
		if err := run(c.Cluster.Tool(ctx, "kubectl", "delete", "pod", "-n", "hotrod", "--wait=false", name[0])); err != nil {
			return err
		}
	}
	return nil
}

// apply applies a manifest of the demo with kubectl, after replacing words in it: old, new, old,
// new.
func apply(ctx context.Context, cluster Cluster, name string, replace ...string) error {
	content, err := manifests.ReadFile(name)
	if err != nil {
		return err
	}
	cmd := cluster.Tool(ctx, "kubectl", "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(strings.NewReplacer(replace...).Replace(string(content)))
	return run(cmd)
}

// began is the time when the demo was started. Its story is another process, with the same time.
var began = time.Now()

// Steps prints steps with the time since the start of the demo, to standard output.
func Steps() func(format string, args ...any) {
	return func(format string, args ...any) {
		fmt.Fprintf(os.Stdout, "\n== [%4.0f s] %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
}
