package tunnels

import (
	"errors"
	"io"
	"os"
)

// Printer has figures to print.
type Printer interface{ Print(w io.Writer) }

// Main runs a scene in a folder, a new one where none is named, and prints the results.
func Main(folder string, scene func(folder string) (Printer, error)) (err error) {
	if folder == "" {
		if folder, err = os.MkdirTemp("", "tunnels-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	}
	figures, err := scene(folder)
	if err == nil {
		figures.Print(os.Stdout)
	}
	return err
}
