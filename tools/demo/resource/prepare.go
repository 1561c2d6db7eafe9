package resource

import (
	"context"

	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/demo/local"
	"switchyard.dev/tools/samples"
)

// Prepare makes the cluster, and brings Switchyard, podinfo and Redis into it, with these
// images for samples beside the operator's.
func Prepare(ctx context.Context, c demo.Config, images ...string) error {
	c.Tests = true // podinfo is an image of the tests.
	return between(ctx, c, images, demo.PrepareNode, demo.PrepareShop)
}

// PrepareBeside does so beside HotROD.
func PrepareBeside(ctx context.Context, c demo.Config, images ...string) error {
	return between(ctx, c, images, demo.Prepare, demo.AddShop)
}

// PrepareImages brings Switchyard and HotROD into the cluster, with these images for samples.
func PrepareImages(ctx context.Context, c demo.Config, images ...string) error {
	return between(ctx, c, images, demo.PrepareNode, demo.Prepare)
}

// between makes images before the node, and brings them onto it before the rest.
func between(ctx context.Context, c demo.Config, images []string, node, rest func(context.Context, demo.Config) error) error {
	if err := local.Build(ctx, c.Root); err != nil {
		return err
	}
	c.Step("images in which steps run (Debian is fetched the first time, and OpenTofu compiled where it is needed: up to six minutes)")
	archives, err := samples.Pack(ctx, c.Root, images...)
	if err != nil {
		return err
	}
	if err := node(ctx, c); err != nil {
		return err
	}
	c.Step("images in which steps run, onto the node")
	if err := c.Cluster.Load(ctx, archives); err != nil {
		return err
	}
	return rest(ctx, c)
}
