package artifacts_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/workflows/jobexec/artifacts"
)

// container has files; size, if it is not 0, is the size that it claims for all of them.
type container struct {
	files map[string]string
	size  int64
}

func (c container) File(_ context.Context, path string) (io.ReadCloser, int64, error) {
	text, is := c.files[path]
	if !is {
		return nil, 0, errors.New("the file " + path + " does not exist")
	}
	size := c.size
	if size == 0 {
		size = int64(len(text))
	}
	return io.NopCloser(strings.NewReader(text)), size, nil
}

func specs(paths ...string) []*jobexecv1.ArtifactSpec {
	var all []*jobexecv1.ArtifactSpec
	for _, p := range paths {
		all = append(all, &jobexecv1.ArtifactSpec{Path: p, Meta: map[string]string{"of": p}})
	}
	return all
}

func TestEachArtifactIsStoredOrHasAProblem(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "artifacts")
	c := container{files: map[string]string{"/tmp/report.json": "{}", "out.bin": "\x00\x01", "page": "<!doctype html><p>", "large": strings.Repeat("x", 101), "rest": strings.Repeat("x", 100), "/etc/shadow": "secret"}}
	all := artifacts.Collect(t.Context(), dir, specs("/tmp/report.json", "none", "out.bin", "large", "page", "page", "../../etc/shadow", "/tmp/../etc/shadow", "@stdout", "", "a\x00b", "folder/", "rest", strings.Repeat("p", 5000)), c, artifacts.Limits{Each: 100, All: 110})
	for i, want := range []string{"", "does not exist", "", "at most 100", "", "twice", `".."`, `".."`, `"@"`, "0 bytes", "zero byte", "folder", "88 are left", "5000 bytes"} {
		got := all[i]
		if (got.Problem == "") != (want == "") || !strings.Contains(got.Problem, want) || got.Meta["of"] != got.Path {
			t.Errorf("%q: %v", got.Path, got)
		}
		text, err := os.ReadFile(artifacts.Path(dir, i))
		sum := sha256.Sum256([]byte(c.files[got.Path]))
		if want == "" && (err != nil || string(text) != c.files[got.Path] || got.Size != uint64(len(text)) || !bytes.Equal(got.Sha256, sum[:])) {
			t.Errorf("%q: %q, %v, %s", got.Path, text, got, hex.EncodeToString(got.Sha256))
		}
		if want != "" && (err == nil || got.Size != 0 || got.Sha256 != nil) {
			t.Errorf("%q has a problem and is there: %v", got.Path, got)
		}
	}
	if types := all[0].ContentType + " " + all[2].ContentType + " " + all[4].ContentType; types != "application/json application/octet-stream text/html; charset=utf-8" {
		t.Error(types)
	}
	if outside, err := filepath.Glob(filepath.Join(dir, "..", "*")); err != nil || len(outside) != 1 {
		t.Errorf("%v: %v", outside, err)
	}
}

// A main container that claims more or less than it sends, or more than there is space for, does no harm.
func TestWhatTheContainerClaimsIsBounded(t *testing.T) {
	dir, limits := filepath.Join(t.TempDir(), "artifacts"), artifacts.Limits{Each: 100, All: 100}
	for size, want := range map[int64]string{5: "", 20: "shorter", -1: "unknown", 1 << 62: "at most 100"} {
		c := container{map[string]string{"a": "0123456789"}, size}
		got := artifacts.Collect(t.Context(), dir, specs("a"), c, limits)[0]
		if (got.Problem == "") != (want == "") || !strings.Contains(got.Problem, want) || want == "" && got.Size != 5 {
			t.Errorf("size %d: %v", size, got)
		}
	}
	var many []string
	for i := range 10_000 {
		many = append(many, strconv.Itoa(i))
	}
	if err := artifacts.Refused(specs(many...)); err == nil || !strings.Contains(err.Error(), "10000 artifacts") {
		t.Error(err)
	}
	if err := artifacts.Refused(specs(many[:1000]...)); err != nil {
		t.Error(err)
	}
	if err := artifacts.Refused(specs(strings.Repeat("x", 600<<10))); err == nil {
		t.Error("600 KiB of paths are accepted")
	}
}

func TestAFullVolumeIsAProblemOfTheArtifact(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skip("needs root: ", err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH) //nolint:errcheck // of a test
	c := container{files: map[string]string{"large": strings.Repeat("x", 100<<10), "small": "x"}}
	all := artifacts.Collect(t.Context(), filepath.Join(dir, "a"), specs("large", "small"), c, artifacts.Limits{Each: 1 << 30, All: 1 << 30})
	if all[0].Problem != "the volume of the runner is full" || all[1].Problem != "" {
		t.Errorf("%v", all)
	}
}
