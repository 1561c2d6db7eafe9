package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"
	"sigs.k8s.io/controller-tools/pkg/crd"
	"sigs.k8s.io/controller-tools/pkg/deepcopy"
	"sigs.k8s.io/controller-tools/pkg/genall"
	"sigs.k8s.io/controller-tools/pkg/loader"
)

// capture is an output rule of controller-tools that keeps what is written.
type capture map[string]*bytes.Buffer

// Open returns the buffer of an output file.
func (c capture) Open(_ *loader.Package, name string) (io.WriteCloser, error) {
	c[name] = &bytes.Buffer{}
	return openBuffer{c[name]}, nil
}

// openBuffer is a buffer that can be closed.
type openBuffer struct{ *bytes.Buffer }

// Close does nothing: the content stays in the buffer.
func (openBuffer) Close() error { return nil }

// runGenerator runs one generator of controller-tools over Go packages of the
// tree at root and returns what it wrote, by the name it chose.
func runGenerator(root string, generator genall.Generator, pkgs ...string) (capture, error) {
	out := capture{}
	var complaints bytes.Buffer
	runtime, err := genall.Generators{&generator}.ForRootsWithConfig(&packages.Config{Dir: root}, pkgs...)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", strings.Join(pkgs, " "), err)
	}
	runtime.OutputRules = genall.OutputRules{Default: out}
	runtime.ErrorWriter = &complaints
	if runtime.Run() {
		return nil, fmt.Errorf("generate from %s failed; its messages stand above %s", strings.Join(pkgs, " "), complaints.String())
	}
	return out, nil
}

// deepcopies generates the DeepCopy methods of the custom resources.
func deepcopies(root string) (Files, error) {
	if !exists(root, apiDir) {
		return nil, nil
	}
	out, err := runGenerator(root, deepcopy.Generator{}, "./"+apiDir)
	if err != nil {
		return nil, err
	}
	files := Files{}
	for name, content := range out {
		files[path.Join(apiDir, name)] = content.Bytes()
	}
	return files, nil
}

// crds generates the chart's CustomResourceDefinitions.
func crds(root string) (Files, error) {
	if !exists(root, apiDir) {
		return nil, nil
	}
	yes := true
	generator := crd.Generator{
		CRDVersions:                []string{"v1"},
		GenerateEmbeddedObjectMeta: &yes,
		OmitToolVersion:            &yes,
	}
	out, err := runGenerator(root, generator, "./"+apiDir)
	if err != nil {
		return nil, err
	}
	files := Files{}
	for name, content := range out {
		template, err := chartCRD(content.Bytes())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		files[path.Join(crdDir, name)] = template
	}
	return files, nil
}

// exists reports whether a folder of the repository is there.
func exists(root, dir string) bool {
	_, err := os.Stat(filepath.Join(root, dir))
	return !errors.Is(err, os.ErrNotExist)
}
