package traffic

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/har"
	"switchyard.dev/sidecars/traffic/published"
	"switchyard.dev/tools/switchyard/show"
)

// output is where exchanges are written.
type output interface {
	add(x *trafficv1.Exchange, m published.Meta) error
	// end completes it, with the identity of the recording; empty: it did not begin.
	end(comment string) error
}

// Recordings may have data of users: others cannot read them.
const folderMode, fileMode = 0o700, 0o600

// record returns metadata as a record of a stream, in JSON or YAML.
func record(m published.Meta, form string) ([]byte, error) {
	if form == show.YAML {
		return m.Document()
	}
	return m.Line(), nil
}

// folder is a folder with one for each request, and the stream of their metadata.
type folder struct {
	root   *os.Root
	stream *short
}

const streamJSON, streamYAML = "meta.jsons", "meta.yamls"

// openFolder opens a folder, which is created where it is missing. With clean, earlier recordings are deleted from it.
func openFolder(path, form string, clean bool) (*folder, error) {
	if err := os.MkdirAll(path, folderMode); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	if clean {
		err = cleanFolder(root)
	}
	name := streamJSON
	if form == show.YAML {
		name = streamYAML
	}
	to, wrong := root.OpenFile(name, appended, fileMode)
	return &folder{root, &short{to, form}}, errors.Join(err, wrong)
}

// cleanFolder deletes the files of recordings, and nothing else.
func cleanFolder(root *os.Root) error {
	entries, err := fs.ReadDir(root.FS(), ".")
	for _, e := range entries {
		_, unfit := published.Folder(e.Name())
		_, other := root.Stat(filepath.Join(e.Name(), published.MetaFile))
		if e.IsDir() && unfit == nil && other == nil || e.Name() == streamJSON || e.Name() == streamYAML {
			err = errors.Join(err, root.RemoveAll(e.Name()))
		}
	}
	return err
}

func (f *folder) add(x *trafficv1.Exchange, m published.Meta) error {
	name, err := published.Folder(x.GetId())
	if err != nil {
		return err
	}
	if err := f.root.MkdirAll(name, folderMode); err != nil {
		return err
	}
	files := map[string][]byte{published.RequestFile: published.Request(x), published.MetaFile: m.File()}
	if x.GetResponse() != nil {
		files[published.ResponseFile] = published.Response(x)
	}
	for file, text := range files {
		if err := f.root.WriteFile(filepath.Join(name, file), text, fileMode); err != nil {
			return err
		}
	}
	return f.stream.add(x, m) // It names whole folders.
}

func (f *folder) end(string) error { return errors.Join(f.stream.Close(), f.root.Close()) }

// archive is a HAR file. It has its name once it is complete.
type archive struct {
	*har.Writer
	part *os.File
	path string
}

func openArchive(path, version string) (*archive, error) {
	part, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.part")
	if err != nil {
		return nil, err
	}
	return &archive{har.New(part, version), part, path}, nil
}

func (a *archive) add(x *trafficv1.Exchange, _ published.Meta) error { return a.Add(x) }

func (a *archive) end(comment string) error {
	if err := errors.Join(a.End(comment), a.part.Close()); err != nil || comment == "" {
		return errors.Join(err, os.Remove(a.part.Name()))
	}
	return os.Rename(a.part.Name(), a.path)
}

// short is a file that the metadata of requests is appended to.
type short struct {
	*os.File
	form string
}

const appended = os.O_APPEND | os.O_CREATE | os.O_WRONLY

func openShort(path, form string) (*short, error) {
	to, err := os.OpenFile(path, appended, fileMode)
	return &short{to, form}, err
}

func (s *short) add(_ *trafficv1.Exchange, m published.Meta) error {
	line, err := record(m, s.form)
	if err == nil {
		_, err = s.Write(line)
	}
	return err
}

func (s *short) end(string) error { return s.Close() }
