// Program gen writes every generated file of the repository, or checks that
// what is written is what would be written.
//
//	go run -C tools/gen .           regenerate
//	go run -C tools/gen . --check   name every stale file and fail; write nothing
//
// What it makes, from what:
//
//	protos/**/*.proto          -> protos/gen/**             (protobuf and gRPC code)
//	protos/controlplane/v2/openapi.yaml -> zz_generated.* beside it (types, client, JSON)
//	protos/crd/v1/*.go         -> protos/crd/v1/zz_generated.deepcopy.go
//	protos/crd/v1/*.go         -> charts/operator/templates/crds/*.yaml
//	+kubebuilder:rbac markers  -> charts/operator/files/manager-rules.yaml
//
// Every generator gives its files as a value (Files); nothing touches the disk
// before all of them have succeeded, so a failed run leaves the tree as it was.
// --check compares that same value with the disk. The generators are the
// public ones (controller-tools, protocompile, protoc-gen-go,
// protoc-gen-go-grpc and oapi-codegen), their versions pinned in this module's go.mod, so
// nothing has to be installed.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

func main() {
	check := flag.Bool("check", false, "compare with what is there, write nothing, fail when anything is stale")
	root := flag.String("root", "../..", "root folder of the repository")
	flag.Parse()
	if err := run(*root, *check); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// run generates everything below root and then writes it or compares it.
func run(root string, check bool) error {
	want, err := generate(root)
	if err != nil {
		return err
	}
	changes, err := want.changes(root)
	if err != nil {
		return err
	}
	if !check {
		return apply(root, changes, os.Stdout)
	}
	for _, c := range changes {
		fmt.Fprintf(os.Stderr, "stale: %s (%s)\n", c.path, c.what())
	}
	if len(changes) > 0 {
		return errors.New("generated files are stale: write them with `go run -C tools/gen .`")
	}
	return nil
}
