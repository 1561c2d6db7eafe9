package build

import (
	"archive/tar"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"switchyard.dev/tools/image/library"
)

func TestAListedImageHoldsItsFilesAndTheLibrariesOfItsPrograms(t *testing.T) {
	shell, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	needed, err := library.Needed(shell)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	text, list := filepath.Join(dir, "passwd"), filepath.Join(dir, "list.json")
	if err := os.WriteFile(text, []byte("root:x:0:0:root:/root:/sbin/nologin\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(list, []byte(`[{"Name": "`+tested+`", "Reference": "registry.test/`+tested+`:dev", "User": "7:7", "Entrypoint": ["/sh", "-c"],
"Files": [{"Host": "`+shell+`", "Path": "/sh"}, {"Host": "`+shell+`", "Path": "/bin/sh"}, {"Host": "`+text+`", "Path": "/etc/passwd"}]}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	listed, err := ReadListed(list)
	if err != nil {
		t.Fatal(err)
	}
	c, _ := run(t, Config{Out: t.TempDir(), Cache: t.TempDir(), Listed: listed})
	made := read(t, c)
	config, err := made.ConfigFile()
	if err != nil || config.Config.User != "7:7" || !slices.Equal(config.Config.Entrypoint, []string{"/sh", "-c"}) {
		t.Errorf("configuration %+v, %v", config, err)
	}
	want := []string{"bin/sh", "etc/passwd", "sh"}
	for _, n := range needed {
		want = append(want, strings.TrimPrefix(n.Path, "/"))
	}
	var got []string
	eachFile(t, made, func(header *tar.Header, _ []byte) {
		if header.Typeflag == tar.TypeReg {
			got = append(got, header.Name)
		}
	})
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("it holds %q, want %q", got, want)
	}
}
