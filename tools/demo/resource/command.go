package resource

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"

	"switchyard.dev/tools/demo/local"
	"switchyard.dev/workflows/samples"
)

// Command runs the command line, which Prepare builds, and returns its output. An error has the
// output of errors.
func Command(ctx context.Context, args ...string) (string, error) {
	var out, errs bytes.Buffer
	c := exec.CommandContext(ctx, local.Program("switchyard"), args...)
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		return out.String(), fmt.Errorf("switchyard %s: %w: %s", strings.Join(args, " "), err, errs.String())
	}
	return out.String(), nil
}

// Sample writes the files of a sample into a folder that is there, for Command to read.
func Sample(folder, name string) error {
	files, err := fs.Sub(samples.Files, name)
	if err != nil {
		return err
	}
	return os.CopyFS(folder, files)
}
