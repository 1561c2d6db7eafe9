package pack

import (
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/empty"
)

func TestAWrongNameIsRefused(t *testing.T) {
	if err := Write(filepath.Join(t.TempDir(), "image.tar"), "Not A Name", empty.Image); err == nil {
		t.Error("no error")
	}
}
