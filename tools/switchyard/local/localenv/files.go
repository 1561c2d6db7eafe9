package localenv

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/fork/variables"
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

// maxOwn is the maximum size of a sandbox's settings for a workload, with variables substituted: no
// Kubernetes object is larger.
const maxOwn = 3 << 20

// customize adds the sandbox's settings for its workload to the environment and files of a process.
func customize(ctx context.Context, c client.Reader, o *crdv1.SignadotSandbox, workload string, of *baseline.Workload, made []crdv1.Resource, in *containerenv.Input) error {
	text := o.Annotations[crdv1.AnnotationLocal]
	if text == "" {
		return nil
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return exit.No.Errorf("annotation %s of sandbox %s is not a JSON object by the names of workloads: %w\nApply the sandbox again", crdv1.AnnotationLocal, o.Name, err)
	}
	content := all[workload]
	if content == nil {
		return nil
	}
	main, err := containerenv.Main(in.Template, in.Container)
	if err != nil {
		return exit.Usage.Errorf("%w", err)
	}
	known := variables.Values{".baseline.container": cmp.Or(of.MainContainer(), main.Name)}
	for _, r := range made {
		known[".resources."+r.Spec.Name+".objectName"] = r.Name
	}
	if bytes.Contains(content, []byte(".forks.")) {
		if err := forks(ctx, c, o, known); err != nil {
			return err
		}
	}
	content, err = known.Substitute(content, false, maxOwn)
	if err != nil {
		return exit.No.Errorf("what sandbox %s gives workload %s cannot be had: %w\nResources and forks are known once the sandbox is ready", o.Name, workload, err)
	}
	var changes crdv1.LocalWorkload
	if err = json.Unmarshal(content, &changes); err == nil {
		err = in.Customize(changes)
	}
	if err != nil {
		return exit.No.Errorf("what sandbox %s gives workload %s cannot be had: %w\nMend local in its specification, and apply it again", o.Name, workload, err)
	}
	return nil
}

// forks adds how the forks of a sandbox are reached, as other forks know it.
func forks(ctx context.Context, c client.Reader, o *crdv1.SignadotSandbox, known variables.Values) error {
	var list crdv1.ForkedWorkloadList
	if err := c.List(ctx, &list, client.MatchingLabels{crdv1.LabelSandbox: crdv1.LabelValue(o.Name)}); err != nil {
		return fmt.Errorf("list the forks of sandbox %s: %w", o.Name, err)
	}
	for i := range list.Items {
		w := &list.Items[i]
		ref, _ := w.BaselineRef()
		reached, _, _ := variables.ReachedBy(w)
		if reached.Host == "" || w.DeletionTimestamp != nil {
			continue
		}
		prefix := ".forks." + ref.Kind + "/" + ref.Namespace + "/" + ref.Name + ".service."
		known[prefix+"host"], known[prefix+"port"] = reached.Host, strconv.Itoa(int(reached.Port))
	}
	return nil
}

// runFolders begins the names of the folders of run, below the system's folder for temporary files.
const runFolders = "switchyard-run-"

// Folder is a temporary folder with the files of a local process. A lock marks it as in use: the
// program holds it, and so does the process, which inherits Lock. A folder without a holder, as
// after kill -9, is removed when the next one is created.
type Folder struct {
	// Root has the files.
	Root string
	// Lock is for the process to inherit.
	Lock *os.File
	top  string
}

// NewFolder creates a folder for a workload, and removes those that no process uses any more.
func NewFolder(workload string) (*Folder, error) {
	removeUnused(os.TempDir())
	top, err := os.MkdirTemp("", runFolders+workload+"-")
	if err != nil {
		return nil, err
	}
	f := &Folder{top: top, Root: filepath.Join(top, "root")}
	fresh := filepath.Join(top, "new")
	f.Lock, err = os.OpenFile(fresh, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err == nil {
		err = unix.Flock(int(f.Lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err == nil { // By this name it is never seen without its lock.
		err = os.Rename(fresh, filepath.Join(top, "lock"))
	}
	if err == nil {
		err = os.Mkdir(f.Root, ownFolder)
	}
	if err != nil {
		return nil, errors.Join(err, f.Remove())
	}
	return f, nil
}

// Release removes the folder, unless a process has inherited its lock and is still running: then
// the next NewFolder after the end of that process does.
func (f *Folder) Release() error {
	_ = f.Lock.Close() // the process has its own
	lock, err := os.OpenFile(filepath.Join(f.top, "lock"), os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	f.Lock = lock
	if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return lock.Close()
	}
	return f.Remove()
}

// Remove removes the folder.
func (f *Folder) Remove() error {
	if f.Lock != nil {
		defer f.Lock.Close()
	}
	return errors.Join(os.RemoveAll(f.Root), os.RemoveAll(f.top))
}

// removeUnused removes folders of this user that no process holds. One that cannot be removed stays.
func removeUnused(dir string) {
	all, _ := os.ReadDir(dir)
	for _, one := range all {
		path := filepath.Join(dir, one.Name())
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() || !strings.HasPrefix(one.Name(), runFolders) {
			continue
		}
		if of, ok := info.Sys().(*syscall.Stat_t); !ok || int(of.Uid) != os.Geteuid() {
			continue
		}
		lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR|unix.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		f := &Folder{Root: filepath.Join(path, "root"), Lock: lock, top: path}
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = f.Remove()
		} else {
			_ = lock.Close()
		}
	}
}
