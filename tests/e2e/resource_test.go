package e2e

import (
	"testing"

	"switchyard.dev/tests/e2e/sample"
)

// The other samples take more images and servers: tests/e2e/workflows.
func TestASandboxHasATenantOfItsOwn(t *testing.T) {
	shop := sample.Open(t)
	shop.MakeRoom()
	shop.Live(shop.Python())
}
