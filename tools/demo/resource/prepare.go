package resource

import (
	"context"

	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/samples"
)

// Prepare makes the cluster, and brings Switchyard, podinfo and Redis into it, with these
// images for samples beside ours. Steps may use service accounts there.
func Prepare(ctx context.Context, c demo.Config, images ...string) error {
	c.Tests = true // podinfo is an image of the tests.
	c.Values = append(c.Values, "--set", "workflows.runner.allow={serviceAccount}")
	c.Step("images in which steps run (Debian is fetched the first time, OpenTofu compiled: up to six minutes)")
	archives, err := samples.Pack(ctx, c.Root, images...)
	if err != nil {
		return err
	}
	if err := demo.PrepareNode(ctx, c); err != nil {
		return err
	}
	c.Step("images in which steps run, onto the node")
	if err := c.Cluster.Load(ctx, archives); err != nil {
		return err
	}
	return demo.PrepareShop(ctx, c)
}
