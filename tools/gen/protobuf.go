package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	_ "google.golang.org/genproto/googleapis/api/annotations" // google/api/annotations.proto, for descriptorsKnown
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

// plugins are the tools of this module's go.mod that turn descriptors into Go,
// with the parameter each is given. With module=, a file lands where its
// go_package says: switchyard.dev/protos/gen/fact/v1 -> protos/gen/fact/v1.
var plugins = []struct {
	name, parameter string
	// only is the one file it is for; "" for all.
	only string
}{
	{name: "protoc-gen-go", parameter: "module=" + module},
	{name: "protoc-gen-go-grpc", parameter: "module=" + module},
	// REST from the same definitions, and the document that describes it. Only
	// services that say how they are to be had over HTTP get either.
	{name: "protoc-gen-grpc-gateway", parameter: "module=" + module},
	{
		name: "protoc-gen-openapiv2", only: openAPI + ".proto",
		parameter: "allow_merge=true,merge_file_name=protos/gen/" + openAPI + ",json_names_for_fields=true,openapi_configuration=../../" + protoDir + "/" + openAPI + ".openapi.yaml",
	},
}

// openAPI is the definition, without its ending, that is described as OpenAPI.
// What the document says about itself stands in a file beside it. The document
// has the same name, below the generated code, and an ending that its generator
// adds.
const openAPI = "routing/v1/routing"

// descriptorsKnown finds the .proto files that are compiled into this program:
// those of Google's API annotations, whose source no module carries.
func descriptorsKnown(path string) (protocompile.SearchResult, error) {
	file, err := protoregistry.GlobalFiles.FindFileByPath(path)
	return protocompile.SearchResult{Desc: file}, err
}

// protobufs generates the Go code of every .proto file of the tree at root.
// Names and imports in those files are relative to the folder protos.
func protobufs(root string) (Files, error) {
	ctx := context.Background()
	dir := filepath.Join(root, protoDir)
	names, err := protoNames(dir)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(protocompile.CompositeResolver{
			&protocompile.SourceResolver{ImportPaths: []string{dir}}, protocompile.ResolverFunc(descriptorsKnown),
		}),
		SourceInfoMode: protocompile.SourceInfoStandard, // comments become Go comments
	}
	compiled, err := compiler.Compile(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("compile protobufs below %s: %w", dir, err)
	}
	descriptors := withImports(compiled)
	out := Files{}
	for _, plugin := range plugins {
		of := names
		if plugin.only != "" {
			if !slices.Contains(names, plugin.only) {
				continue
			}
			of = []string{plugin.only}
		}
		made, err := runPlugin(ctx, root, plugin.name, &pluginpb.CodeGeneratorRequest{
			FileToGenerate: of,
			Parameter:      proto.String(plugin.parameter),
			ProtoFile:      descriptors,
		})
		if err != nil {
			return nil, err
		}
		if err := out.merge(made); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// protoNames lists the .proto files below dir, sorted.
func protoNames(dir string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".proto" {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		names = append(names, filepath.ToSlash(rel))
		return err
	})
	slices.Sort(names)
	return names, err
}

// withImports returns the descriptors of the files and of all they import, each
// once and after its imports, as plugins demand.
func withImports(files linker.Files) []*descriptorpb.FileDescriptorProto {
	var out []*descriptorpb.FileDescriptorProto
	seen := map[string]bool{}
	var add func(protoreflect.FileDescriptor)
	add = func(file protoreflect.FileDescriptor) {
		if seen[file.Path()] {
			return
		}
		seen[file.Path()] = true
		for i := range file.Imports().Len() {
			add(file.Imports().Get(i).FileDescriptor)
		}
		out = append(out, descriptorOf(file))
	}
	for _, file := range files {
		add(file)
	}
	return out
}

// descriptorOf returns the file as written, comments included when it was
// compiled here.
func descriptorOf(file protoreflect.FileDescriptor) *descriptorpb.FileDescriptorProto {
	if compiled, ok := file.(linker.Result); ok {
		return compiled.FileDescriptorProto()
	}
	return protodesc.ToFileDescriptorProto(file)
}

// runPlugin hands the request to a protoc plugin that is a tool of this module
// and returns the files it answers with.
func runPlugin(ctx context.Context, root, name string, request *pluginpb.CodeGeneratorRequest) (Files, error) {
	in, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	var out, complaints bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "tool", name)
	cmd.Dir = filepath.Join(root, toolDir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &complaints
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go tool %s: %w: %s", name, err, strings.TrimSpace(complaints.String()))
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out.Bytes(), &response); err != nil {
		return nil, fmt.Errorf("%s gave an answer that cannot be read: %w", name, err)
	}
	if response.Error != nil {
		return nil, fmt.Errorf("%s: %w", name, errors.New(response.GetError()))
	}
	files := Files{}
	for _, file := range response.File {
		files[file.GetName()] = []byte(file.GetContent())
	}
	return files, nil
}
