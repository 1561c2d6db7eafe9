package main

import "path/filepath"

// Where things stand, relative to the root of the repository.
const (
	module    = "switchyard.dev"
	toolDir   = "tools/gen"
	protoDir  = "protos"
	genDir    = "protos/gen"
	apiDir    = "protos/crd/v1"
	crdDir    = "charts/operator/templates/crds"
	rulesFile = "charts/operator/files/manager-rules.yaml"
)

// generate runs every generator over the tree at root.
func generate(root string) (Files, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	all := Files{}
	for _, generator := range []func(root string) (Files, error){protobufs, controlPlane, deepcopies, crds, rules} {
		made, err := generator(root)
		if err != nil {
			return nil, err
		}
		if err := all.merge(made); err != nil {
			return nil, err
		}
	}
	return all, nil
}
