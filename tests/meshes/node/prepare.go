package node

import (
	"context"
	"errors"
	"os"

	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/istio"
	"switchyard.dev/tools/listed"
)

// Prepare makes the node, and brings onto it our images, those of Istio, and more if there are
// any.
func Prepare(ctx context.Context, c demo.Config, more ...listed.Image) error {
	if os.Getenv("SWITCHYARD_CLUSTER") == "kind" {
		return errors.New("a mesh runs on the one-node cluster alone: leave SWITCHYARD_CLUSTER out")
	}
	c.Step("Istio and its agents (the first time they are compiled: about a quarter of an hour)")
	mesh, err := istio.FindNode(ctx, c.Root)
	if err != nil {
		return err
	}
	archives, err := listed.Pack(ctx, c.Root, "istio", append(mesh.Images, more...))
	if err != nil {
		return err
	}
	if err := demo.PrepareNode(ctx, c); err != nil {
		return err
	}
	c.Step("images of Istio")
	return c.Cluster.Load(ctx, archives)
}
