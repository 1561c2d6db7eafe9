package library

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// rootWith is a folder with a program and what it needs, as in an image.
func rootWith(t *testing.T, program string) string {
	t.Helper()
	files, err := Needed(program)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for _, f := range append(files, File{Host: program, Path: "/program"}) {
		content, err := os.ReadFile(f.Host)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(root, f.Path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func run(t *testing.T, root string, args ...string) (string, error) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test runs a program in a root of its own: run it as root")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/program", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestEnvoyRunsWithItsLibrariesAlone(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "run", "./tools/envoy/cmd/envoy-path")
	cmd.Dir, cmd.Stderr = filepath.Join("..", "..", ".."), os.Stderr
	path, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	root := rootWith(t, strings.TrimSpace(string(path)))
	out, err := run(t, root, "--version")
	if err != nil || !strings.Contains(out, "version:") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestAProgramFailsWithoutOneOfItsLibraries(t *testing.T) {
	shell, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	root := rootWith(t, shell)
	if out, err := run(t, root, "-c", "echo whole"); err != nil || out != "whole\n" {
		t.Fatalf("%v: %s", err, out)
	}
	files, err := Needed(shell)
	if err != nil {
		t.Fatal(err)
	}
	libc := slices.IndexFunc(files, func(f File) bool { return filepath.Base(f.Path) == "libc.so.6" })
	if err := os.Remove(filepath.Join(root, files[libc].Path)); err != nil {
		t.Fatal(err)
	}
	if out, err := run(t, root, "-c", "echo whole"); err == nil {
		t.Errorf("ran without its C library: %s", out)
	}
}

func TestAStaticProgramNeedsNothing(t *testing.T) {
	dir := t.TempDir()
	source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "main")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", program, source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if files, err := Needed(program); err != nil || len(files) != 0 {
		t.Errorf("%v, %v", files, err)
	}
	if _, err := Needed(source); err == nil || !strings.Contains(err.Error(), "not a Linux program") {
		t.Errorf("error %v for a text file", err)
	}
}
