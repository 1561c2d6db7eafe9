// Package find finds Smart Tests in files and folders, with their names and labels as published clients give them.
package find

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"switchyard.dev/workflows/smarttest"
)

// labelsFile has the labels of the tests in a folder and all folders below, which can set them again.
const labelsFile = ".labels"

// At returns the tests at paths, each once, in the order of their names: files, and all *.star files of folders and below.
//
// The name of a test is REPOSITORY/PATH in a git repository, else HOST@/ABSOLUTE/PATH. Its labels are those of the
// .labels files from the root of the repository down to its folder, outside of one from the given folder on.
func At(paths ...string) ([]smarttest.Test, error) {
	found := map[string]smarttest.Test{}
	for _, path := range paths {
		absolute, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		from, name := base(absolute)
		err = filepath.WalkDir(absolute, func(file string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && strings.HasPrefix(entry.Name(), ".."):
				return fs.SkipDir // the files of a ConfigMap are links into it
			case entry.IsDir() || file != absolute && filepath.Ext(file) != ".star":
				return nil
			}
			of, err := labels(from, filepath.Dir(file))
			script, failed := read(file)
			if script != nil {
				t := name(file)
				t.Path, t.Labels, t.Script = file, of, string(script)
				found[file] = t
			}
			return errors.Join(err, failed)
		})
		if err != nil {
			return nil, err
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b smarttest.Test) int { return cmp.Compare(a.Name, b.Name) }), nil
}

// read returns a script, of which no more is read than is too much; nil: it is no file.
func read(file string) ([]byte, error) {
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return nil, err
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close() // it was read
	return io.ReadAll(io.LimitReader(f, smarttest.MaxScript+1))
}

// labels returns the labels of a folder, which is from or below it.
func labels(from, folder string) (out map[string]string, err error) {
	out = map[string]string{}
	if folder != from && folder != filepath.Dir(folder) {
		if out, err = labels(from, filepath.Dir(folder)); err != nil {
			return nil, err
		}
	}
	content, err := os.ReadFile(filepath.Join(folder, labelsFile))
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	for line := range strings.Lines(string(content)) {
		name, value, is := strings.Cut(strings.TrimSpace(line), "=")
		switch {
		case name == "" && !is, strings.HasPrefix(name, "#"):
		case !is:
			return nil, fmt.Errorf("%s has the line %q: write NAME=VALUE", filepath.Join(folder, labelsFile), line)
		default:
			out[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	return out, nil
}

// base returns the folder with the first labels of the tests at a path, and their names and places. Without git, there is no repository.
func base(path string) (from string, name func(file string) smarttest.Test) {
	from = path
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		from = filepath.Dir(path)
	}
	git := func(args ...string) string {
		out, _ := exec.Command("git", append([]string{"-C", from}, args...)...).Output() //nolint:noctx // it ends, and an error is no repository
		return strings.TrimSpace(string(out))
	}
	root := git("rev-parse", "--show-toplevel")
	if root == "" {
		host, _ := os.Hostname()
		return from, func(file string) smarttest.Test { return smarttest.Test{Name: cmp.Or(host, "unknown") + "@" + file} }
	}
	remotes := append(strings.Fields(git("remote")), "") // in the order of their names
	if slices.Contains(remotes, "origin") {
		remotes[0] = "origin"
	}
	repository := nameOf(git("remote", "get-url", remotes[0]))
	of := smarttest.Test{Repo: repository, Branch: git("rev-parse", "--abbrev-ref", "HEAD"), CommitSHA: git("rev-parse", "--verify", "--quiet", "HEAD")}
	return root, func(file string) smarttest.Test {
		t := of
		t.RepoPath = strings.TrimPrefix(strings.TrimPrefix(file, root), "/")
		t.Name = filepath.Join(repository, t.RepoPath)
		return t
	}
}

// nameOf returns HOST/PATH of the URL of a remote, without .git: also of HOST:PATH, as ssh has it. Empty: it has none.
func nameOf(remote string) string {
	if before, path, is := strings.Cut(remote, ":"); is && !strings.Contains(before, "/") && !strings.HasPrefix(path, "//") {
		remote = "ssh://" + before + "/" + path
	}
	u, err := url.Parse(remote)
	if err != nil {
		return ""
	}
	return filepath.Join(u.Host, strings.TrimSuffix(u.Path, ".git"))
}
