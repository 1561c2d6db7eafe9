package apiserver

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"switchyard.dev/tools/cache"
)

// startDefined starts an API server on a copy of definedStore.
func startDefined() (*Server, error) {
	defined, err := definedStore()
	if err != nil {
		return nil, err
	}
	data, err := os.MkdirTemp("", "etcd-")
	if err != nil {
		return nil, fmt.Errorf("make room for the data of etcd: %w", err)
	}
	if err := copyStore(defined, data); err != nil {
		return nil, errors.Join(err, os.RemoveAll(data))
	}
	s, err := startOn(data)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(data))
	}
	s.data = data
	return s, nil
}

// definedStore returns the data of an etcd in which our definitions are. They are put there once
// for each set of definitions and programs, and kept in the cache: to be given them costs an API
// server as much as to start.
func definedStore() (folder string, err error) {
	crds, err := customResources()
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(crds)
	if err != nil {
		return "", fmt.Errorf("write our definitions: %w", err)
	}
	// The link's target is named after the sources of the programs.
	programs, err := filepath.EvalSymlinks(Binaries())
	if err != nil {
		return "", fmt.Errorf("find etcd (it comes from `go run -C tools/cluster . build --only apiserver`): %w", err)
	}
	sum := sha256.Sum256(append(text, programs...))
	return cache.Folder(filepath.Join("etcd", hex.EncodeToString(sum[:8])), func(half string) (err error) {
		data, err := os.MkdirTemp("", "etcd-")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(data)) }()
		s, err := startOn(data)
		if err != nil {
			return err
		}
		if err := errors.Join(s.install(crds), s.Stop()); err != nil {
			return err
		}
		return copyStore(data, half)
	})
}

// copyStore copies the data of an etcd that has ended. Nearly all of it is room that its log
// keeps free, which is not copied.
func copyStore(from, to string) error {
	if out, err := exec.Command("cp", "--archive", "--sparse=always", from+"/.", to).CombinedOutput(); err != nil {
		return fmt.Errorf("copy the data of an etcd: %w\n%s", err, out)
	}
	return nil
}
