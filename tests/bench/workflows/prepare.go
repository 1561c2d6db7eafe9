package main

import (
	"context"
	"embed"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"switchyard.dev/tools/argoworkflows"
	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/demo/local"
	"switchyard.dev/tools/listed"
	"switchyard.dev/tools/samples"
)

//go:embed objects
var objects embed.FS

// prepare brings Switchyard and Argo Workflows onto a node, and the image in which scripts run.
func prepare(ctx context.Context, c demo.Config) error {
	c.Tests = false
	if err := local.Build(ctx, c.Root); err != nil { // the command line, for jobs
		return err
	}
	c.Step("Argo Workflows (the first time it is compiled: about five minutes)")
	argo, err := argoworkflows.Find(ctx, c.Root)
	if err != nil {
		return err
	}
	archives, err := listed.Pack(ctx, c.Root, "bench-workflows", []listed.Image{{
		Name: "argo-workflows", Reference: "switchyard.dev/argo-workflows:dev", User: samples.User,
		Files: []listed.File{{Host: argo.Controller, Path: "/bin/workflow-controller"}, {Host: argo.Executor, Path: "/bin/argoexec"}},
	}})
	if err != nil {
		return err
	}
	debian, err := samples.Pack(ctx, c.Root, "debian")
	if err != nil {
		return err
	}
	if err := demo.PrepareNode(ctx, c); err != nil {
		return err
	}
	if err := c.Cluster.Load(ctx, append(archives, debian...)); err != nil {
		return err
	}
	if err := demo.PrepareOperator(ctx, c); err != nil {
		return err
	}
	c.Step("Argo Workflows, from its manifests, into namespace argo")
	return install(ctx, c.Cluster, argo)
}

// install installs Argo Workflows, and the namespace in which all runs.
func install(ctx context.Context, cluster demo.Cluster, argo argoworkflows.Argo) (err error) {
	folder, err := os.MkdirTemp("", "switchyard-argo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	manifests, err := filepath.Rel(folder, argo.Manifests)
	if err != nil {
		return err
	}
	content := strings.ReplaceAll(object("argo"), "MANIFESTS", manifests)
	if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(content), 0o600); err != nil {
		return err
	}
	const place = `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"argo"}}` + "\n---\n"
	for _, step := range []struct {
		stdin string
		args  []string
	}{
		{place + object("place"), []string{"apply", "-f", "-"}},
		{"", []string{"apply", "--server-side", "-k", folder}},
		{"", []string{"rollout", "status", "deployment/workflow-controller", "-n", "argo", "--timeout=180s"}},
	} {
		c := cluster.Tool(ctx, append([]string{"kubectl"}, step.args...)...)
		c.Stdin, c.Stdout, c.Stderr = strings.NewReader(step.stdin), os.Stdout, os.Stderr
		if err := c.Run(); err != nil {
			return err
		}
	}
	return nil
}

// object returns one of objects.
func object(name string) string {
	content, err := objects.ReadFile("objects/" + name + ".yaml")
	if err != nil {
		panic(err) // It is compiled in.
	}
	return string(content)
}
