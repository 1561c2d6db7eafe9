package jobs

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
)

func download(s *command.Session) *cobra.Command {
	c := &cobra.Command{
		Use: "get JOB PATH", Short: "Get an artifact of a job, or its output", Args: cobra.ExactArgs(2),
		Long: `Get an artifact of a job, by its path in the specification; @stdout and @stderr are the output.
"job get" lists the artifacts. It is printed, or written to the file of -o.`,
		Example: "  switchyard artifact get pr-12-x7k2p /tmp/report.xml -o report.xml\n  switchyard artifact get pr-12-x7k2p @stdout",
	}
	file := c.Flags().StringP("output", "o", "", "write to this `file`")
	c.RunE = func(c *cobra.Command, args []string) error {
		at, err := open(c.Context(), s, "")
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(c.Context())
		defer cancel()
		if *file == "" {
			return at.download(ctx, args[0], args[1], s.Out)
		}
		return written(*file, func(to io.Writer) error { return at.download(ctx, args[0], args[1], to) })
	}
	return c
}

// written writes a file whole or not at all. Its content is beside it before, under a name that no other user can know and prepare.
func written(file string, write func(io.Writer) error) error {
	part := file + "." + rand.Text() + ".part"
	to, err := os.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666) //nolint:gosec // As other programs write files.
	if err != nil {
		return exit.Failed.Errorf("%w", err)
	}
	if err = errors.Join(write(to), to.Close()); err == nil {
		err = os.Rename(part, file)
	}
	if err != nil {
		_ = os.Remove(part)
	}
	return err
}
