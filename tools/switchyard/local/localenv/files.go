package localenv

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/show"
	"switchyard.dev/tunnels/workstation/containerenv"
)

// ownFolder is the mode of folders that are created: files of Secrets may be in them.
const ownFolder = 0o700

func getFiles(s *command.Session) *cobra.Command {
	var w Workload
	var into string
	var keep bool
	c := &cobra.Command{
		Use: "get-files NAME", Short: "Write the files of an external workload's baseline", Args: cobra.ExactArgs(1),
		Long: `Write the volume files of the container that an external workload replaces: those of ConfigMaps,
of Secrets that you can read, and of the downward API; the outputs of the sandbox's resources; and
the files that the sandbox defines for the workload (local). They are written below a folder, with
their paths and permissions.`,
		Example: "  switchyard sandbox get-files mine --output-dir ./root",
	}
	w.Flags(c.Flags(), "local", "l")
	c.Flags().StringVarP(&into, "output-dir", "d", "", "the `folder`; by default NAME-files in the current one")
	c.Flags().BoolVar(&keep, "no-clobber", false, "do not overwrite existing files")
	c.RunE = s.InCluster(func(ctx context.Context, cluster client.WithWatch, args []string) error {
		r, _, err := w.Resolve(ctx, cluster, args[0])
		if err != nil {
			return err
		}
		folder, err := destination(into, args[0]+"-files")
		if err != nil {
			return err
		}
		written, err := Write(folder, r.Files, keep)
		if err != nil {
			return err
		}
		for _, note := range r.Notes {
			Note(s, note)
		}
		var text strings.Builder
		for _, w := range written {
			text.WriteString(show.Line(w.Path) + "\t" + show.Line(w.Source) + "\n")
		}
		return s.Show.Report(append([]File{}, written...), text.String())
	})
	return c
}

// destination creates the folder that the user names, or else a default one in the current folder,
// which may not be a link: the current folder can hold files of others, such as a checkout.
func destination(named, otherwise string) (string, error) {
	folder := cmp.Or(named, otherwise)
	if info, err := os.Lstat(folder); named == "" && err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return "", exit.Usage.Errorf("%s is a symbolic link, and files of Secrets would be written to its target: name the folder with --output-dir", folder)
	}
	return folder, os.MkdirAll(folder, ownFolder)
}

// File is a file that was written.
type File struct {
	// Path is where it is, Source where it is from.
	Path   string `json:"path"`
	Source string `json:"source"`
	// Kept: it was there, and stays as it was.
	Kept bool `json:"kept,omitempty"`
}

// Write writes files below a folder, and nowhere else, whatever links there are in it. Folders that
// it creates are for their owner alone.
func Write(folder string, files []containerenv.File, keep bool) (out []File, err error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	for _, f := range files {
		at := filepath.FromSlash(strings.TrimPrefix(f.Path, "/"))
		done := File{Path: filepath.Join(folder, at), Source: f.Source}
		if f.Folder {
			if err := root.MkdirAll(cmp.Or(at, "."), ownFolder); err != nil {
				return out, unwritten(f, err)
			}
			continue
		}
		if err := root.MkdirAll(path.Dir(at), ownFolder); err != nil {
			return out, unwritten(f, err)
		}
		done.Kept, err = put(root, at, f, keep)
		if err != nil {
			return out, unwritten(f, err)
		}
		out = append(out, done)
	}
	return out, nil
}

// put writes one file; kept reports whether one that was there stays.
func put(root *os.Root, at string, f containerenv.File, keep bool) (kept bool, err error) {
	if _, err := root.Lstat(at); err == nil {
		if keep {
			return true, nil
		}
		if err := root.Remove(at); err != nil { // It may not be writable, as files of Secrets are not.
			return false, err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	mode := fs.FileMode(f.Mode) | 0o400 // Its user has to read it.
	w, err := root.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return false, err
	}
	_, err = w.Write(f.Data)
	return false, errors.Join(err, w.Chmod(mode), w.Close())
}

func unwritten(f containerenv.File, err error) error {
	return exit.Failed.Errorf("%s (%s) is not written: %w", f.Path, f.Source, err)
}
