package resource

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"switchyard.dev/tools/switchyard"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/sandboxes"
	"switchyard.dev/tools/switchyard/sandboxes/steps"
	"switchyard.dev/workflows/samples"
)

// Command runs the command line as a person would, and returns what it printed. Its error has
// what it complained of.
func Command(ctx context.Context, args ...string) (string, error) {
	var out, errs bytes.Buffer
	code := switchyard.Main(ctx, switchyard.Config{
		Config:  command.Config{Name: "switchyard", Getenv: os.Getenv, In: strings.NewReader(""), Out: &out, Err: &errs},
		Further: func(s *command.Session) []*cobra.Command { return append(sandboxes.Commands(s), steps.Commands(s)...) },
	}, args)
	if code != exit.OK {
		return out.String(), fmt.Errorf("switchyard %s: exit code %d: %s", strings.Join(args, " "), code, errs.String())
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
